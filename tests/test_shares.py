"""Tables of the shares that trainings report: one row for all seeds, and none for a model without them."""

from types import SimpleNamespace

import pytest
from report_artifacts import TOLD

from pipeline.results_details import shares_of
from stages.results.model import Model, Results
from stages.results.tracks import TRACKS
from stages.results.tracks.hcl import HCL

FIRST = "target_is_neighbour"


def model(name="hcl", seed=13, settings=None, graph=TOLD):
    return Model(name, "hcl", "d", seed, settings=settings or {}, metrics={} if graph is None else {"graph": graph})


def told(share):
    return {**TOLD, "train": {**TOLD["train"], FIRST: share}}


def tables(models, *evaluated, track=HCL):
    """The cells of each table, where runs were evaluated on these splits."""
    blocks = [SimpleNamespace(track=track, split=split) for split in evaluated]
    found = shares_of(Results("r", 1, "e", models, [], blocks), track)
    return [[[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines] for _, _, lines in found]


@pytest.mark.parametrize(("models", "first"), [
    ([], []),
    ([model(graph=None)], []),
    ([model("b"), model("a"), model("c", graph=None)], [["b", "96.0 %", "10.0 %"], ["a", "96.0 %", "10.0 %"]]),
    ([model("hcl/1", 1, graph=told(0.5)), model("hcl/2", 2, graph=told(0.25)), model("other")],
     [["hcl", "37.5 %", "10.0 %"], ["other", "96.0 %", "10.0 %"]]),
    ([model("hcl/1", 1), model("hcl/2", 2, graph={name: TOLD[name] for name in TOLD if name != "test"})],
     [["hcl", "96.0 %", "–"]]),
    ([model(settings={"graph": {"iterations": 0}}), model("kw", settings={"keyword": {"condition": False}}),
      model("z", settings={"latent": {"enabled": False}})], []),
])
def test_rows_are_those_of_models_that_read_the_graph(models, first):
    assert [row[:3] for table in tables(models, "test") for row in table[2:]] == first


def test_evaluated_splits_stand_beside_training():
    (heads, _, row), = tables([model()], "validation", "test")
    assert [head.partition(", ")[2] for head in heads[1:]] == ["train", "validation", "test"] * 4 + ["train"]
    assert row[-1] == "25.0 %" and len(row) == len(heads)
    assert [bool(tables([model()], track=track)) for track in TRACKS.values()] == [track is HCL for track in
                                                                                 TRACKS.values()]


def test_names_stay_text_in_the_document():
    assert tables([model("<b>")])[0][2][0] == "&lt;b&gt;"
