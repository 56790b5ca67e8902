"""PSI for whole tables, against the equations written out; its properties; its guards; the stage."""


import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from ingest_rows import token_rows

from pipeline.schemas import SCHEMAS
from stages.common.examples import source_pairs
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, read_frame, read_metadata, write_table
from stages.psi import psi
from stages.psi.params import Psi
from stages.psi.psi import centred_ranks, importance
from stages.psi.texts import Texts, VectorTable

# The equations, one number at a time; a text is a list of vectors.

def sentence_vector(words):
    return [max(word[d] for word in words) for d in range(len(words[0]))]


def ordinal_ranks(values):
    ranks = [0] * len(values)
    for rank, d in enumerate(sorted(range(len(values)), key=lambda d: values[d])):  # sorted() is stable
        ranks[d] = rank
    return ranks


def similarity(first, second):
    if not first or not second:
        return 0.0
    x, y = sentence_vector(first), sentence_vector(second)
    size = len(x)
    squares = sum((a - b) ** 2 for a, b in zip(ordinal_ranks(x), ordinal_ranks(y), strict=True))
    return 1 - 6 * squares / (size * (size**2 - 1))


def equation(first, second):
    """G of each word of ``first`` as against ``second``."""
    if len(first) == 1:
        return [1.0]
    whole = similarity(first, second)
    if abs(whole) < 1e-6:
        return [0.0] * len(first)
    return [(whole - similarity(first[:i] + first[i + 1:], second)) / whole for i in range(len(first))]


def as_texts(rows):
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Texts(np.arange(len(rows)), offsets, np.array([w for row in rows for w in row], dtype=np.int32))


def scores_of(found, request):
    return found.scores[found.offsets[request]:found.offsets[request + 1]]


def random_case(seed, width=12, words=25, texts=30, levels=None):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(words, width)).astype(np.float32)
    if levels:
        vectors = np.round(vectors * levels) / np.float32(levels) + np.float32(0.0)
    rows = [random.integers(0, words, random.integers(0, 9)).tolist() for _ in range(texts)]
    firsts, seconds = random.integers(0, texts, 80), random.integers(0, texts, 80)
    return vectors, rows, firsts, np.where(random.random(80) < 0.3, firsts, seconds)


@pytest.mark.parametrize("levels", [None, 2], ids=["no ties", "many ties"])
def test_scores_are_those_of_the_equations(levels):
    for seed in range(4):
        vectors, rows, firsts, seconds = random_case(seed, levels=levels)
        found = importance(vectors, as_texts(rows), firsts, seconds)
        for request, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
            words = [[vectors[w].tolist() for w in rows[text]] for text in (first, second)]
            assert found.similarity[request] == pytest.approx(similarity(*words), abs=1e-12)
            assert scores_of(found, request).tolist() == equation(*words)


def test_equal_coordinates_rank_by_their_number():
    values = np.array([[2, 1, 2, 1, 0], [0, 0, 0, 0, 0]], dtype=np.float32)
    assert ((centred_ranks(values) + 4) / 2).tolist() == [[3, 1, 4, 2, 0], [0, 1, 2, 3, 4]]
    extreme = np.array([[3e38, -3e38, 0.0, -2, 2]], dtype=np.float32)
    assert ((centred_ranks(extreme) + 4) / 2).tolist() == [[4, 0, 2, 1, 3]]


def test_guards():
    vectors = np.array([[1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3], [-1, -1, -1, -1]], dtype=np.float32)
    texts = as_texts([[0], [0, 2], [], [2], [3, 3], [0, 3]])
    found = importance(vectors, texts, np.array([0, 1, 0, 2, 2, 1]), np.array([1, 2, 2, 0, 2, 1]))
    assert scores_of(found, 0).tolist() == [1.0]  # without its only word nothing is left
    assert scores_of(found, 1).tolist() == [0.0, 0.0]  # nothing to be like
    assert scores_of(found, 2).tolist() == [1.0]
    assert scores_of(found, 3).tolist() == scores_of(found, 4).tolist() == []
    assert found.similarity[[1, 2, 3, 4]].tolist() == [0.0] * 4
    # ranks of (1 2 3 4) and (2 4 1 3) differ by -1 -2 2 1, so F is exactly 0 and no word has a share of it
    assert similarity([vectors[0].tolist()], [vectors[2].tolist()]) == 0.0
    none = importance(vectors, as_texts([[0, 3], [2]]), np.array([0]), np.array([1]))
    assert none.similarity.tolist() == [0.0] and scores_of(none, 0).tolist() == [0.0, 0.0]
    # all words unknown: their coordinates are equal, in order of their numbers
    unknown = importance(vectors, texts, np.array([4]), np.array([5]))
    assert unknown.similarity.tolist() == [1.0] and scores_of(unknown, 0).tolist() == [0.0, 0.0]
    assert importance(vectors, texts, np.zeros(0, np.int64), np.zeros(0, np.int64)).scores.tolist() == []


def test_tokens_find_their_vectors_in_lower_case_and_else_as_written():
    table = VectorTable(["cat", "NASA", "dog", "DOG"], np.arange(8, dtype=np.float32).reshape(4, 2))
    assert table.numbers(["Cat", "cat", "NASA", "nasa", "DOG", "", "xyz"]).tolist() == [0, 0, 1, 4, 2, 4, 4]
    assert table.matrix[table.unknown].tolist() == [-1.0, -1.0]


