"""What decides the bytes of a stage beside its params is the same, whether DVC, the flow or a person runs it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WAYS = ("dvc", "flow", "person")
# A stage that writes down what it finds once it has seeded everything.
STAGE = """
import json
import os
import sys
from pathlib import Path

import torch

from stages.run.process import run_stage
from stages.common.seeds import seed_everything


def _work(process):
    seed_everything(1, 2, deterministic=True)
    found = {name: os.environ[name] for name in os.environ
             if name.startswith(("CUBLAS", "CUDNN", "PYTORCH", "TORCH", "OMP", "MKL"))}
    found |= {"threads": torch.get_num_threads(), "deterministic": torch.are_deterministic_algorithms_enabled(),
              "cudnn": [torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark],
              "tf32": [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32],
              "autocast": torch.is_autocast_enabled("cpu"), "started": torch.cuda.is_initialized()}
    Path(f"{process.instance}.json").write_text(json.dumps(found))


def main(argv=None):
    return run_stage("settled", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
"""
HOOK = """import stages
from stages.common import settings
stages.__path__.append({folder!r})
settings.declared = lambda stage: ()
"""


@pytest.fixture
def project(tmp_path):
    """A folder with one stage, for each way of running it."""
    for name in ("logs", "hook", "planted"):
        (tmp_path / name).mkdir()
    (tmp_path / "planted/settled.py").write_text(STAGE)
    (tmp_path / "hook/sitecustomize.py").write_text(HOOK.format(folder=str(tmp_path / "planted")))
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "dvc.yaml").write_text(json.dumps({"stages": {
        name: {"cmd": f"python -m stages.settled {name}"} for name in ("dvc", "flow")}}))
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.whole
def test_dvc_the_flow_and_a_person_run_a_stage_in_the_same_environment(project):
    shell = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project / "hook"), str(ROOT)]), "DVC_NO_ANALYTICS": "1",
             "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    repro = [sys.executable, "-m", "dvc", "repro", "-q"]
    # A person's own workspace would decide which kernels sum in which order.
    own = {**shell, "CUBLAS_WORKSPACE_CONFIG": ":16:8"}
    started = {"dvc": ([*repro, "dvc"], own), "flow": ([*repro, "flow"], {**shell, "PYTHONUNBUFFERED": "1"}),
               "person": ([sys.executable, "-m", "stages.settled", "person"], own)}
    for way in WAYS:    # DVC locks its folder, so one after the other
        command, environment = started[way]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120,
                              check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    found = {way: json.loads((project / f"{way}.json").read_text()) for way in WAYS}
    assert found["dvc"] == found["flow"] == found["person"]
    assert found["dvc"]["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert found["dvc"]["cudnn"] == [True, False] and found["dvc"]["deterministic"] and not found["dvc"]["started"]
