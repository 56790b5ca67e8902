"""EmbedRank: cosines of a small encoder by hand, joined with IDF and position, and the way from text to keyword."""

import numpy as np
import pyarrow as pa
import pytest
from ranking_tables import by_chance, frequencies, tagged
from tiny_project import save_encoder

from keycontrast.ranking.blocks import TokenBlock
from keycontrast.ranking.chunks import with_chunks
from keycontrast.ranking.embedrank import EmbedRanking
from keycontrast.ranking.methods import keyness
from stages.keywords import embedrank
from stages.keywords.params import EmbedRank

IDF = frequencies([["graph", "text"], ["text"], ["word"]])


def with_encoder(source, **settings):
    """Stages read params in which the setting holds the folder itself (stages/params/paths.py)."""
    return EmbedRank(**settings).model_copy(update={"encoder": source})


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedrank") / "encoder"
    save_encoder(folder, ["graph", "word", "text", "old", "rank", "theory"])
    return f"path:{folder}"


def test_a_score_is_the_cosine_times_that_of_tfidf(source):
    tokens = tagged("old/ADJ graph/NOUN is/AUX text/NOUN", "word/NOUN")
    settings = with_encoder(source, chunks="adjectives")
    found = embedrank.run(tokens, settings, IDF).to_pylist()
    embed = EmbedRanking(source).vectors
    texts, phrases = embed(["old graph is text", "word"], 4), embed(["old graph", "text", "word"])
    assert np.linalg.norm(phrases, axis=1) == pytest.approx(1, abs=1e-5)
    block = TokenBlock(with_chunks(tokens, "adjectives"))
    wanted = dict(zip(["old graph", "text", "word"], keyness(block, block.chunks, IDF), strict=True))
    close = {"old graph": texts[0] @ phrases[0], "text": texts[0] @ phrases[1], "word": texts[1] @ phrases[2]}
    assert {one["keyword"]: one["score"] for one in found} == {
        name: pytest.approx(max(0, close[name]) * wanted[name], abs=1e-4 * wanted[name]) for name in wanted}
    assert close["word"] == pytest.approx(1, abs=1e-5)


def test_a_text_ranks_the_same_alone_and_among_others(source):
    tokens, settings = by_chance(3, texts=12), with_encoder(source, chunks="adjectives")
    whole = embedrank.run(tokens, settings, IDF)
    alone = pa.concat_tables([embedrank.run(tokens.slice(n, 1), settings, IDF) for n in range(tokens.num_rows)])
    assert whole.drop(["score"]).equals(alone.drop(["score"]))
    scores = [np.nan_to_num(one["score"].to_numpy(zero_copy_only=False).astype(float)) for one in (whole, alone)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-3)
    assert set(whole["status"].to_pylist()) <= {"ok", "empty_text", "no_candidate"}
