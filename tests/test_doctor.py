"""`keycontrast doctor`: every problem at once, each with its remedy."""

import io
import sys

import pytest
import yaml
from packaging.requirements import Requirement
from rich.console import Console
from small_project import make_project

from pipeline import doctor
from pipeline.doctor import Finding, available_memory, diagnose, import_problem, package_problem, report


@pytest.fixture
def project(tmp_path, monkeypatch):
    root = make_project(tmp_path / "p")
    monkeypatch.chdir(root)
    return root


def by_subject(findings):
    return {finding.subject: finding for finding in findings}


def test_a_sound_project_has_no_problem(project, monkeypatch):
    monkeypatch.setattr(doctor, "_MEMORY_GIB", 0.0)
    found = by_subject(diagnose())
    assert {"python", "packages", "prefect and fastapi", "params", "language pipeline", "encoder", "dvc", "disk",
            "memory", "device"} <= set(found)
    assert not [finding for finding in found.values() if finding.problem]
    assert "53aa51172d14" in found["encoder"].detail and "7 stages" in found["dvc"].detail


def test_all_problems_are_named_each_with_a_remedy(project, monkeypatch):
    params = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(params.replace("annotate:\n", "annotate:\n  pipeline: en_missing\n")
                                         .replace("encoder:\n  path: data/start/none\n  source: bundled",
                                                  "encoder:\n  path: nowhere\n  source: path")
                                         .replace("source: raw", "source: gone"))
    (project / "constraints.txt").write_text("typer==0.0.1\n")
    (project / "dvc.yaml").write_text("stages: [")
    monkeypatch.setattr(doctor, "_FREE_GIB", 10.0**9)
    monkeypatch.setattr(doctor, "_MEMORY_GIB", 10.0**9)
    problems = {finding.subject: finding for finding in diagnose() if finding.problem}
    assert set(problems) == {"typer", "params", "language pipeline", "encoder", "dvc", "disk", "memory"}
    assert all(finding.remedy for finding in problems.values())
    assert "known to work together have 0.0.1" in problems["typer"].detail
    assert "gone does not exist" in problems["params"].detail and "en_missing" in problems["language pipeline"].detail


def test_encoders_that_classifiers_name_are_looked_for_too(project):
    labelled = {"source": "raw", "layout": "labelled", "columns": {"label": "label"}}
    params = {"recipe": "r", "linear_floor": {"datasets": ["d"]}, "datasets": {"d": labelled},
              "models": {"clld": {"words": {"dataset": "d", "encoder": "textcnn"}, "own": {"dataset": "d"},
                                  **{name: {"dataset": "d", "encoder": "path", "path": "nowhere"} for name in "ab"}}}}
    (project / "params.yaml").write_text(yaml.safe_dump(params))
    found = {finding.subject: finding for finding in doctor._encoder(project)}
    assert list(found) == ["encoder", "encoder of models.clld.a"]
    assert found["encoder of models.clld.a"].problem and "nowhere" in found["encoder of models.clld.a"].detail


def test_packages_missing_too_old_and_built_otherwise(monkeypatch):
    assert package_problem(Requirement("no-such-package>=1"), None) == "not installed (needed: no-such-package>=1)"
    monkeypatch.setattr(doctor, "version", lambda name: "2.13.0+cpu")
    assert package_problem(Requirement("torch>=2.11"), "2.13.0") is None
    assert package_problem(Requirement("torch>=3"), None) == "2.13.0+cpu is installed, torch>=3 is needed"


class Without:
    """Lets nobody import some modules, whether they have been imported before or not."""

    def __init__(self, *names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_missing_spacy_is_a_problem_and_no_crash(project, monkeypatch):
    for name in list(sys.modules):
        if name.partition(".")[0] in ("spacy", "stages", "pytextrank"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Without("spacy"), *sys.meta_path])
    found = {finding.subject: finding for finding in diagnose() if finding.problem}
    assert {"spacy", "language pipeline"} <= set(found)
    for subject in ("spacy", "language pipeline"):
        assert "No module named 'spacy'" in found[subject].detail and "make env" in found[subject].remedy


def test_a_package_is_imported_really(tmp_path, monkeypatch):
    assert import_problem("yaml") is None
    (tmp_path / "half_removed").mkdir()
    (tmp_path / "compiled_gone").mkdir()
    (tmp_path / "compiled_gone" / "__init__.py").write_text("import _compiled_gone\n")
    (tmp_path / "breaks").mkdir()
    (tmp_path / "breaks" / "__init__.py").write_text("raise SystemError('wrong build')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert import_problem("half_removed") == "cannot be imported: its folder is there without the module"
    assert "No module named '_compiled_gone'" in import_problem("compiled_gone")
    assert import_problem("breaks") == "cannot be imported: SystemError: wrong build"


def test_fastapi_that_breaks_flows_is_a_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "version", {"prefect": "3.8.8", "fastapi": "0.155.1"}.__getitem__)
    (finding,) = doctor._prefect_pair(tmp_path)
    assert finding.problem and "fastapi==0.150.0" in finding.remedy


def test_the_report_escapes_markup_and_counts():
    console = Console(width=200, record=True, file=io.StringIO())
    report([Finding("a", "bad [bold]", True, "do [this]"), Finding("b", "good")], console)
    lines = console.export_text().splitlines()
    assert lines == ["ok      b: good", "problem a: bad [bold]", "        remedy: do [this]", "1 problem."]


def test_memory_is_a_sensible_number():
    assert 2**20 < available_memory() < 2**50
