"""Estimates of time and memory: against what the sample took, from a table and from records; and what is said."""

import json
from pathlib import Path

import pytest
import yaml
from source_imports import ROOT

from pipeline.running.dag import Dag, StageNode
from pipeline.sizing.estimates import (
    costs,
    disk_gib,
    estimate,
    estimate_of_all,
    instances,
    measured_rates,
    total_seconds,
)
from pipeline.sizing.extent import extent_of
from pipeline.sizing.machine import Machine
from stages.params import load_params, parse_params
from stages.tracks.common.cost import Extent
from stages.tracks.hcl.architectures import ARCHITECTURES as HCL_ARCHITECTURES

# What `keycontrast run` of recipe sample recorded on two cores of a server processor (3 min 25 s by the clock):
# seconds and MiB of each training, floating-point operations of a step, and its seconds.
MEASURED = {
    "pair_classifier@sample": (46.6, 718, None, None), "train_clld@ct": (2.4, 466, 1.78e8, 0.00727),
    "train_clld@ct-cl": (3.6, 457, 3.56e8, 0.01242), "train_hcl@hcl": (67.8, 1258, 3.09e10, 0.4503),
    "train_hcl@hcl-no-graph": (59.8, 1074, 3.09e10, 0.3789), "train_pgkpr@pgkpr": (25.9, 608, 7.62e9, 0.1259),
    "train_pgkpr@transformer": (6.7, 511, 2.88e9, 0.05558)}
BY_THE_CLOCK = 205.0
TWO_CORES = Machine(2, 24)
NOTHING = Path("nowhere")
DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())
BEFORE = 1.5  # seconds that a training takes to start


@pytest.fixture(scope="module")
def sample():
    params = load_params(ROOT / "params.yaml")
    return params, {name: extent_of(params, name, ROOT) for name in params.datasets}


def write_records(folder, slower=1.0):
    folder.mkdir(exist_ok=True)
    for name, (seconds, mib, flops, step) in MEASURED.items():
        record = {"seconds": seconds * slower, "peak_memory_mib": mib}
        if flops:
            record["training"] = {"flops_per_step": flops, "seconds_per_step_median": step * slower}
        (folder / f"{name}.json").write_text(json.dumps(record))
    return folder


def estimated(sample, records, machine=TWO_CORES):
    params, extents = sample
    rates = measured_rates(records, "few cores", params.runtime.threads)
    found = costs(params, instances(params, DVC), extents, machine, rates)
    return found, total_seconds(params, found, machine)


def test_every_text_takes_twice_what_sources_take(sample):
    params, extents = sample
    left = {name: value for name, value in params.plain().items() if not name.endswith("_datasets")}
    every = parse_params({**left, "keywords": {"by_dataset": {"sample": "attribution"}}}, "params")
    before, after = (costs(one, ["attribution@sample"], extents, TWO_CORES, measured_rates(NOTHING, "few cores", 1))
                     for one in (params, every))
    seconds = [found["attribution@sample"].seconds - BEFORE - 2.0 for found in (before, after)]     # 2 are fixed
    assert seconds[1] == pytest.approx(2 * seconds[0])


@pytest.mark.parametrize("recorded", [False, True])
def test_the_sample_takes_about_what_is_said(sample, tmp_path, recorded):
    found, total = estimated(sample, write_records(tmp_path) if recorded else NOTHING)
    for name, (seconds, mib, _, _) in MEASURED.items():
        assert 0.4 < found[name].seconds / (seconds + BEFORE) < 2.5, name
        assert 0.6 < found[name].gib / (mib / 1024) < 1.7, name
    assert len(found) >= 43 and 0.6 < total / BY_THE_CLOCK < 1.5


def test_a_slow_machine_is_known_by_its_records(sample, tmp_path):
    _, quick = estimated(sample, write_records(tmp_path))
    found, slow = estimated(sample, write_records(tmp_path, slower=5.0))
    assert found["train_hcl@hcl"].seconds == pytest.approx(BEFORE + 5 * 67.8, rel=0.5)
    assert found["pair_classifier@sample"].seconds > 150  # which leaves no rate: it goes by the machine's speed
    assert slow > 2.5 * quick
    (tmp_path / "annotate@sample.json").write_text('{"seconds": 100.0, "peak_memory_mib": 2048}')
    found, _ = estimated(sample, tmp_path)
    assert found["annotate@sample"].seconds == pytest.approx(100.7) and found["annotate@sample"].gib == 2.0
    (tmp_path / "annotate@sample.json").write_text('{"seconds": 100.0, "pe')
    assert estimated(sample, tmp_path)[0]["annotate@sample"].seconds < 50


@pytest.mark.parametrize(("place", "factor"), [
    ({"training": {"epochs": 8}}, 2.0), ({"training": {"freeze_layers": 0}}, 1.1), ({"decoder": {"layers": 6}}, 1.1)])
def test_more_work_takes_longer(sample, place, factor):
    params, extents = sample
    content = params.model_dump(mode="json")
    content["models"]["hcl"]["hcl"]["overrides"] = place
    more = parse_params(content, "params")
    before, after = (costs(one, ["train_hcl@hcl"], extents, TWO_CORES, measured_rates(NOTHING, "few cores", 1))
                     for one in (params, more))
    assert after["train_hcl@hcl"].seconds - BEFORE >= 0.99 * factor * (before["train_hcl@hcl"].seconds - BEFORE)


