"""`dvc.lock`: broken or in conflict it is named with its remedy; other bytes from the same inputs are counted."""

import shutil
import subprocess
from pathlib import Path

import dvc.dvcfile
import pytest
from dvc.utils import strictyaml
from dvc.utils.serialize import modify_yaml, parse_yaml
from rich.console import Console
from ruamel.yaml.representer import RepresenterError
from small_project import keycontrast, make_project

from pipeline import doctor
from pipeline.running.dag import read_dag
from pipeline.running.lockfile import UnreadableLock, committed_lock, keep_lock_by_stages, other_bytes, read_lock

SAMPLE = Path(__file__).parent.parent / "dvc.lock"
_DEP = {"path": "a"}
WHOLE = """schema: '2.0'
stages:
  ingest@d:
    cmd: python work.py artifacts/d/ingest@d raw
    deps:
    - path: raw
      md5: 0123
      size: 4
    outs:
    - path: artifacts/d/ingest@d
      md5: 4567
      size: 8
"""
BROKEN = {
    "conflict": (WHOLE.replace("      md5: 4567\n", "<<<<<<< a\n      md5: 4567\n=======\n      md5: 8\n>>>>>>> b\n"),
                 ["dvc.lock, line 11: a mark of a conflict", "git checkout --ours dvc.lock", "keycontrast run"]),
    "cut off": (WHOLE[:WHOLE.index("size: 8") + 4], ["dvc.lock: not valid YAML", "git checkout dvc.lock"]),
    "empty": ("", ["dvc.lock: not what DVC writes", "git checkout dvc.lock"]),
    "wrong": (WHOLE[:WHOLE.index("    outs:")] + "    outs: 3\n", ["dvc.lock", "git checkout dvc.lock"])}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("lock") / "p")


@pytest.mark.parametrize("name", BROKEN)
def test_a_lock_that_is_not_whole_is_named_with_its_remedy(project, name):
    content, expected = BROKEN[name]
    (project / "dvc.lock").write_text(content)
    with pytest.raises(UnreadableLock) as caught:
        read_dag(project)
    (finding,) = doctor._repository(project)
    for words in expected:
        assert words in str(caught.value)
        assert finding.problem and words in f"{finding.detail} {finding.remedy}"
    assert "init" not in finding.remedy


@pytest.mark.parametrize("command", [("run",), ("use", "two"), ("stage", "ingest")])
def test_every_command_says_so_and_changes_nothing(project, command):
    (project / "dvc.lock").write_text(BROKEN["conflict"][0])
    params = (project / "params.yaml").read_bytes()
    done = keycontrast(project, *command)
    assert done.returncode == 1 and "git checkout --ours dvc.lock" in done.stderr and "Traceback" not in done.stderr
    assert (project / "dvc.lock").read_text() == BROKEN["conflict"][0]
    assert (project / "params.yaml").read_bytes() == params


def test_a_whole_lock_is_read_and_none_is_none(tmp_path):
    assert read_lock(tmp_path) == {}
    (tmp_path / "dvc.lock").write_text(WHOLE)
    assert list(read_lock(tmp_path)) == ["ingest@d"]


@pytest.fixture
def own_lock(monkeypatch):
    """Have DVC take locks as the project has it; return how it does so by itself."""
    for module, name in ((dvc.dvcfile, "modify_yaml"), (strictyaml, "parse_yaml")):
        monkeypatch.setattr(module, name, getattr(module, name))
    keep_lock_by_stages()
    return modify_yaml  # not what `dvcfile` has under that name: where a test before read the DAG, that is ours


def test_a_lock_is_written_whole_or_not_at_all(tmp_path, own_lock):
    lock = tmp_path / "dvc.lock"
    lock.write_text(WHOLE)
    with pytest.raises(RepresenterError), dvc.dvcfile.modify_yaml(str(lock)) as content:
        content["stages"]["cut off here"] = object()
    assert lock.read_text() == WHOLE
    with dvc.dvcfile.modify_yaml(str(lock)) as content:
        content["stages"]["more"] = {"cmd": "x"}
    assert list(read_lock(tmp_path)) == ["ingest@d", "more"]
    with dvc.dvcfile.modify_yaml(str(tmp_path / "new.lock")) as content:
        content["stages"] = {}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dvc.lock", "new.lock"]


MORE = WHOLE + """  more:
    cmd: x
    params:
      params.yaml:
        a: 1
        b:
        - '1e-5'
        - 1e-05
"""
LOCKS = {
    "short": WHOLE, "params": MORE,
    "a long command": f"{WHOLE}  more:\n    cmd: \n      {'x' * 99}\n      {'z' * 99}\n",
    "a comment": f"# kept\n{WHOLE}", "a comment within": WHOLE.replace("    deps", "  # kept\n    deps"),
    "an alias": f"{WHOLE}  more:\n    deps:\n    - &id001\n      path: x\n    - *id001\n",
    "data sets": f"{WHOLE}datasets:\n- name: d\n", "empty": "schema: '2.0'\nstages: {}\n"}
