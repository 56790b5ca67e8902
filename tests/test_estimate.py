"""The estimate of a run: the seconds of the last runs of its stages, or none yet."""

import json

import pytest
import yaml
from source_imports import ROOT

from pipeline.dag import read_dag
from pipeline.run import estimate_in_words, estimate_of_project, instances
from stages.params import load_params


@pytest.fixture
def records(tmp_path):
    folder = tmp_path / ".keycontrast" / "records"
    folder.mkdir(parents=True)
    for name, seconds in (("ingest@d", 1.5), ("train_hcl@m", 62.0), ("report@all", 4.5)):
        (folder / f"{name}.json").write_text(json.dumps({"seconds": seconds, "peak_memory_mib": 300}))
    return folder


def test_seconds_of_the_last_runs_are_added_up(records):
    assert estimate_in_words(["ingest@d", "train_hcl@m", "report"], records).startswith(
        "The last runs of these 3 stages took 1 min 08 s")


def test_a_stage_without_a_record_leaves_no_estimate(records):
    (records / "ingest@cut.json").write_text('{"seconds": 1')
    for stage in ("ingest@e", "train_hcl@n", "compare", "ingest@cut"):
        assert estimate_in_words(["ingest@d", stage], records) == (
            "No estimate yet: 1 of 2 stages have no record of a run here.")


def test_the_stages_of_params_are_those_that_dvc_makes():
    made = instances(load_params(ROOT / "params.yaml"), yaml.safe_load((ROOT / "dvc.yaml").read_text()))
    assert sorted(made) == sorted(node.name for node in read_dag(ROOT).values())


def test_a_project_that_never_ran_says_so(tmp_path):
    (tmp_path / "dvc.yaml").write_text((ROOT / "dvc.yaml").read_text())
    params = load_params(ROOT / "params.yaml")
    count = len(instances(params, yaml.safe_load((ROOT / "dvc.yaml").read_text())))
    said = estimate_of_project(params, tmp_path)
    assert said.startswith(f"No estimate yet: {count} of {count} stages have no record")