WORDS = [["How", "do", "I", "learn", "French", "?"], ["the", "best", "way", "to", "learn", "French"], ["hello"], [],
         ["why", "xyz", "why"], ["How", "do", "you", "do"]]


def tables():
    # text ids are not positions
    ids = [10 * (i + 1) for i in range(len(WORDS))]
    sources, targets = ([ids[place] for place in places] for places in ((0, 2, 0, 4, 3, 0), (1, 3, 1, 5, 0, 5)))
    examples = pd.DataFrame({
        "example_id": range(6), "split": ["train", "train", "train", "validation", "test", "train"],
        "source_id": sources, "target_id": targets, "negative_id": [ids[2], None, None, None, None, None],
        "reference_ids": [[t] for t in targets], "group": range(6),
        "negative_origin": [None] * 6})
    tokens = pd.DataFrame({"text_id": ids, "token": WORDS})
    vocabulary = sorted({word.lower() for row in WORDS for word in row} - {"xyz"})
    vectors = np.random.default_rng(5).normal(size=(len(vocabulary), 20)).astype(np.float32)
    return tokens, examples, VectorTable(vocabulary, vectors)


def pairs_of(examples):
    return pa.Table.from_pandas(examples[["source_id", "reference_ids"]])


def pieces(tokens, size):
    schema = pa.schema([("text_id", pa.int64()), ("token", pa.list_(pa.string()))])
    return lambda: (pa.Table.from_pandas(tokens[start:start + size], schema, preserve_index=False)
                    for start in range(0, len(tokens), size))


def stage_rows(size=100, **values):
    tokens, examples, vectors = tables()
    return pa.concat_tables(psi.run(pieces(tokens, size), pairs_of(examples), vectors, Psi(**values))).to_pandas()


def test_every_source_is_scored_with_itself_and_with_its_targets():
    rows = stage_rows()
    assert list(rows[["text_id", "mode", "pair"]].itertuples(index=False, name=None)) == [
        (10, "xx", 10), (10, "xy", 20), (10, "xy", 60), (30, "xx", 30), (30, "xy", 40), (40, "xx", 40),
        (40, "xy", 10), (50, "xx", 50), (50, "xy", 60)]
    _, _, vectors = tables()
    for text, pair, words, scores in rows[["text_id", "pair", "word", "score"]].itertuples(index=False):
        assert list(words) == WORDS[text // 10 - 1]
        both = [[vectors.matrix[row].tolist() for row in vectors.numbers(WORDS[place // 10 - 1])]
                for place in (text, pair)]
        assert list(scores) == equation(*both)
    assert set(stage_rows(modes=["xy"])["mode"]) == {"xy"}


def test_a_source_is_scored_with_each_of_its_references():
    _, examples, _ = tables()
    examples["reference_ids"] = [[20, 50, 60], [40], [20], [60], [10, 30], [60]]
    found = source_pairs(pairs_of(examples), ["xx", "xy"])
    assert found[found[:, 1] == 1][:, [0, 2]].tolist() == [
        [10, 20], [10, 50], [10, 60], [30, 40], [40, 10], [40, 30], [50, 60]]
    assert found[found[:, 1] == 0][:, 2].tolist() == [10, 30, 40, 50]


def test_where_keywords_are_named_every_text_is_scored_and_sources_as_before():
    tokens, examples, vectors = tables()
    rows = pa.concat_tables(psi.run(pieces(tokens, 2), pairs_of(examples), vectors, Psi(), True)).to_pandas()  # cut
    assert rows.loc[rows["mode"] == "xx", "text_id"].tolist() == sorted(tokens["text_id"])
    before = stage_rows()
    kept = rows[(rows["mode"] == "xy") | rows["text_id"].isin(examples["source_id"])]
    pd.testing.assert_frame_equal(kept.reset_index(drop=True), before.reset_index(drop=True))


def test_stage_writes_the_table_and_says_whose_vectors_it_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(psi, "CHUNK", 2)
    tokens, examples, vectors = tables()
    paths = DatasetPaths("tiny")
    words = vectors.words
    columns = {"word": words, "count": [1] * len(words), "vector": list(vectors.matrix[:-1])}
    filled = token_rows(tokens["text_id"], WORDS)
    for kind, rows in (("examples", examples), ("tokens", filled), ("word_vectors", columns)):
        write_table(paths.table(kind), SCHEMAS[kind], rows,
                    Provenance("test", "0", {"word_vectors": {"origin": "somewhere"}}))
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({
        "recipe": "test", "datasets": {"tiny": {"source": "x"}}, "keywords": {"datasets": ["tiny"]},
        "psi": {"datasets": ["tiny"]}}))
    assert psi.main(["tiny"]) == 0
    written = read_frame(paths.table("psi"), SCHEMAS["psi"])
    pd.testing.assert_frame_equal(written, stage_rows(), check_dtype=False)
    metadata = read_metadata(paths.table("psi"))
    assert metadata["models"] == {"word_vectors": {"origin": "somewhere"}} and metadata["rows"] == 9
    assert metadata["counts"]["rows_xx"] == 4 and metadata["counts"]["words_xy"] == 16
    assert metadata["counts"]["primary_xx"] == sum(written["primary"][written["mode"] == "xx"].map(sum))
    first = (paths.table("psi") / "part-00000.parquet").read_bytes()
    assert psi.main(["tiny"]) == 0 and (paths.table("psi") / "part-00000.parquet").read_bytes() == first
