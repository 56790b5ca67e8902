"""Items of split graph: the keyword graph reads them, and no training, validation or test does."""

import numpy as np
import pandas as pd
import pytest
from ingest_rows import dataset, ingested, raw
from test_node_vectors import as_read

from keycontrast.errors import InputError
from stages.common.schemas import IN_GRAPH
from stages.graph import node_vectors
from stages.graph.triples import node_triples
from stages.ingest.files import read_rows
from stages.ingest.params import Dataset, Ingest
from stages.tracks.hcl.data import joined_items

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
