"""`dvc.lock`: broken, in conflict, or with other bytes by rounding; and `keycontrast verify` by it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml
from rich.console import Console

from pipeline.dag import UnreadableLock, read_lock
from pipeline.records import clear_leftovers, differs_by_rounding, machine_lock, own_lock, show_verified

WHOLE = """schema: '2.0'
stages:
  ingest@d:
    cmd: python work.py artifacts/d/ingest@d raw
    deps:
    - path: raw
      md5: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      size: 4
    outs:
    - path: artifacts/d/ingest@d
      md5: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
      size: 8
"""
BROKEN = {
    "conflict": (WHOLE.replace("      size: 8\n", "<<<<<<< a\n      size: 8\n=======\n      size: 9\n>>>>>>> b\n"),
                 ["dvc.lock: not valid YAML", "line 12", "git checkout --ours dvc.lock", "keycontrast run"]),
    "cut off": (WHOLE[:WHOLE.index("size: 8") + 4], ["dvc.lock: not valid YAML", "git checkout dvc.lock"]),
    "empty": ("", ["dvc.lock: not what DVC writes", "git checkout dvc.lock"]),
    "wrong": ("stages: 3\n", ["dvc.lock", "git checkout dvc.lock"])}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", BROKEN)
def test_a_lock_that_is_not_whole_is_named_with_its_remedy(folder, name):
    content, expected = BROKEN[name]
    (folder / "dvc.lock").write_text(content)
    with pytest.raises(UnreadableLock) as caught:
        read_lock()
    assert all(part in str(caught.value) for part in expected)
    with pytest.raises(UnreadableLock), own_lock(print):
        pass
    assert not (folder / ".keycontrast/lock-before-run").exists()    # the next command does not come back to it


@pytest.mark.parametrize("cut", [WHOLE[:-20], WHOLE[:WHOLE.index("      md5: bbbb")],
                                 "schema: '2.0'\nstages: {}\n", ""])
def test_a_lock_that_a_killed_run_cut_off_is_put_back(folder, cut):
    (folder / ".keycontrast").mkdir()
    (folder / ".keycontrast/lock-before-run").write_text(WHOLE)
    (folder / "dvc.lock").write_text(cut)
    said = list(clear_leftovers())
    assert (folder / "dvc.lock").read_text() == WHOLE and len(said) == 1 and "cut off" in said[0]
    with own_lock(print):
        pass
    assert not (folder / ".keycontrast/lock-before-run").exists()


def entry(deps, outs, **more):
    return {"cmd": "x", "deps": [{"path": path, "md5": md5} for path, md5 in deps.items()],
            "outs": [{"path": path, "md5": md5} for path, md5 in outs.items()], **more}


BEFORE = {"a": entry({"raw": "1"}, {"a": "1"}), "b": entry({"a": "1", "code": "1"}, {"b": "1"}),
          "folder": entry({"a": "1"}, {"models/x": "1"}), "reads": entry({"models": "1"}, {"reads": "1"})}
ROUNDED = {"a": entry({"raw": "1"}, {"a": "2"}), "b": entry({"a": "2", "code": "1"}, {"b": "2"}),
           "folder": entry({"a": "2"}, {"models/x": "2"}), "reads": entry({"models": "2"}, {"reads": "1"})}


@pytest.mark.parametrize(("more", "expected"), [
    ({}, True), ({"b": entry({"a": "2", "code": "2"}, {"b": "2"})}, False),
    ({"b": entry({"a": "2", "code": "1"}, {"b": "2"}, params={"p": 1})}, False),
    ({"b": entry({"a": "2"}, {"b": "2"})}, False), ({"new": entry({"a": "2"}, {"new": "1"})}, False),
    ({"b": {**ROUNDED["b"], "cmd": "y"}}, False)])
def test_rounding_is_told_from_other_inputs(more, expected):
    assert differs_by_rounding(BEFORE, {**ROUNDED, **more}) == expected


def test_after_another_commit_what_this_machine_recorded_is_not_used(folder):
    (folder / "dvc.lock").write_text(WHOLE)
    for line in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "x"]):
        subprocess.run(["git", *line], check=True)
    own = WHOLE.replace("bbbb", "9abc")
    with own_lock(lambda _: None):
        (folder / "dvc.lock").write_text(own)
    assert (folder / "dvc.lock").read_text() == WHOLE
    assert machine_lock()["ingest@d"]["outs"][0]["md5"].startswith("9abc")
    assert read_lock()["ingest@d"]["outs"][0]["md5"].startswith("bbbb")
    pulled = WHOLE.replace("aaaa", "cccc")
    (folder / "dvc.lock").write_text(pulled)
    with own_lock(lambda _: None):
        assert (folder / "dvc.lock").read_text() == pulled
    assert machine_lock() == read_lock()
    # A lock as committed is whole, although a run that was killed at another commit had more stages.
    (folder / "dvc.lock").write_text(fewer := "schema: '2.0'\nstages: {}\n")
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", "commit", "-qam", "y"], check=True)
    (folder / ".keycontrast/lock-before-run").write_text(WHOLE)
    assert not list(clear_leftovers()) and (folder / "dvc.lock").read_text() == fewer


def md5(content):
    return hashlib.md5(content).hexdigest()


@pytest.fixture
def project(folder):
    """A file and a folder that dvc.lock names, the one a hard link of the cache's, the other a copy."""
    for line in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(line, check=True)
    cache = folder / ".dvc" / "cache" / "files" / "md5"
    listed = json.dumps([{"md5": md5(b"two"), "relpath": "two.txt"}]).encode()
    for content, ending in ((b"one", ""), (b"two", ""), (listed, ".dir")):
        place = cache / md5(content)[:2] / (md5(content)[2:] + ending)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    (folder / "artifacts" / "b").mkdir(parents=True)
    os.link(cache / md5(b"one")[:2] / md5(b"one")[2:], "artifacts/a.txt")
    (folder / "artifacts" / "b" / "two.txt").write_bytes(b"two")
    outs = {"a": ("artifacts/a.txt", md5(b"one")), "b": ("artifacts/b", md5(listed) + ".dir")}
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": {
        stage: {"cmd": "x", "outs": [path]} for stage, (path, _) in outs.items()}}))
    outs["dropped"] = ("artifacts/dropped", md5(b"row of an earlier recipe"))
    (folder / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": {
        stage: {"cmd": "x", "outs": [{"path": path, "md5": digest}]} for stage, (path, digest) in outs.items()}}))
    return folder


