"""Plain texts: ingest, params, and the graph of phrases that share texts."""

import itertools
import json
import re
from collections import Counter

import pandas as pd
import pyarrow as pa
import pytest
from ingest_rows import dataset, ingested
from report_outline import assert_sound, part
from table_files import bytes_of

from keycontrast.errors import InputError
from keycontrast.ranking import rank
from keycontrast.text.annotators import load_annotator
from keycontrast.text.tokens import token_table
from pipeline.neighbourhood import example_texts
from pipeline.schemas import SCHEMAS
from stages.common.example_texts import all_text_ids, is_single, read_examples, training_text_ids
from stages.common.paths import REPORT_PAGE, DatasetPaths
from stages.common.tables import Provenance, as_table, read_frame, write_table
from stages.graph import graph, text_graph
from stages.graph.params import Graph
from stages.ingest.counts import summary
from stages.ingest.files import read_rows
from stages.ingest.params import Dataset, Ingest
from stages.ingest.rows import RawRow
from stages.params import parse_params
from stages.results.page.explorer import explorer_data, read_graph
from stages.results.report import main

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
    assert "texts: train 5" in summary(made.counts)
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


def test_plain_texts_are_neither_pairs_nor_labelled():
    params = parse_params(content(), "r")
    assert params.graph.datasets == params.keywords.datasets == ["mine"] and params.keywords.method == "textrank"
    assert parse_params(content(keywords={"datasets": ["mine"], "method": "yake"}), "r").keywords.method == "yake"
    with pytest.raises(InputError, match="node_vectors.datasets: data set mine has plain texts, and the stage needs"):
        parse_params(content(node_vectors={"datasets": ["mine"]}), "r")
    with pytest.raises(InputError, match="linear_floor.datasets: data set mine has no labelled texts"):
        parse_params(content(linear_floor={"datasets": ["mine"]}), "r")


@pytest.mark.parametrize(("more", "message"), [
    ({"models": {"hcl": {"hcl": {"dataset": "mine"}}}}, "mine has plain texts, and the model needs pairs"),
    ({"models": {"clld": {"ct": {"dataset": "mine"}}}}, "mine has plain texts, and the model needs labelled texts"),
    ({"keywords": {"datasets": ["mine"], "method": "attribution"}}, "data set mine of keywords.datasets has plain")])
def test_what_plain_texts_lack_is_said(more, message):
    with pytest.raises(InputError, match=message):
        parse_params(content(**more), "r")


def written(folder, texts=TEXTS, split="train"):
    paths, made = DatasetPaths("mine"), Provenance("s", "")
    tokens = token_table(load_annotator("embedded", "en").columns(range(len(texts)), texts))
    ids = list(range(len(texts)))
    for kind, table in (("examples", {"example_id": ids, "split": [split] * len(ids), "text_id": ids}),
                        ("texts", {"text_id": ids, "text": texts, "language": ["en"] * len(ids)}), ("tokens", tokens),
                        ("textrank", rank(tokens, "tfidf", chunks="adjectives"))):
        write_table(paths.table(kind), SCHEMAS["plain_examples" if kind == "examples" else kind], table, made)
    params = content(graph={"datasets": ["mine"], "max_nbr": None})
    (folder / "params.yaml").write_text(json.dumps(params), encoding="utf-8")
    return paths


def test_phrases_are_joined_by_the_texts_that_contain_both(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = written(tmp_path)
    examples = read_examples(paths.table("examples"))
    assert is_single(examples) and all_text_ids(examples).tolist() == training_text_ids(examples).tolist() == [
        0, 1, 2, 3, 4]
    assert graph.main(["mine"]) == 0
    nodes, edges, clusters = (read_frame(paths.table(kind), SCHEMAS[kind]) for kind in ("nodes", "edges", "clusters"))
    ranked = read_frame(paths.table("textrank"), SCHEMAS["textrank"])["keyword"].dropna()
    assert nodes["keyword"].tolist() == sorted(set(ranked))
    held = {text: {word for word in set(ranked) if word in TEXTS[text].lower()} for text in range(len(TEXTS))}
    assert {(row.keyword, row.example_id) for row in clusters.itertuples()} == {
        (word, text) for text, words in held.items() for word in words}
    pairs = Counter(pair for words in held.values() for pair in itertools.permutations(words, 2))
    names = nodes["keyword"]
    assert {(names[row.target], names[row.source]): row.count for row in edges.itertuples(index=False)} == pairs
    assert set(edges["sign"]) == {1} and pairs["warm oven", "sourdough bread"] == 1
    assert nodes["cluster_size"].tolist() == [sum(word in words for words in held.values()) for word in names]
    before = [bytes_of(paths.table(kind)) for kind in ("nodes", "edges", "clusters")]
    assert graph.main(["mine"]) == 0
    assert [bytes_of(paths.table(kind)) for kind in ("nodes", "edges", "clusters")] == before


def test_page_and_command_show_the_texts_of_a_phrase(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = written(tmp_path)
    assert graph.main(["mine"]) == 0
    found = example_texts(paths, "warm oven")
    assert found["source"].tolist() == TEXTS[:2] and found["target"].isna().all()
    shown = explorer_data(read_graph(paths), 100_000)
    assert [one[4:] for one in shown["examples"] if one[1] == "warm oven"][0] == [TEXTS[0], None, None]


def test_the_page_of_plain_texts_speaks_of_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    assert graph.main(["mine"]) == 0 and main([]) == 0
    page = REPORT_PAGE.read_text(encoding="utf-8")
    assert_sound(page)
    assert re.findall(r'<section aria-labelledby="([^"]+)"', page) == ["corpus", "ran"]
    corpus = part(page, "corpus")
    assert "those that share texts" in corpus and "data-single" in corpus and "share most texts with them" in corpus
    before, _, more = corpus.partition("More of the graph")
    assert "An edge counts the texts that contain both" in more
    for word in ("negative", "training examples"):
        assert word not in re.sub("<script.*?</script>", "", before, flags=re.DOTALL)


def test_a_graph_of_no_phrases_is_empty_and_evaluated_texts_have_no_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for texts, split in ((["Why not?"], "train"), (TEXTS, "test")):
        paths = written(tmp_path, texts, split)
        assert graph.main(["mine"]) == 0
        assert read_frame(paths.table("nodes"), SCHEMAS["nodes"]).empty


def test_neighbours_are_capped_by_count():
    examples = pd.DataFrame({"example_id": range(4), "split": "train", "text_id": range(4)})
    texts = ["a b c", "a b", "a b", "a c"]
    tokens = token_table(load_annotator("embedded", "en").columns(range(4), texts))
    ranking = pa.table({"text_id": [0, 0, 0], "keyword": ["a", "b", "c"], "score": [3.0, 2.0, 1.0]})
    clusters, made = text_graph.run(pa.Table.from_pandas(examples), ranking, pa.table(
        {"text_id": range(4), "text": texts, "language": ["en"] * 4}), tokens, Graph(max_nbr=1))
    assert as_table(SCHEMAS["clusters"], clusters).num_rows == 9
    assert [(row["target"], row["source"], row["count"]) for row in made.edges.to_pylist()] == [
        (0, 1, 3), (1, 0, 3), (2, 0, 2)]
