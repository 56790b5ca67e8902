"""The process that imports what stages need once: its forks are processes like any other stage's."""

import json
import os
import signal

import pytest
from source_imports import ROOT

from pipeline.running.stage_host import StageHost

SAY = '''
import json, multiprocessing, os, sys
with open("imported.txt", "a") as file:
    file.write("say ")

def work(number):
    return number + 1

def main(argv):
    if argv == ["killed"]:
        os.kill(os.getpid(), 9)
    if argv == ["spawn"]:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(work, [1]))
        return 0
    print(json.dumps({"pid": os.getpid(), "folder": os.getcwd(), "argv": sys.argv[1:], "given": argv,
                      "environment": dict(os.environ), "input": sys.stdin.read()}))
    print("told", file=sys.stderr)
    return 3
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with packages of its own called as ours."""
    files = {"stages/__init__.py": "", "models/__init__.py": "", "stages/params.py": "", "stages/say.py": SAY,
             "stages/run/__init__.py": "", "stages/run/log.py": "def configure():\n    pass\n",
             "stages/broken.py": "raise OSError('no disk')"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def test_a_fork_has_its_own_folder_arguments_environment_and_output_and_nothing_is_imported_twice(project, capfd):
    host = StageHost()
    found = []
    for number in (1, 2):
        assert host.run("say", [f"m{number}"], str(project / "elsewhere"), {"NUMBER": str(number)}) == 3
        out, err = capfd.readouterr()
        found.append(json.loads(out))
        assert err == "told\n"
    pids = [one.pop("pid") for one in found]
    assert len({*pids, os.getpid()}) == 3
    assert found == [{"folder": str(project / "elsewhere"), "argv": [f"m{number}"], "given": [f"m{number}"],
                      "environment": {"NUMBER": str(number)}, "input": ""} for number in (1, 2)]
    assert (project / "imported.txt").read_text() == "say "


def test_edited_code_is_imported_anew(project, capfd):
    host = StageHost()
    assert host.run("say", [], str(project), {}) == 3
    (project / "models/more.py").write_text("")
    assert host.run("say", [], str(project), {}) == 3
    assert (project / "imported.txt").read_text() == "say say "
    (project / "stages/say.py").write_text("def main(argv):\n    return 4\n")
    assert host.run("say", [], str(project), {}) == 4


def test_ends_are_told_as_those_of_any_process(project, capfd):
    host = StageHost()
    assert host.run("say", ["killed"], str(project), {}) == -signal.SIGKILL
    assert host.run("broken", [], str(project), {}) == 1
    assert "OSError: no disk" in capfd.readouterr().err
    assert host.run("say", ["spawn"], str(project), dict(os.environ)) == 0
    assert capfd.readouterr().out == "[2]\n"
