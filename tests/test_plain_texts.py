"""Plain texts: ingest and params; and the graph of phrases that share texts, which every data set has."""

import itertools
import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from ingest_rows import dataset, ingested
from table_files import bytes_of

from keycontrast import Keywords, keyword_graph
from keycontrast.errors import InputError
from keycontrast.ranking import rank
from keycontrast.text.annotate import load_annotator
from keycontrast.text.tokens import token_table
from pipeline.schemas import SCHEMAS
from stages.annotate import annotate
from stages.common import tables
from stages.common.examples import all_text_ids, is_single, read_examples, training_text_ids
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, parts_of, read_frame, write_table
from stages.graph import graph
from stages.ingest.counts import summary
from stages.ingest.files import read_rows
from stages.ingest.params import Dataset, Ingest
from stages.ingest.rows import RawRow
from stages.keywords import textrank as textrank_stage

TEXTS = ["Sourdough bread needs a warm oven.", "The warm oven burns fresh bread.", "Fresh bread and old graphs.",
         "Old graphs are drawn on paper.", "Why not?"]


def rows(texts, split=None):
    return [RawRow("f", number, {"text": text}, split=split) for number, text in enumerate(texts, start=1)]


def made_of(given, folder, **changes):
    return ingested(given, dataset(layout="texts", columns={"text": "t"}), Ingest(**changes), 1, folder)


def test_each_text_is_once_an_item_of_training(tmp_path):
    made = made_of(rows([*TEXTS, TEXTS[0].upper(), "  ", "?!"]), tmp_path, max_rejected=0.5, neg_source="mined")
    assert made.texts["text"].tolist() == TEXTS and made.examples["text_id"].tolist() == [0, 1, 2, 3, 4]
    assert set(made.examples["split"]) == {"train"} and list(made.examples) == ["example_id", "split", "text_id"]
    assert made.counts["rows"]["not_taken_by_reason"] == {"duplicate": 1, "empty text": 2}
    assert "examples: train 5" in summary(made.counts)
    assert len(made_of(rows(TEXTS), tmp_path, max_train=3).examples) == 3


def test_published_splits_stay(tmp_path):
    made = made_of(rows(TEXTS[:3], "train") + rows(TEXTS[3:], "test"), tmp_path)
    assert made.examples["split"].tolist() == ["train"] * 3 + ["test"] * 2
    with pytest.raises(InputError, match="no text is left for train"):
        made_of(rows(TEXTS, "test"), tmp_path)
    with pytest.raises(InputError, match="ingest.train_part is for data sets of related texts"):
        made_of(rows(TEXTS), tmp_path, split_by="hashed", train_part=(0, 0.5))


def test_lines_and_columns_are_read(tmp_path):
    (tmp_path / "t.txt").write_text("One text.\n\nAnother one.\n", encoding="utf-8")
    (tmp_path / "t.csv").write_text("id,note\n1,One text.\n", encoding="utf-8")
    lines = read_rows(Dataset(source=str(tmp_path / "t.txt"), layout="text_lines"))
    assert [(row.row, row.content) for row in lines] == [(1, {"text": "One text."}), (3, {"text": "Another one."})]
    table = read_rows(dataset(tmp_path / "t.csv", "texts", {"text": "note"}))
    assert [row.content for row in table] == [{"text": "One text."}]


def content(**more):
    return {"recipe": "r", "datasets": {"mine": {"source": "x.csv", "layout": "texts"}},
            "keywords": {"datasets": ["mine"]}, "graph": {"datasets": ["mine"]}, **more}


def written(texts=TEXTS):
    """Write what the stage phrases reads of plain texts, and return their paths and ranked phrases."""
    paths, made = DatasetPaths("mine"), Provenance("s", "")
    tokens = token_table(load_annotator("embedded", "en").columns(range(len(texts)), texts))
    ids = list(range(len(texts)))
    ranked = rank(tokens, "tfidf", chunks="adjectives")
    for kind, table in (("examples", {"example_id": ids, "split": ["train"] * len(ids), "text_id": ids}),
                        ("texts", {"text_id": ids, "text": texts, "language": ["en"] * len(ids)}), ("tokens", tokens),
                        ("textrank", ranked)):
        write_table(paths.table(kind), SCHEMAS["plain_examples" if kind == "examples" else kind], table, made)
    Path("params.yaml").write_text(json.dumps(content()), encoding="utf-8")
    return paths, ranked


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def frames(paths):
    return [read_frame(paths.table(kind), SCHEMAS[kind]) for kind in ("phrase_nodes", "phrase_edges", "phrase_texts")]


def test_phrases_are_joined_by_the_texts_that_contain_both(project):
    paths, ranked = written()
    examples = read_examples(paths.table("examples"))
    assert is_single(examples) and all_text_ids(examples).tolist() == training_text_ids(examples).tolist() == [
        0, 1, 2, 3, 4]
    assert graph.main(["mine"]) == 0
    nodes, edges, texts = frames(paths)
    names = sorted(set(ranked["keyword"].drop_null().to_pylist()))
    assert nodes["keyword"].tolist() == names
    held = {text: {word for word in names if word in TEXTS[text].lower()} for text in range(len(TEXTS))}
    assert {(names[row.node_id], row.text_id) for row in texts.itertuples()} == {
        (word, text) for text, words in held.items() for word in words}
    pairs = Counter(pair for words in held.values() for pair in itertools.combinations(sorted(words), 2))
    assert {(names[row.source], names[row.target]): row.weight for row in edges.itertuples(index=False)} == pairs
    assert pairs["sourdough bread", "warm oven"] == 1
    assert nodes["texts"].tolist() == [sum(word in words for words in held.values()) for word in names]
    assert nodes["degree"].tolist() == [sum(word in pair for pair in pairs) for word in names]


def test_it_is_the_graph_of_the_library_and_the_same_bytes_by_parts(project, monkeypatch):
    monkeypatch.setattr(tables, "PART_ROWS", 2)
    paths, _ = written()
    textrank = {"method": "tfidf", "chunks": "adjectives", "phrases": 100}
    Path("params.yaml").write_text(json.dumps(content(textrank=textrank)), encoding="utf-8")
    assert [stage.main(["mine"]) for stage in (annotate, textrank_stage, graph)] == [0, 0, 0]
    assert len(parts_of(paths.table("phrase_texts"))) == 3
    nodes, edges, _ = frames(paths)
    library = keyword_graph(TEXTS, keywords=Keywords("tfidf"), top=100)
    for found, expected in ((nodes, library.nodes), (edges, library.edges)):
        pd.testing.assert_frame_equal(found, expected.to_pandas(), check_dtype=False)
    before = [bytes_of(paths.table(kind)) for kind in ("phrase_nodes", "phrase_edges", "phrase_texts")]
    assert graph.main(["mine"]) == 0
    assert [bytes_of(paths.table(kind)) for kind in ("phrase_nodes", "phrase_edges", "phrase_texts")] == before
