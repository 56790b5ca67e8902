"""What git keeps of the results: rounded, a few numbers per run, and shown by DVC in a fresh clone."""

import json
import shutil
import subprocess
import sys

import pandas as pd
import pytest
from source_imports import ROOT

from stages.params import load_params
from stages.results.headlines import curves, headlines
from stages.results.tracks import TRACKS


def test_a_few_numbers_per_run_with_four_digits():
    metrics = {"a": [{"run": {"accuracy": 0.123456, "ece": None, "other": 1.0}}],
               "b": [{"run": {"accuracy": 0.5, "ece": 0.5}}, {"run": {"accuracy": 1, "ece": 0.5}}]}
    found = headlines(metrics, ("accuracy", "ece", "nll"))
    assert found == {"a": {"accuracy": 0.1235}, "b": {"accuracy": 0.75, "ece": 0.5}}


def test_curves_of_all_models_stand_in_one_table():
    history = pd.DataFrame({"epoch": [1, 2], "step": [3, 6], "validation_loss": [2.123456, 1.0]})
    found = curves({"m": history, "n": history[:1]}, "validation_loss")
    assert found.to_csv(index=False).split() == ["epoch,model,validation", "1,m,2.1235", "2,m,1.0", "1,n,2.1235"]
    assert list(curves({}, "validation_loss")) == ["epoch", "model", "validation"]


@pytest.mark.whole
def test_a_fresh_clone_shows_metrics_and_plots_without_running_anything(tmp_path):
    for name in ("dvc.yaml", "params.yaml", ".dvc/config", ".dvc/plots/curves.json", "metrics/sample"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    clld = tmp_path / "metrics/sample/clld.json"
    now = json.loads(clld.read_text())
    clld.write_text(json.dumps({**now, "ct": {**now["ct"], "nll": 9.0}}))
    git(tmp_path, "init", "--quiet")
    for message in ("before", "now"):
        git(tmp_path, "add", ".")
        git(tmp_path, "-c", "user.name=a", "-c", "user.email=a", "commit", "--quiet", "-m", message)
        clld.write_text(json.dumps(now))
    params = load_params(ROOT / "params.yaml")
    shown = json.loads(dvc(tmp_path, "metrics", "show", "--json"))[""]["data"]
    for track in TRACKS:
        assert set(shown[f"metrics/sample/{track}.json"]["data"]) == set(getattr(params.runs, track))
    # The handful that a table of results has, not the two thousand numbers of all artifacts.
    assert 0 < sum(len(run) for one in shown.values() for run in one["data"].values()) < 100
    difference = json.loads(dvc(tmp_path, "metrics", "diff", "HEAD~1", "--json"))
    assert difference["metrics/sample/clld.json"]["ct.nll"]["old"] == 9.0
    plots = json.loads(dvc(tmp_path, "plots", "show", "--json"))["data"]
    assert set(plots) == {*(f"metrics/sample/curves/{track}.csv" for track in TRACKS),
                          *(f"metrics/sample/confusion/{run}.csv" for run in params.runs.clld)}


def git(folder, *words):
    subprocess.run(["git", *words], cwd=folder, check=True)


def dvc(folder, *words):
    return subprocess.run([sys.executable, "-m", "dvc", *words], cwd=folder, capture_output=True, text=True,
                          check=True).stdout
