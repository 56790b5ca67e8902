"""Initial node vectors, against a plain loop; items of split graph, which only the keyword graph reads."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tiny_bert
import torch
import yaml
from ingest_rows import dataset, ingested, raw
from table_files import bytes_of

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from models.common.encoders import load_encoder
from pipeline.schemas import SCHEMAS
from stages.common.device import computed_in
from stages.common.lookup import Lookup
from stages.common.paths import DatasetPaths
from stages.common.schemas import IN_GRAPH
from stages.common.tables import Provenance, read_frame, read_metadata, write_table
from stages.graph import node_vectors
from stages.graph.triples import node_triples
from stages.ingest.files import read_rows
from stages.ingest.params import Dataset, Ingest
from stages.tracks.hcl.data import joined_items

VALUES = {"pooling": "mean", "batch_size": 4, "max_length": 32}
TEXTS = ["dog eat", "cat run fast", "why dog play", "tell me why", "the best school", "find a good school for me",
         "you can", "dog", "lose weight " * 5, "unknown"]
KEYWORDS = ["dog", "cat", "dog", "<nokw>", "school", "school", "<nokw>", "dog", "weight", "test only"]
NODES = ["<nokw>", "cat", "dog", "school", "weight"]


def tables():
    # split, source, target, negative
    rows = [("train", 0, 1, 8), ("train", 2, 4, 1), ("train", 0, 5, 3), ("train", 6, 2, None),
            ("validation", 7, 9, 9), ("test", 9, 7, None)]
    split, source, target, negative = (list(column) for column in zip(*rows, strict=True))
    examples = pd.DataFrame({
        "example_id": range(6), "split": split, "source_id": source, "target_id": target,
        "negative_id": pd.array(negative, dtype="Int64"), "reference_ids": [[t] for t in target],
        "group": range(6),"negative_origin": [None] * 6})
    texts = pd.DataFrame({"text_id": range(10), "text": TEXTS, "language": "en"})
    keywords = pd.DataFrame({"text_id": range(10), "keyword": KEYWORDS, "method": "textrank", "score": 1.0})
    nodes = pd.DataFrame({"node_id": range(5), "keyword": NODES, "cluster_size": 1, "in_positive": 0,
                          "in_negative": 0, "out_positive": 0, "out_negative": 0, "centrality": 0.2,
                          "component": 0, "community": 0})
    return examples, texts, keywords, nodes


def as_read(examples, texts, keywords, nodes):
    """Return roles, nodes and texts as the stage has them, from tables in any order."""
    train = examples[examples["split"].isin(IN_GRAPH)]
    columns = ["source_id", "target_id", "negative_id", "group"]
    schema = pa.schema([SCHEMAS["examples"].arrow().field(name) for name in columns])
    by_id = pa.Table.from_pandas(keywords.sort_values("text_id"))
    roles = node_vectors.text_roles(pa.Table.from_pandas(train[columns], schema, preserve_index=False),
                                    [by_id.slice(start, 3) for start in range(0, len(by_id), 3)],
                                    pa.Table.from_pandas(nodes))
    return roles, np.sort(nodes["node_id"].to_numpy()), Lookup.of_table("texts", pa.Table.from_pandas(texts))


def columns_of(made):
    return pa.concat_tables(made.nodes()).to_pydict()


def embedded_of(made):
    return pa.concat_tables(made.texts()).to_pydict()


# Which texts of the training split stand for each node, read off the tables above by hand: text 0 is the
# source of two examples and counts once; text 3 is a negative with the keyword of source 6 and is left out.
EXPECTED = {0: ([6], "input"), 1: ([1], "output"), 2: ([0, 2], "input"), 3: ([4, 5], "output"), 4: ([8], "negative")}


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    return tiny_bert.save_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture(scope="module")
def loaded(encoder_folder):
    return load_encoder(encoder_folder)


def test_texts_of_a_node_are_inputs_else_outputs_else_negatives():
    chosen = node_vectors.node_texts(as_read(*tables())[0])
    found = {node: (sorted(rows["text_id"]), [list(node_vectors.ORIGINS)[rank] for rank in rows["rank"].unique()])
             for node, rows in chosen.groupby("node_id")}
    assert found == {node: (ids, [origin]) for node, (ids, origin) in EXPECTED.items()}
    assert chosen["text_id"].is_monotonic_increasing and chosen["text_id"].is_unique


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_means_of_frozen_embeddings(loaded, pooling):
    encoder, tokenizer = loaded
    made = node_vectors.run(*as_read(*tables()), encoder, tokenizer, {**VALUES, "pooling": pooling})
    columns = columns_of(made)
    assert columns["node_id"] == [0, 1, 2, 3, 4]
    for node, (ids, origin) in EXPECTED.items():
        vectors = []
        for text in ids:
            with torch.no_grad():
                hidden = encoder(**tokenizer(TEXTS[text], return_tensors="pt")).last_hidden_state[0]  # (L, d)
            vectors.append((hidden.mean(0) if pooling == "mean" else hidden[0]).numpy())
        np.testing.assert_allclose(columns["vector"][node], np.mean(vectors, axis=0), atol=1e-5)
        assert columns["origin"][node] == origin
    assert made.counts == {"origin_input": 2, "origin_output": 2, "origin_negative": 1, "texts": 7}


def test_embeddings_are_kept_of_all_texts_that_may_stand_for_a_node(loaded):
    made = node_vectors.run(*as_read(*tables()), *loaded, VALUES)
    columns, embedded = columns_of(made), embedded_of(made)
    # Text 3 is a negative, and stands for its node once text 6, the only input with its keyword, is hidden.
    assert made.text_ids.tolist() == [0, 1, 2, 4, 5, 6, 8, 3] and embedded["text_id"] == [0, 1, 2, 3, 4, 5, 6, 8]
    # The inputs of "dog" are of three components, of which one alone is hidden: a negative of that keyword never does.
    examples, texts, keywords, nodes = tables()
    keywords.loc[8, "keyword"] = "dog"
    nodes = nodes[nodes["keyword"] != "weight"]
    assert 8 not in node_vectors.run(*as_read(examples, texts, keywords, nodes), *loaded, VALUES).text_ids
    vectors = dict(zip(embedded["text_id"], embedded["vector"], strict=True))
    for node, (ids, _) in EXPECTED.items():
        mean = np.mean([vectors[text] for text in ids], axis=0)
        np.testing.assert_allclose(columns["vector"][node], mean, atol=1e-6)


def test_stage_writes_the_table_and_names_its_encoder(tmp_path, monkeypatch, encoder_folder):
    monkeypatch.chdir(tmp_path)
    paths = DatasetPaths("tiny")
    for kind, rows in zip(("examples", "texts", "keywords", "nodes"), tables(), strict=True):
        write_table(paths.table(kind), SCHEMAS[kind], rows, Provenance("test", "0"))
    params = {"recipe": "test", "encoder": {"source": "path", "path": str(encoder_folder)},
              "datasets": {"tiny": {"source": "data.jsonl"}}, "node_vectors": VALUES}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    assert node_vectors.main(["tiny"]) == 0
    path = paths.table("node_vectors")
    written = read_frame(path, SCHEMAS["node_vectors"])
    assert written["origin"].tolist() == [origin for _, origin in EXPECTED.values()]
    assert {len(vector) for vector in written["vector"]} == {16}
    weights = sha256_of(encoder_folder / "model.safetensors")
    described = read_metadata(path)["models"]["encoder"]
    assert len(described.pop("files")) == 16 and described == {"name": "tiny", "version": None, "sha256": weights}
    assert read_metadata(path)["precision"] == computed_in("fp32", False)
    first = bytes_of(path)
    assert node_vectors.main(["tiny"]) == 0 and bytes_of(path) == first


PARAMS = Ingest(neg_source="retrieved", validation=0.1, test=0.1, max_train=15)
FACTS = [("does rain make moss", "moss grows by rain", 1), ("does sun make sand", "sand comes of sun", 1)]


@pytest.fixture
def made(tmp_path):
    pairs = [(f"is ant{number} an animal", f"what is ant{number}", 1) for number in range(30)]
    return ingested([*raw(pairs), *raw(FACTS, "facts.csv", "graph")], dataset(), PARAMS, 3, tmp_path)


def keywords_of(texts):
    """The last word of each text."""
    return pd.DataFrame({"text_id": texts["text_id"], "keyword": texts["text"].str.split().str[-1]})


def test_they_reach_the_tables_of_the_graph_and_no_items(made):
    assert made.counts["examples"] == {"train": 15, "validation": 3, "test": 3, "graph": 2}
    assert made.counts["published_splits"] == ["graph"]
    text = made.texts.set_index("text_id")["text"]
    facts = made.examples[made.examples["split"] == "graph"]
    assert {(text[row.source_id], text[row.target_id]) for row in facts.itertuples()} == {fact[:2] for fact in FACTS}
    assert set(facts["negative_id"]) <= {*facts["source_id"], *facts["target_id"]}  # of the same split
    keywords = keywords_of(made.texts)
    triples = node_triples(made.examples, keywords)
    counted = made.examples[made.examples["split"].isin(IN_GRAPH)]
    assert sorted(triples.example) == sorted(counted["example_id"])
    names = triples.names.to_pylist()
    assert {"moss", "rain", "sand", "sun"} <= set(names)
    nodes = pd.DataFrame({"node_id": range(len(names)), "keyword": names})
    roles, node_ids, _ = as_read(made.examples, made.texts, keywords, nodes)
    standing = node_vectors.node_texts(roles).set_index("node_id")["text_id"]
    assert text[standing[names.index("moss")]] == "does rain make moss" and set(standing.index) == set(node_ids)
    items = joined_items(made.examples, made.texts, keywords, nodes)
    assert set(items["split"]) == {"train", "validation", "test"} and len(items) == 21
    assert np.isin(made.examples.loc[made.examples["split"] == "train", "negative_id"], facts["target_id"]).sum() == 0


def test_files_name_them_and_single_texts_have_none(tmp_path):
    for name, text in (("pairs.csv", "q1,q2,dup\na,b,1\n"), ("facts.csv", "q1,q2,dup\nc,d,1\n"),
                       ("split.csv", "q1,q2,dup,part\ne,f,1,Graph\n")):
        (tmp_path / name).write_text(text)
    rows = read_rows(dataset(tmp_path, files=["pairs.csv"], splits={"graph": ["facts.csv"]}))
    assert [(row.file, row.split) for row in rows] == [("pairs.csv", None), ("facts.csv", "graph")]
    columns = {"source": "q1", "target": "q2", "label": "dup", "split": "part"}
    assert [row.split for row in read_rows(dataset(tmp_path, files=["split.csv"], columns=columns))] == ["graph"]
    with pytest.raises(ValueError, match="the keyword graph is made of pairs, and layout labelled gives labelled"):
        Dataset(source="x", layout="labelled", columns={"label": "kind"}, splits={"graph": ["facts.csv"]})


def test_pairs_connected_with_them_are_left_out(tmp_path):
    pairs = [(f"is ant{number} an animal", f"what is ant{number}", 1) for number in range(30)]
    rows = [*raw([*pairs, ("does rain make moss", "is moss of rain", 1)]), *raw(FACTS, "facts.csv", "graph")]
    made = ingested(rows, dataset(), PARAMS, 3, tmp_path)
    assert made.counts["rows"]["not_taken_by_reason"] == {"other split": 1}
    with pytest.raises(InputError, match="cannot be cut into train, validation and test"):
        ingested([*raw(pairs[:2]), *raw(FACTS, "facts.csv", "graph")], dataset(), PARAMS, 3, tmp_path)