CHANGES = {
    "another": {"more": {"cmd": "y", "deps": [{"path": "a b", "size": 1}, {"path": "long " * 30}]}},
    "new": {"new@x": {"cmd": "z", "params": {"p.yaml": {"on": "yes", "e": 1e-7, "none": None, "many": [[1], []]}}}},
    "equal, of other types": {"more": {"cmd": "x", "params": {"params.yaml": {"a": 1.0, "b": [True]}}}},
    "one object twice": {"new": {"deps": [_DEP, _DEP]}}}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_gets_the_bytes_that_dvc_gives_it(tmp_path, own_lock, lock, change):
    for name, modify in ("ours", dvc.dvcfile.modify_yaml), ("by DVC", own_lock):
        (tmp_path / name).write_text(LOCKS[lock])
        with modify(str(tmp_path / name)) as content:
            content["stages"].update(CHANGES[change])
    assert (tmp_path / "ours").read_text() == (tmp_path / "by DVC").read_text() != LOCKS[lock]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_is_read_as_dvc_reads_it(own_lock, lock):
    ours = strictyaml.parse_yaml(LOCKS[lock], "dvc.lock")
    assert ours == parse_yaml(LOCKS[lock], "dvc.lock")
    ours["stages"]["ingest@d"] = None  # and nobody else has it
    assert strictyaml.parse_yaml(LOCKS[lock], "dvc.lock") == parse_yaml(LOCKS[lock], "dvc.lock")


def test_entries_of_the_sample_s_lock_are_written_as_they_stand(tmp_path, own_lock):
    lock = tmp_path / "dvc.lock"
    lock.write_bytes(SAMPLE.read_bytes())
    with dvc.dvcfile.modify_yaml(str(lock)) as content:
        content["stages"] = {name: dict(entry) for name, entry in content["stages"].items()}
    assert lock.read_bytes() == SAMPLE.read_bytes()


@pytest.fixture(scope="module")
def up_to_date(tmp_path_factory):
    """A project that has run, for copies of it."""
    project = make_project(tmp_path_factory.mktemp("done") / "p")
    assert keycontrast(project, "run").returncode == 0
    return project


@pytest.mark.whole
@pytest.mark.parametrize("gone", ["cache", "artifacts"])
def test_a_run_replaces_the_lock(up_to_date, tmp_path, gone):
    project = shutil.copytree(up_to_date, tmp_path / "p", ignore=shutil.ignore_patterns("tmp", ".keycontrast"))
    none = "schema: '2.0'\nstages: {}\n"
    before = read_lock(project)
    (project / "dvc.lock").write_text(none)
    if gone == "cache":  # then stages run; else what they had made is restored
        shutil.rmtree(project / ".dvc" / "cache")
    shutil.rmtree(project / "artifacts")
    with (project / "dvc.lock").open() as handle:
        assert keycontrast(project, "run").returncode == 0
        assert handle.read() == none
    assert read_lock(project) == before


def test_the_committed_lock_is_that_of_git(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert committed_lock() == {}
    (tmp_path / "dvc.lock").write_text(WHOLE)
    for line in (["init", "--quiet"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "x"]):
        subprocess.run(["git", *line], check=True)
    (tmp_path / "dvc.lock").write_text("")
    assert list(committed_lock()) == ["ingest@d"]


def entry(deps, outs, **more):
    return {"cmd": "x", "deps": [{"path": path, "md5": md5} for path, md5 in deps.items()],
            "outs": [{"path": path, "md5": md5} for path, md5 in outs.items()], **more}


def test_other_bytes_count_from_the_same_inputs_alone():
    before = {"a": entry({"raw": "1"}, {"a": "1"}), "b": entry({"a": "1", "code": "1"}, {"b": "1"}),
              "folder": entry({"a": "1"}, {"models/x": "1"}), "reads": entry({"models": "1"}, {"reads": "1"}),
              "edited": entry({"code": "1"}, {"edited": "1"}), "set": entry({}, {"set": "1"}, params={"p": 1}),
              "after": entry({"edited": "1"}, {"after": "1"}), "same": entry({"a": "1"}, {"same": "1"})}
    after = {"a": entry({"raw": "1"}, {"a": "2"}), "b": entry({"a": "2", "code": "1"}, {"b": "2"}),
             "folder": entry({"a": "2"}, {"models/x": "2"}), "reads": entry({"models": "2"}, {"reads": "2"}),
             "edited": entry({"code": "2"}, {"edited": "2"}), "set": entry({}, {"set": "2"}, params={"p": 2}),
             "after": entry({"edited": "2"}, {"after": "2"}), "same": entry({"a": "2"}, {"same": "1"}),
             "new": entry({}, {"new": "1"})}
    assert other_bytes(before, after) == ["a", "b", "folder", "reads"]
    assert other_bytes(before, before) == []


def test_a_check_that_cannot_be_made_is_a_finding(project, monkeypatch):
    def broken(_):
        yield doctor.Finding("before", "good")
        raise OSError(28, "No space left on device", "a/b")

    found = doctor._checked("dvc", broken, project)
    assert [finding.subject for finding in found] == ["before", "dvc"]
    assert found[1].problem and found[1].detail.startswith("a/b: could not be written: the disk is full")
    doctor.report(found, Console(quiet=True))
