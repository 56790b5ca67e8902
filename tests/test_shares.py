"""Tables of the shares that trainings report: one row for all seeds, and none for a model without them."""


import pytest
from report_artifacts import TOLD

from stages.results.model import Model, shares_tables
from stages.results.tracks.hcl import HCL

FIRST = "target_is_neighbour"


def model(name="hcl", seed=13, settings=None, graph=TOLD):
    return Model(name, "hcl", "d", seed, settings=settings or {}, metrics={} if graph is None else {"graph": graph})


def told(share):
    return {**TOLD, "train": {**TOLD["train"], FIRST: share}}


def without(split):
    return {name: value for name, value in TOLD.items() if name != split}


@pytest.mark.parametrize(("models", "first"), [
    ([], []),
    ([model(graph=None)], []),
    ([model()], [("hcl", 0.96, 0.1)]),
    ([model("b"), model("a"), model("c", graph=None)], [("b", 0.96, 0.1), ("a", 0.96, 0.1)]),
    ([model("hcl/1", 1, graph=told(0.5)), model("hcl/2", 2, graph=told(0.25)), model("other")],
     [("hcl", 0.375, 0.1), ("other", 0.96, 0.1)]),
    ([model("hcl/1", 1), model("hcl/2", 2, graph=without("test"))], [("hcl", 0.96, None)]),
    ([model(settings={"graph": {"iterations": 0}}), model("kw", settings={"keyword": {"condition": False}}),
      model("z", settings={"latent": {"enabled": False}})], []),
    ([model(settings={"graph": {"iterations": 2, "own_edges": "leaking"}})], [("hcl", 0.96, 0.1)]),
])
def test_rows(models, first):
    found = [(name, *values[:2]) for table in shares_tables(HCL, models, {"test"}) for name, values in table.rows]
    assert found == first


@pytest.mark.parametrize(("evaluated", "splits"), [
    (set(), ["train"]), ({"test"}, ["train", "test"]), ({"test", "validation"}, ["train", "validation", "test"])])
def test_evaluated_splits_stand_beside_training(evaluated, splits):
    table, = shares_tables(HCL, [model()], evaluated)
    assert [found for _, found in table.groups] == [splits] * 4 + [["train"]]
    assert table.rows[0][1] == [TOLD[split][key] for key in HCL.shares[0].by_split for split in splits] + [0.25]
