"""The stage attribution: which pairs it scores, alignment with the tokens, bytes, metadata, a kill in the middle."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tiny_bert
import yaml
from ingest_rows import token_rows

from models.keywords.attribution import from_characters, word_saliency
from pipeline.schemas import SCHEMAS
from stages.attribution import attribution
from stages.attribution.params import Attribution
from stages.common import tables as tables_module
from stages.common.device import computed_in
from stages.common.lookup import Lookup
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, parts_of, read_frame, read_metadata, write_table

TEXTS = ["what is the best way to learn a language ?", "how do i learn a new language", "don't eat dog , cat",
         "why dog eat cat", "you can run", "cat"]
SMALL = {"batch_size": 4}


def values(**changes):
    return Attribution(**{**SMALL, **changes}).model_dump()


def tables(texts=TEXTS):
    sources, targets = [0, 2, 0, 5, 4], [1, 3, 1, 4, 5]  # the pair (0, 1) stands twice
    examples = pd.DataFrame({
        "example_id": range(5), "split": ["train", "train", "train", "validation", "test"], "source_id": sources,
        "target_id": targets, "negative_id": [None] * 5, "reference_ids": [[t] for t in targets], "group": range(5),
        "negative_origin": [None] * 5})
    words = [list(re.finditer(r"\w+(?=n't)|n't|\w+|[^\w\s]", text)) for text in texts]
    tokens = pd.DataFrame({"text_id": range(len(texts)), "token": [[m.group() for m in row] for row in words],
                           "start": [[m.start() for m in row] for row in words],
                           "end": [[m.end() for m in row] for row in words]})
    return examples, pd.DataFrame({"text_id": range(len(texts)), "text": texts, "language": "en"}), tokens


@pytest.fixture
def tokenizer(tmp_path):
    return tiny_bert.tokenizer(tmp_path)


def as_read(examples, texts, tokens):
    return (pa.Table.from_pandas(examples[["source_id", "reference_ids"]]),
            Lookup.of_table("texts", pa.Table.from_pandas(texts)),
            Lookup.of_table("tokens", pa.Table.from_pandas(tokens)))


def attributed(tokenizer, texts=TEXTS, given=None, **changes):
    scorer = attribution.Scorer(tiny_bert.classifier(), tokenizer, values(**changes))
    counts = Counter()
    blocks = attribution.run(*as_read(*(given or tables(texts))), scorer, values(**changes)["modes"], counts=counts)
    return counts, pa.concat_tables(list(blocks)).to_pandas()


def test_stage_scores_are_those_of_each_pair_alone(tokenizer):
    _, rows = attributed(tokenizer)
    classifier = tiny_bert.classifier()
    for text, pair, score in rows[["text_id", "pair", "score"]].itertuples(index=False):
        alone, = word_saliency(classifier, tokenizer([TEXTS[text]], [TEXTS[pair]], return_tensors="pt"), "pos_logit")
        if text == 2:  # the tokenizer cuts "don't" into don ' t, the annotation into do n't
            continue
        np.testing.assert_allclose(score, alone.numpy(), atol=1e-5)


def test_pieces_meet_words_by_their_characters(tokenizer):
    # pieces: [CLS] un ##known ' s dog run [SEP] cat ...
    encoded = tokenizer(["unknown's dogrun"], ["cat dog"], return_tensors="pt")
    starts, ends = (np.array(side) for side in zip((0, 7), (7, 9), (10, 13), (13, 16), (16, 20), strict=True))
    pieces = from_characters(encoded, [starts], [ends]).words
    found = [pieces.position[pieces.word == word].tolist() for word in range(5)]
    # "unknown" 1-2, "'s" 3-4, and the one [UNK] piece over "dogrun" counts for both of its words
    assert found == [[1, 2], [3, 4], [5], [5], []] and pieces.unaligned().tolist() == [1]


def test_words_that_were_cut_off_score_zero_and_are_reported(tokenizer):
    tokenizer.model_max_length = 12
    counts, rows = attributed(tokenizer)
    long = rows[(rows["text_id"] == 0) & (rows["mode"] == "xx")].iloc[0]
    assert len(long["score"]) == len(long["word"]) == 10
    assert list(long["score"][5:]) == [0.0] * 5 and max(long["score"]) == 1.0
    assert counts["unaligned_words"] >= 5 and counts["rows_xx"] == 4
    tokenizer.model_max_length = 64
    assert attributed(tokenizer)[0]["unaligned_words"] == 0


def test_bytes_of_a_text_do_not_depend_on_its_company(tokenizer):
    _, rows = attributed(tokenizer)
    examples, texts, tokens = tables()
    _, few = attributed(tokenizer, given=(examples.iloc[3:4], texts, tokens))
    for score, other in zip(few["score"], rows[rows["text_id"] == 5]["score"], strict=True):
        assert score.tobytes() == other.tobytes()
    for size in (1, 3, 64):
        for score, other in zip(attributed(tokenizer, batch_size=size)[1]["score"], rows["score"], strict=True):
            np.testing.assert_allclose(score, other, atol=1e-5)


@pytest.fixture
def project(tmp_path, monkeypatch, tokenizer):
    monkeypatch.chdir(tmp_path)
    examples, texts, tokens = tables()
    tokens = token_rows(tokens["text_id"], tokens["token"].tolist(), start=tokens["start"], end=tokens["end"])
    paths = DatasetPaths("tiny")
    for kind, rows in (("examples", examples), ("texts", texts), ("tokens", tokens)):
        write_table(paths.table(kind), SCHEMAS[kind], rows, Provenance("test", "0"))
    tiny_bert.classifier().save_pretrained(paths.pair_classifier)
    tokenizer.save_pretrained(paths.pair_classifier)
    write_params(tmp_path)
    return paths


def write_params(folder, workers=1, encoder=None, **changes):
    params = {"recipe": "test", "datasets": {"tiny": {"source": "data.jsonl"}}, "keywords": {"datasets": ["tiny"]},
              "runtime": {"workers": workers}, "encoder": {"source": "path", "path": str(encoder)} if encoder else {},
              "attribution": {"datasets": ["tiny"], **SMALL, **changes}}
    (folder / "params.yaml").write_text(yaml.safe_dump(params))


def test_stage_writes_the_table_and_says_what_made_it(project, tokenizer):
    assert attribution.main(["tiny"]) == 0
    path = project.table("attribution")
    written, (_, rows) = read_frame(path, SCHEMAS["attribution"]), attributed(tokenizer)
    for score, expected in zip(written["score"], rows["score"], strict=True):
        assert score.tobytes() == expected.tobytes()
    metadata = read_metadata(path)
    assert metadata["counts"]["rows_xx"] == metadata["counts"]["rows_xy"] == 4 and metadata["rows"] == 8
    assert metadata["precision"] == computed_in("fp32", False)
    assert len(metadata["models"]["pair_classifier"]["sha256"]) == 64
    own = {name: value for name, value in values().items() if name != "datasets"}
    assert metadata["models"]["attribution"] == own


def test_same_bytes_for_any_number_of_workers(project, tmp_path, monkeypatch):
    monkeypatch.setattr(tables_module, "PART_ROWS", 2)
    tokens = read_frame(project.table("tokens"))
    write_table(project.table("tokens"), SCHEMAS["tokens"], tokens, Provenance("test", "0"))
    found = []
    for workers in (1, 3):
        write_params(tmp_path, workers=workers)
        assert attribution.main(["tiny"]) == 0
        found.append([part.read_bytes() for part in parts_of(project.table("attribution"))])
    assert found[0] == found[1] and len(found[0]) == 3