def verified(project):
    console = Console(record=True, width=300)
    return show_verified(console), console.export_text()


def test_verify_names_what_is_not_as_the_lock_has_it_and_the_remedy(project):
    assert verified(project)[0]
    (project / "artifacts" / "b" / "two.txt").write_bytes(b"tow")
    sound, said = verified(project)
    assert not sound
    assert "b/two.txt: has other bytes than its stage has written. `dvc checkout --force" in said
    (project / "artifacts" / "b" / "two.txt").unlink()
    assert "b/two.txt: is not there. `dvc checkout --force artifacts/b/two.txt` brings" in verified(project)[1]
    # A hard link is damaged in the cache, too.
    with (project / "artifacts" / "a.txt").open("r+b") as file:
        file.write(b"oNe")
    said = verified(project)[1]
    assert "artifacts/a.txt: has other bytes than its stage has written. Delete " in said
    assert "Make it again: `keycontrast run --force a`" in said


def test_a_folder_that_dvc_does_not_cache_is_compared_file_by_file(project):
    """Its digest is DVC's own, whatever that is made of."""
    (project / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"plots": {
        "cmd": "mkdir -p plots/in && echo 1 > plots/z.csv && echo 2 > plots/in/a.csv",
        "outs": [{"plots": {"cache": False}}]}}}))
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q", "--force"], check=True)
    assert verified(project)[0]
    (project / "plots" / "z.csv").write_text("3")
    assert "plots: has other bytes than its stage has written. Make it again: `keycontrast run --force plots" in (
        verified(project)[1])
    shutil.rmtree(project / "plots")
    assert "plots: is not there. Make it again" in verified(project)[1]
