"""Damaged models and artifacts: their digests, and `keycontrast verify`."""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml
from rich.console import Console

from keycontrast.errors import InputError
from pipeline.records import show_verified
from stages.common.training import check_seal, seal


def test_a_model_is_loaded_only_as_it_was_trained(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    check_seal(tmp_path)
    seal(tmp_path)
    check_seal(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"weighty")
    with pytest.raises(InputError, match="model.safetensors: has changed since the model was trained"):
        check_seal(tmp_path)


def md5(content):
    return hashlib.md5(content).hexdigest()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A file and a folder that dvc.lock names, the one a hard link of the cache's, the other a copy."""
    monkeypatch.chdir(tmp_path)
    for line in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(line, check=True)
    cache = tmp_path / ".dvc" / "cache" / "files" / "md5"
    listed = json.dumps([{"md5": md5(b"two"), "relpath": "two.txt"}]).encode()
    for content, ending in ((b"one", ""), (b"two", ""), (listed, ".dir")):
        place = cache / md5(content)[:2] / (md5(content)[2:] + ending)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    (tmp_path / "artifacts" / "b").mkdir(parents=True)
    os.link(cache / md5(b"one")[:2] / md5(b"one")[2:], "artifacts/a.txt")
    (tmp_path / "artifacts" / "b" / "two.txt").write_bytes(b"two")
    outs = {"a": ("artifacts/a.txt", md5(b"one")), "b": ("artifacts/b", md5(listed) + ".dir")}
    (tmp_path / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": {
        stage: {"cmd": "x", "outs": [{"path": path, "md5": digest}]} for stage, (path, digest) in outs.items()}}))
    return tmp_path


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


def test_a_hard_link_is_damaged_in_the_cache_too(project):
    with (project / "artifacts" / "a.txt").open("r+b") as file:
        file.write(b"oNe")
    sound, said = verified(project)
    assert not sound
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
