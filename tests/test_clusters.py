"""Clusters: which examples stand in them, their order, and the queries behind them."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from keyword_graphs import clusters_of, random_triples, tables, write_no_phrases
from table_files import bytes_of

from keycontrast.network import Containment
from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import Provenance, as_table, read_metadata, read_table, write_table
from stages.graph import graph, triples
from stages.graph.joins import JoinLimits
from stages.graph.params import Graph
from stages.graph.triples import Searched, node_triples

EXAMPLES = pd.DataFrame({
    "example_id": [0, 1, 2, 3], "split": ["train", "train", "test", "train"], "source_id": [0, 1, 0, 4],
    "target_id": [1, 2, 2, 1], "negative_id": pd.array([2, None, 3, 3], dtype="Int64")})
NAMED = pd.DataFrame({"text_id": range(5), "keyword": ["dough", "oven", "yeast", "salt", NO_KEYWORD]})


def test_training_examples_are_grouped_by_input_keyword():
    assert as_table(SCHEMAS["clusters"], clusters_of(EXAMPLES, NAMED)).to_pylist() == [
        {"keyword": "dough", "example_id": 0, "output_keyword": "oven", "negative_keyword": "yeast"},
        {"keyword": "oven", "example_id": 1, "output_keyword": "yeast", "negative_keyword": None},
    ]


@pytest.mark.parametrize(("text", "found"), [
    ("Modern Art  in Paris", {"art", "modern art"}), ("smart start", set()), ("art's modern", {"art"}),
    ("artful modern", set()), ("the arts", set()), ("modern art.", {"art", "modern art"}), ("", set())])
def test_a_text_contains_keywords_token_by_token(text, found):
    spans = [match.span() for match in re.finditer(r"\w+|'s|[^\w\s]", text)]
    starts, ends = [span[0] for span in spans], [span[1] for span in spans]
    lemmas = [text[start:end].removesuffix("s") for start, end in spans]
    keywords = ["art", "modern art", "modern art movement"]
    assert Containment(keywords, lemmas=False).of(text, starts, ends, lemmas) == found
    assert Containment(keywords, lemmas=True).of(text, starts, ends, lemmas) == found | ({"art"} if "arts" in text
                                                                                         else set())


def test_training_examples_are_grouped_by_the_keywords_that_their_inputs_contain():
    written = ["sour dough oven", "my oven", "yeast oven", "salt", "Oven salt"]
    texts = pd.DataFrame({"text_id": range(5), "text": written})
    words = [text.split() for text in texts["text"]]
    starts = [[text.index(word) for word in row] for text, row in zip(texts["text"], words, strict=True)]
    tokens = pd.DataFrame({"text_id": range(5), "start": starts, "lemma": words, "end": [
        [start + len(word) for start, word in zip(*row, strict=True)] for row in zip(starts, words, strict=True)]})
    searched = Searched(texts, tokens)
    rows = clusters_of(EXAMPLES, NAMED, searched)
    # "salt" names no input, so that it is no cluster; the last example has no keyword of its own.
    assert [(row["keyword"], row["example_id"]) for row in rows.to_pylist()] == [
        ("dough", 0), ("oven", 0), ("oven", 1), ("oven", 3)]
    made = graph.run(node_triples(EXAMPLES, NAMED, searched=searched), Graph(cluster_by="contains"))
    assert made.metrics["share_without_input_keyword"] == round(1 / 3, 6)
    sizes = dict(zip(made.nodes["keyword"].to_pylist(), made.nodes["cluster_size"].to_pylist(), strict=True))
    assert (sizes["dough"], sizes["oven"]) == (1, 3)
    # Links are of an input's own keyword: "oven" and the target keyword of example 0, "oven", share no link.
    edges = {(row["target"], row["source"]): row["count"] for row in made.edges.to_pylist() if row["sign"] == 1}
    names = made.nodes["keyword"].to_pylist()
    assert {(names[a], names[b]): count for (a, b), count in edges.items()} == {
        ("dough", "oven"): 1, ("oven", "dough"): 1, ("oven", "yeast"): 3, ("yeast", "oven"): 3}


@pytest.fixture()
def project(tmp_path, monkeypatch):
    """A project whose data set ``d`` has 3,000 examples; joins may take 64 MiB."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(
        "recipe: r\nruntime: {memory_gib: 0.0625}\ndatasets: {d: {source: raw}}\n"
        "keywords: {datasets: [d]}\ngraph: {datasets: [d]}\n")
    examples, keywords = tables(random_triples(5, rows=3000, words=[f"word {i}" for i in range(50)]))
    nothing = [None] * len(examples)
    paths = DatasetPaths("d")
    write_table(paths.table("examples"), SCHEMAS["examples"],
                examples.assign(reference_ids=nothing, group=0, negative_origin=nothing),
                Provenance("ingest@d", ""))
    write_table(paths.table("keywords"), SCHEMAS["keywords"], keywords.assign(method="textrank", score=1.0),
                Provenance("keywords@d", ""))
    write_no_phrases(paths)
    return examples, keywords


def test_the_stage_streams_what_run_yields(project, monkeypatch):
    monkeypatch.setattr(triples, "ROW_GROUP", 700)
    assert graph.main(["d"]) == 0
    path = DatasetPaths("d").table("clusters")
    assert read_table(path, SCHEMAS["clusters"]).to_pylist() == clusters_of(*project).to_pylist()
    assert read_metadata(path)["counts"] == {"clusters": 50}
    assert read_metadata(path)["stage"] == "graph@d"
    first = bytes_of(path)
    assert graph.main(["d"]) == 0
    assert bytes_of(path) == first


def test_what_exceeds_memory_goes_to_disk_and_gives_the_same(tmp_path, monkeypatch):
    rng, rows, texts = np.random.default_rng(0), 300_000, 600_000
    examples = pa.table({"split": pa.repeat("train", rows), "example_id": rng.permutation(rows), **{
        name: rng.integers(0, texts, rows) for name in ("source_id", "target_id", "negative_id")}})
    words = [f"a keyword of some length {number}" for number in rng.permutation(texts)]
    keywords, by_text, on_disk = pa.table({"text_id": np.arange(texts), "keyword": words}), triples._by_text, []

    def watched(connection):
        on_disk.append(connection.sql("FROM duckdb_temporary_files()").fetchall())
        return by_text(connection)

    monkeypatch.setattr(triples, "_by_text", watched)
    ample, scarce = (pa.concat_tables(node_triples(examples, keywords, JoinLimits(memory, tmp_path / name)).clusters())
                     for name, memory in (("ample", 4.0), ("scarce", 0.0625)))
    assert not on_disk[0] and on_disk[1]
    assert ample.num_rows == rows
    assert scarce.equals(ample)