@pytest.mark.parametrize("overrides", [
    {"architecture": name} for name in ("transformer", "residual_lstm", "latent_bow", "ianet")])
def test_every_architecture_has_an_estimate(sample, overrides):
    params, extents = sample
    content = params.model_dump(mode="json")
    content["models"]["pgkpr"]["transformer"]["overrides"] = overrides
    found = costs(parse_params(content, "params"), ["train_pgkpr@pgkpr", "train_pgkpr@transformer"], extents, TWO_CORES,
                  measured_rates(NOTHING, "few cores", 1))
    assert BEFORE < found["train_pgkpr@transformer"].seconds < 3600


@pytest.mark.parametrize("name", sorted(set(HCL_ARCHITECTURES) - {"hcl"}))
def test_every_baseline_of_hcl_has_an_estimate(sample, name):
    params, extents = sample
    content = params.model_dump(mode="json")
    content["models"]["hcl"]["hcl-no-graph"] = {"dataset": "sample", "overrides": {"architecture": name}}
    found = costs(parse_params(content, "params"), ["train_hcl@hcl", "train_hcl@hcl-no-graph"], extents, TWO_CORES,
                  measured_rates(NOTHING, "few cores", 1))
    assert BEFORE < found["train_hcl@hcl-no-graph"].seconds < 36_000


def test_a_small_baseline_costs_less_than_hcl_in_its_table(sample):
    params, extents = sample
    content = params.model_dump(mode="json")
    content["models"]["hcl"]["hcl-no-graph"] = {"dataset": "sample", "overrides": {
        "architecture": "transformer", "transformer": {"layers": 1, "heads": 4, "width": 64, "feed_forward": 128}}}
    found = costs(parse_params(content, "params"), ["train_hcl@hcl", "train_hcl@hcl-no-graph"], extents, TWO_CORES,
                  measured_rates(NOTHING, "few cores", 1))
    small, whole = (found[name].seconds - BEFORE for name in ("train_hcl@hcl-no-graph", "train_hcl@hcl"))
    assert 0 < small < 0.3 * whole and found["train_hcl@hcl-no-graph"].gib < found["train_hcl@hcl"].gib


def test_a_gpu_takes_the_time_of_its_launches_at_least(sample):
    params, extents = sample
    rates = measured_rates(NOTHING, "large GPU", 1)
    names, machine = ["train_hcl@hcl"], Machine(16, 64, 80)
    found = costs(params, names, extents, machine, rates)
    assert found["train_hcl@hcl"].seconds == pytest.approx(BEFORE + 1.15 * 3 * 32 * 0.03)
    assert "from rates that nobody has measured" in estimate(params, names, machine, NOTHING, ROOT).sentence


def test_two_stages_run_at_a_time_but_none_before_what_it_reads(sample):
    params, extents = sample
    rates = measured_rates(NOTHING, "few cores", 1)
    chain = ["ingest@sample", "annotate@sample", "train_hcl@hcl", "generate_hcl@hcl", "evaluate_hcl@hcl", "report"]
    found = costs(params, chain, extents, TWO_CORES, rates)
    assert total_seconds(params, found, TWO_CORES) == pytest.approx(sum(cost.seconds for cost in found.values()))
    both = costs(params, ["train_hcl@hcl", "train_hcl@hcl-no-graph"], extents, TWO_CORES, rates)
    alone = both["train_hcl@hcl"].seconds
    assert total_seconds(params, both, TWO_CORES) == pytest.approx(alone)
    assert total_seconds(params, both, Machine(1, 4)) == pytest.approx(2 * alone)


def test_what_is_said(sample, tmp_path):
    params, _ = sample
    said = estimate_of_all(params, TWO_CORES, NOTHING, ROOT)
    assert said.startswith("About ") and " stages (2 cores, 24 GiB, no GPU), at most" in said
    assert "longest: train_hcl@hcl 45" in said and said.endswith("estimated from rates of another machine.")
    assert "from what 6 trainings took here" in estimate_of_all(params, TWO_CORES, write_records(tmp_path), ROOT)
    assert estimate(params, ["report"], TWO_CORES, NOTHING, tmp_path).sentence.startswith(
        f"No estimate of time and memory: {tmp_path}/data/sample/paraphrase.jsonl: no such file")


def test_only_what_is_out_of_date_counts():
    nodes = [StageNode(name=name, upstream=upstream, changed=changed) for name, upstream, changed in (
        ("a", (), False), ("b", ("a",), True), ("c", ("b",), False), ("d", ("a",), False), ("e", ("c", "d"), False))]
    assert Dag(nodes=tuple(nodes)).out_of_date() == ["b", "c", "e"]
    assert Dag(nodes=(nodes[0], nodes[3])).out_of_date() == []


def test_an_extent_is_of_all_splits():
    assert Extent(10, 2, 3, 5, 5, 4.0).items == 15


def test_the_disk_that_a_run_needs_is_that_of_its_models_texts_and_checkpoints(sample):
    """The sample's artifacts took 0.34 GiB, with checkpoints of two trainings at a time half a GiB more."""
    params, extents = sample
    all_of_it = disk_gib(costs(params, instances(params, DVC), extents, TWO_CORES, measured_rates(NOTHING, "GPU", 1)))
    assert 0.4 < all_of_it < 2
    assert disk_gib({}) < disk_gib(costs(params, ["ingest@sample"], extents, TWO_CORES,
                                         measured_rates(NOTHING, "GPU", 1))) < 0.1
