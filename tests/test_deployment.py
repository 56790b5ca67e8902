"""The deployment of prefect.yaml: a server, a worker in a process of its own, and the flow that it starts."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from small_project import environment, make_project, order, prefect_server_beside
from source_imports import ROOT

from pipeline.running.environment import settle_environment
from stages.params import load_params

# A server, a command line, a worker and a flow, each of which imports Prefect.
pytestmark = [pytest.mark.timeout(1500), pytest.mark.whole]


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    settle_environment(tmp_path)
    with prefect_server_beside(tmp_path) as address:
        for name, value in address.items():
            monkeypatch.setenv(name, value)
        yield


def test_the_deployment_of_prefect_yaml_runs_under_a_worker_and_takes_the_same_lock(server, tmp_path):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.settings import PREFECT_API_URL, temporary_settings

    root = make_project(tmp_path / "a project")
    shutil.copy(ROOT / "prefect.yaml", root)
    environ = environment(KEYCONTRAST_PROJECT=str(root))

    def prefect(*words):
        done = subprocess.run([sys.executable, "-m", "prefect", *words], cwd=root, env=environ, capture_output=True,
                              text=True, timeout=500, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    # Prefect reads the environment once, perhaps for a test before this one.
    with temporary_settings({PREFECT_API_URL: environ["PREFECT_API_URL"]}), get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="keycontrast", type="process"))
        prefect("--no-prompt", "deploy", "--all")
        deployment = client.read_deployment_by_name("reproduce/reproduce").id
        for wrong in ({"targets": "side"}, {"targets": ["a b"]}, {"recipe": "a/b"}, {"force": "perhaps"}):
            with pytest.raises(PrefectHTTPStatusError, match="Validation failed"):
                client.create_flow_run_from_deployment(deployment, parameters=wrong)
        run = client.create_flow_run_from_deployment(deployment, parameters={"recipe": "two", "targets": ["side"]}).id
        # A worker that asks once may ask before the run is due.
        deadline = time.monotonic() + 500
        while not (state := client.read_flow_run(run).state).is_final() and time.monotonic() < deadline:
            prefect("worker", "start", "--pool", "keycontrast", "--run-once")
        assert state.is_completed(), state
        # The server learns of task runs by events, which it works on one after another.
        expected = {"ingest@d", "side@d"}
        while (tasks := {one.name for one in client.read_task_runs(limit=20)}) != expected:
            assert time.monotonic() < deadline, tasks
            time.sleep(0.2)
    assert order(root) == ["ingest@d", "side@d"] and load_params(root / "params.yaml").recipe == "two"
    # Held meanwhile, as by the command.
    assert (root / ".keycontrast/run/holder").exists()
