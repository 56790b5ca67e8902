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
from small_project import environment, make_project

from keycontrast.errors import unwritten
from keycontrast.files import atomic_file
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
    assert capsys.readouterr().err == (f"ingest: {target}: could not be read or written: the disk is full. Free some "
                                       f"space, and run the command again.\n")
    assert [path.name for path in target.parent.iterdir()] == ["metrics.json"] and "before" in target.read_text()


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
    assert str(unwritten(caught.value)).startswith(f"{tmp_path / 'a'}: could not be read or written: files may")
    assert list(tmp_path.iterdir()) == []


def test_an_answer_to_a_full_disk_is_one_line(project):
    with Path("/dev/full").open("w") as stream:
        done = subprocess.run([sys.executable, "-m", "pipeline", "use"], cwd=project, env=environment(), stdout=stream,
                              stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "the disk is full" in done.stderr
