"""``keycontrast init``: a project without code, whose stages depend on what is installed."""

import os
import shutil
import subprocess
import sys

import pytest
import yaml
from source_imports import ROOT
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.installation import renew
from pipeline.new_project import begin, without_code
from pipeline.running.dag import read_dag
from stages.params import load_params
from stages.run import installed
from stages.run.errors import InputError


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("projects") / "new"
    begin(folder)
    return folder


@pytest.fixture
def project(begun, tmp_path):
    return shutil.copytree(begun, tmp_path / "new")


def keycontrast(folder, *arguments):
    return subprocess.run([sys.executable, "-m", "pipeline", *arguments], cwd=folder, capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_folders_called_as_ours_do_not_stand_before_the_code_of_an_editable_installation(project):
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run([sys.executable, "-c", "from importlib.util import find_spec\n"
                           "assert find_spec('stages.ingest.layouts') and find_spec('models.clld')"], cwd=project,
                          capture_output=True, text=True, check=False, env=bare)
    assert said.returncode == 0, said.stderr


def test_its_stages_are_the_clones_without_code(project):
    mine, theirs = (yaml.safe_load((folder / "dvc.yaml").read_text(encoding="utf-8")) for folder in (project, ROOT))
    assert mine["stages"].keys() == theirs["stages"].keys()
    for name, stage in mine["stages"].items():
        stage, of_clone = (one.get("do", one) for one in (stage, theirs["stages"][name]))
        dependencies = [path for path in of_clone["deps"] if not path.startswith(("stages/", "models/"))]
        assert sorted(stage["deps"]) == sorted([*dependencies, "installed.yaml"])
        assert stage | {"deps": 0} == of_clone | {"deps": 0}
    assert without_code((project / "dvc.yaml").read_text(encoding="utf-8")) == (project / "dvc.yaml").read_text(
        encoding="utf-8")


def test_what_dvc_watches_is_there(project, monkeypatch):
    monkeypatch.chdir(project)
    assert load_params().recipe == "first"
    dag = read_dag()
    assert {"graph@sample", "evaluate_clld@ct", "report"} <= {node.name for node in dag.nodes}
    made = {out for node in dag.nodes for out in node.outs}
    stages = yaml.safe_load((project / "params.yaml").read_text(encoding="utf-8"))
    watched = [stages["datasets"]["sample"]["watched"], *stages["watched"].values()]
    assert all((project / path).exists() or path in made for path in watched)
    assert not (project / "stages" / "__init__.py").exists()


def test_a_stage_runs_and_other_code_is_noticed(project):
    done = keycontrast(project, "stage", "ingest@sample")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "artifacts" / "sample" / "examples.parquet").exists()
    content = (project / "installed.yaml").read_text(encoding="utf-8")
    (project / "installed.yaml").write_text(content.replace("code: ", "code: 0"), encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "stages.ingest.ingest", "sample"], cwd=project, capture_output=True,
                          text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 1 and "another version or build of Keycontrast" in done.stderr
    assert "has changed since" in str(renew({}, project)) and renew({}, project) is None
    assert (project / "installed.yaml").read_text(encoding="utf-8") == content
    installed.check(project)


def test_a_clone_has_no_such_file():
    assert not (ROOT / "installed.yaml").exists() and renew({"watched": "stages/none.py"}, ROOT) is None
    installed.check(ROOT)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "kept.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="is there already, with something in it"):
        begin(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_git_may_be_there(tmp_path):
    (tmp_path / "new").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "new", check=True)
    answer = CliRunner().invoke(app, ["init", str(tmp_path / "new")])
    assert answer.exit_code == 0 and "Now: cd" in answer.stdout
    assert "no_scm" not in (tmp_path / "new" / ".dvc" / "config").read_text(encoding="utf-8")
    assert read_dag(tmp_path / "new").nodes


@pytest.mark.whole
def test_it_runs_from_end_to_end(project):
    done = keycontrast(project, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "artifacts" / "report" / "index.html").exists()
    before = (project / "dvc.lock").read_bytes()
    assert "Report: artifacts/report/index.html" in keycontrast(project, "run").stdout
    assert (project / "dvc.lock").read_bytes() == before
