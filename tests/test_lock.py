"""`dvc.lock`: broken or in conflict it is named with its remedy; which other bytes are rounding, and which are not."""

import subprocess

import pytest

from pipeline.dag import UnreadableLock, read_lock
from pipeline.records import clear_leftovers, differs_by_rounding, machine_lock, own_lock

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
