"""`keycontrast doctor`: every problem at once, each with its remedy."""

import io
from importlib.metadata import version

import pytest
import yaml
from rich.console import Console
from small_project import make_project

from pipeline import doctor
from pipeline.doctor import diagnose, report
from stages.params import load_params


@pytest.fixture
def project(tmp_path, monkeypatch):
    root = make_project(tmp_path / "p")
    monkeypatch.chdir(root)
    return root


def missing(*_):
    raise ModuleNotFoundError("No module named 'mlflow'")


def test_a_sound_project_has_no_problem_but_a_check_that_cannot_run(project, monkeypatch):
    monkeypatch.setattr(doctor, "_MEMORY_GIB", 0.0)
    monkeypatch.setattr(doctor, "_encoders", missing)
    console = Console(width=200, record=True, file=io.StringIO())
    report(diagnose(), console)
    *sound, problem, remedy, count = console.export_text().splitlines()
    assert {line.removeprefix("ok      ").partition(":")[0] for line in sound} >= {
        "python", "packages", "params", "language pipeline", "dvc", "disk", "memory", "device"}
    assert "7 stages" in str(sound)
    assert problem == "problem encoder: cannot be checked: ModuleNotFoundError: No module named 'mlflow'"
    assert "make env" in remedy and count == "1 problem."


def test_all_problems_are_named_each_with_a_remedy(project, monkeypatch):
    params = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(params.replace("annotate:\n", "annotate:\n  pipeline: en_missing\n")
                                         .replace("encoder:\n  path: data/start/none\n  source: bundled",
                                                  "encoder:\n  path: nowhere\n  source: path")
                                         .replace("source: raw", "source: gone"))
    (project / "dvc.yaml").write_text("stages: [")
    monkeypatch.setattr(doctor, "_FREE_GIB", 10.0**9)
    monkeypatch.setattr(doctor, "_MEMORY_GIB", 10.0**9)
    problems = {finding.subject: finding for finding in diagnose() if finding.remedy}
    assert set(problems) == {"params", "language pipeline", "encoder", "dvc", "disk", "memory"}
    assert "gone does not exist" in problems["params"].detail and "en_missing" in problems["language pipeline"].detail


def test_encoders_that_classifiers_name_are_looked_for_too(project):
    labelled = {"source": "raw", "layout": "labelled", "columns": {"label": "label"}}
    params = {"recipe": "r", "linear_baseline": {"datasets": ["d"]}, "datasets": {"d": labelled},
              "models": {"clld": {"words": {"dataset": "d", "encoder": "textcnn"}, "own": {"dataset": "d"},
                                  **{name: {"dataset": "d", "encoder": "path", "path": "nowhere"} for name in "ab"}}}}
    (project / "params.yaml").write_text(yaml.safe_dump(params))
    found = {finding.subject: finding for finding in doctor._encoders(load_params(project / "params.yaml"))}
    assert list(found) == ["encoder", "encoder of models.clld.a"]
    assert found["encoder of models.clld.a"].remedy and "nowhere" in found["encoder of models.clld.a"].detail


def test_packages_missing_and_too_old(monkeypatch):
    versions = {"torch": "2.13.0+cpu", "typer": "0.0.1"}
    monkeypatch.setattr(doctor, "requires", lambda _: ["torch>=2.11", "typer>=1", "no-such-package>=1",
                                                       "mkdocs>=1; extra == 'docs'"])
    monkeypatch.setattr(doctor, "version", lambda name: versions.get(name) or version(name))
    _, *others = doctor._packages(None)     # the first names Python and the system
    found = {finding.subject: finding.detail for finding in others}
    assert found == {"typer": "0.0.1 is installed, typer>=1 is needed", "packages": "1 as required",
                     "no-such-package": "not installed (needed: no-such-package>=1)"}
