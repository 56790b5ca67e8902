"""HCL on attribution keywords: every text is scored beside itself, from the data set's params to a new text."""

from importlib import import_module

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tiny_project

from pipeline.predict import predict
from stages.common.examples import all_text_ids, read_examples
from stages.common.paths import DatasetPaths
from stages.common.settings import module_of
from stages.common.tables import read_metadata
from stages.params import load_params

PATHS = DatasetPaths("tiny")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Fifty triples with keywords by attribution, and an HCL model of them that was trained for an epoch."""
    folder = tmp_path_factory.mktemp("crossing") / "project"
    tiny_project.make(folder)
    params = tiny_project.params()
    none = {"datasets": []}
    tiny_project.write_params(
        folder, datasets={"tiny": params["datasets"]["tiny"]}, linear_baseline=none, keyword_comparison=none, psi=none,
        s_tagger=none, paraphrase_items={}, confusing_pairs={}, models={"hcl": {"hcl": {"dataset": "tiny"}}},
        runs={"hcl": {"hcl": {"model": "hcl"}}}, keywords={"datasets": ["tiny"], "method": "attribution"},
        train_hcl={**params["train_hcl"], "training": {"epochs": 1, "batch_size": 16, "micro_batch": 16}})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for stage in ("ingest", "annotate", "pair_classifier", "attribution", "keywords", "textrank", "graph",
                      "node_vectors"):
            assert import_module(module_of(stage)).main(["tiny"]) == 0, stage
        assert import_module(module_of("train_hcl")).main(["hcl"]) == 0
    return folder


@pytest.fixture(autouse=True)
def inside(project, monkeypatch):
    monkeypatch.chdir(project)


def test_every_text_has_its_keyword_from_its_own_scores():
    scores, chosen = pq.read_table(PATHS.table("attribution")), pq.read_table(PATHS.table("keywords"))
    used = set(all_text_ids(read_examples(PATHS.table("examples"))).tolist())
    alone = scores.filter(pc.equal(scores["mode"], "xx"))
    assert set(alone["text_id"].to_pylist()) >= used and alone["text_id"].equals(alone["pair"])
    scored = {row["text_id"]: max(row["score"], default=0) > 0 for row in alone.to_pylist()}
    content = {row["text_id"]: any(word.isalpha() and not stop for word, stop in zip(
        row["token"], row["is_stop"], strict=True)) for row in pq.read_table(PATHS.table("tokens")).to_pylist()}
    expected = [("attribution" if scored[text] else "idf") if content[text] else "none"
                for text in chosen["text_id"].to_pylist()]
    assert chosen["method"].to_pylist() == expected and expected.count("attribution") > len(used) - 3
    about = read_metadata(PATHS.table("keywords"))
    assert about["counts"]["texts_by_method"].get("idf", 0) == expected.count("idf")
    assert not any("no row in" in sentence for sentence in about["fallbacks"])


def test_a_new_text_has_the_keyword_that_the_stage_would_give_it():
    rows = pq.read_table(PATHS.table("texts")).to_pylist()[:6]
    chosen = pq.read_table(PATHS.table("keywords")).to_pylist()
    found = list(predict(load_params(), "hcl", [row["text"] for row in rows]))
    of_text = {row["text_id"]: row for row in chosen}
    assert [(line["keyword"], line["keyword_from"]) for line in found] == [
        (of_text[row["text_id"]]["keyword"], of_text[row["text_id"]]["method"]) for row in rows]
