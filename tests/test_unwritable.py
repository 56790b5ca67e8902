"""Full disks and places that cannot be written: one line, status 1 and no half artifact, from commands and stages."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file
from small_project import environment, keycontrast, make_project

from keycontrast.errors import unwritten
from keycontrast.files import atomic_file
from pipeline.cli import main
from stages.common.tables import write_json
from stages.run.process import run_stage

ROOT = Path(__file__).parents[1]


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("unwritable") / "p")


def test_a_stage_on_a_full_disk_says_which_artifact_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    target = Path("artifacts/d/metrics.json")
    write_json(target, {"before": 1})

    def work(_):
        monkeypatch.setattr(Path, "write_text", full)
        write_json(target, {"after": 1})

    assert run_stage("ingest", work, ["sample"]) == 1
    assert capsys.readouterr().err == (f"ingest: {target}: could not be written: the disk is full. Free some space, "
                                       f"and give the same command again.\n")
    assert [path.name for path in target.parent.iterdir()] == ["metrics.json"] and "before" in target.read_text()


def test_a_stage_whose_record_cannot_be_written_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    Path(".keycontrast").mkdir()
    Path(".keycontrast/records").write_text("a file")
    assert run_stage("ingest", lambda _: None, ["sample"]) == 1
    assert "ingest: .keycontrast/records: could not be written: a file stands" in capsys.readouterr().err


def test_other_errors_of_a_stage_keep_their_traceback(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)

    def work(_):
        raise RuntimeError("a fault of the program")

    with pytest.raises(RuntimeError, match="a fault of the program"):
        run_stage("ingest", work, ["sample"])
    assert unwritten(FileNotFoundError(errno.ENOENT, "No such file", "x")) is None


@pytest.mark.parametrize("write", [
    lambda path: pq.write_table(pa.table({"a": range(4096)}), path, compression="none", use_dictionary=False),
    lambda path: save_file({"a": torch.zeros(4096)}, path),
    lambda path: path.write_text("x" * 8192)], ids=["arrow", "safetensors", "python"])
def test_libraries_are_understood_too(write, tmp_path):
    """The largest file is made small, as a quota would."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        with pytest.raises(Exception, match=r"(?i)file too large") as caught, atomic_file(tmp_path / "a") as temporary:
            write(temporary)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert str(unwritten(caught.value)).startswith(f"{tmp_path / 'a'}: could not be written: files may not grow")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_each_reason_is_one_line_with_a_remedy(number):
    of_the_system = unwritten(OSError(number, os.strerror(number), "a/b"))
    assert of_the_system.startswith("a/b: could not be written: ") and "\n" not in of_the_system
    foreign = unwritten(Exception(f"I/O error: {os.strerror(number)} (os error {number})"))
    assert foreign.partition("could not")[2] == of_the_system.partition("could not")[2]


@pytest.mark.parametrize("command", [("run",), ("stage", "ingest"), ("use", "two")])
def test_commands_that_run_stages_name_what_stands_in_the_way(project, command):
    (project / ".keycontrast").mkdir(exist_ok=True)
    (project / ".keycontrast" / "run").write_text("a file where a folder belongs")
    params = (project / "params.yaml").read_bytes()
    done = keycontrast(project, *command)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("keycontrast: .keycontrast/run: could not be written: a file stands where a folder")
    assert (project / "params.yaml").read_bytes() == params


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 16 MiB, where one may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)],
                                                 capture_output=True, check=False).returncode:
        pytest.skip("no disk may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_run_on_a_small_disk_says_what_it_needs_and_does_not_begin(project, small_disk):
    root = shutil.copytree(project, small_disk / "p")
    (root / ".keycontrast" / "run").unlink(missing_ok=True)
    done = keycontrast(root, "run")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert f"{root}: this run needs about 0.05 GiB of disk, and 0.0" in done.stderr and "dvc gc" in done.stderr
    assert not (root / "order.txt").exists()


WRITERS = {"pipeline.export.export_graph": ["export", "graph.graphml"],
           "pipeline.export.export_model": ["export", "folder", "--model", "ct"],
           "pipeline.neighbourhood.show": ["graph", "oven"], "pipeline.explain.show": ["explain", "1"],
           "pipeline.judgement.sheets.write_sheets": ["judge", "sheets", "one", "--out", "judged"],
           "pipeline.judgement.results.write_results": ["judge", "read", "judged"]}


@pytest.mark.parametrize("place", WRITERS)
def test_every_command_that_writes_stands_in_the_same_frame(place, project, tmp_path, monkeypatch, capsys):
    """The function that does the command's work meets a full disk."""
    def work(*_, **__):
        with atomic_file(tmp_path / "file"):
            full()

    monkeypatch.chdir(project)
    monkeypatch.setattr(place, work)
    monkeypatch.setattr(sys, "argv", ["keycontrast", *WRITERS[place]])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1 and list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == (f"keycontrast: {tmp_path / 'file'}: could not be written: the disk is full. "
                                       f"Free some space, and give the same command again.\n")


def test_an_answer_to_a_full_disk_is_one_line(project):
    with Path("/dev/full").open("w") as stream:
        done = subprocess.run([sys.executable, "-m", "pipeline", "use"], cwd=project, env=environment(), stdout=stream,
                              stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "the disk is full" in done.stderr
