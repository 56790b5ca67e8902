"""What DVC's run cache has comes back, also where a table in parts was a single file, and the other way round."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.running.dag import read_and_restore

WORK = """import pathlib, sys, yaml
out, parts = pathlib.Path("table"), yaml.safe_load(open("params.yaml"))["parts"]
open("times", "a").write("x")
if parts:
    out.mkdir()
    [(out / str(n)).write_text(f"part {n} of {parts}") for n in range(parts)]
else:
    out.write_text("one file")
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dvc("init", "--no-scm", "-q")
    Path("work.py").write_text(WORK)
    Path("dvc.yaml").write_text(f"stages:\n  made:\n    cmd: '\"{sys.executable}\" work.py'\n    deps: [work.py]\n"
                                "    params: [parts]\n    outs: [table]\n")


def dvc(*words):
    subprocess.run([sys.executable, "-m", "dvc", *words], check=True, capture_output=True)


def held():
    table = Path("table")
    return sorted(part.read_text() for part in table.iterdir()) if table.is_dir() else table.read_text()


def test_a_file_and_a_folder_take_each_others_place(project):
    made = {}
    for parts in (2, 0, 3):
        Path("params.yaml").write_text(f"parts: {parts}\n")
        dvc("repro", "-q")
        made[parts] = held()
    assert made == {2: ["part 0 of 2", "part 1 of 2"], 0: "one file", 3: [f"part {n} of 3" for n in range(3)]}
    for parts in (0, 2, 0, 3, 2):
        Path("params.yaml").write_text(f"parts: {parts}\n")
        dag, back = read_and_restore([])
        assert back == ["made"] and not any(node.changed for node in dag.nodes) and held() == made[parts]
    assert Path("times").read_text() == "xxx"
