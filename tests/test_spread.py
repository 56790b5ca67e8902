"""A run over two work pools: a server, two workers with clones of their own, an S3 server and git between them."""

import shutil
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
import s3_server
from small_project import environment, keycontrast, lock, order
from source_imports import ROOT
from test_deployment import server  # noqa: F401 - a fixture
from test_parts import AUTHOR, clone, git, published

# A server, a command line, two workers and four flows, each of which imports Prefect.
pytestmark = [pytest.mark.timeout(900), pytest.mark.whole]


def test_two_workers_with_clones_of_their_own_leave_the_lock_of_one_folder(server, tmp_path, monkeypatch):  # noqa: F811
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with ExitStack() as held:
        address = held.enter_context(s3_server.s3_server())
        home = published(tmp_path / "machines", address)
        shutil.copy(ROOT / "prefect-pools.yaml", home)
        one = tmp_path / "one folder"
        shutil.copytree(home, one)
        clones = {place: clone(home, place) for place in ("processor", "gpu")}
        environ = environment(**AUTHOR, **s3_server.CREDENTIALS, PREFECT_WORKER_QUERY_SECONDS="0.5")
        with temporary_settings({PREFECT_API_URL: environ["PREFECT_API_URL"]}), get_client(sync_client=True) as client:
            for place in clones:
                client.create_work_pool(WorkPoolCreate(name=f"keycontrast-{place}", type="process"))
            deploy = subprocess.run([sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--prefect-file",
                                     "prefect-pools.yaml", "--all"], cwd=home, env=environ, capture_output=True,
                                    text=True, check=False)
            assert deploy.returncode == 0, deploy.stdout + deploy.stderr
            workers = [subprocess.Popen([sys.executable, "-m", "prefect", "worker", "start", "--pool",
                                         f"keycontrast-{place}"], cwd=tmp_path, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env={**environ, "KEYCONTRAST_PROJECT": str(folder)})
                       for place, folder in clones.items()]
            for worker in workers:
                held.callback(worker.wait, 60)
                held.callback(worker.terminate)
            deployment = client.read_deployment_by_name("spread/spread").id
            run = client.create_flow_run_from_deployment(deployment).id
            deadline = time.monotonic() + 500
            while not (state := client.read_flow_run(run).state).is_final() and time.monotonic() < deadline:
                time.sleep(0.5)
            assert state.is_completed(), (state, [(one.name, one.state) for one in client.read_flow_runs()])
            parts = {one.name for one in client.read_flow_runs()} - {client.read_flow_run(run).name}
        assert parts == {"1 processor", "2 gpu", "3 processor"}
        assert sorted(order(clones["gpu"])) == ["train_x@m1", "train_x@m2"]
        assert sorted(order(clones["processor"])) == ["evaluate_x@m1", "evaluate_x@m2", "ingest@d", "report", "side@d"]
        git(home, "pull", "--ff-only", "--quiet")
        assert keycontrast(one, "run").returncode == 0
        assert lock(home) == lock(one)
    order(one)
    (one / "raw").write_text("other\n")    # what needs it is out of date, and left alone
    assert keycontrast(one, "run", "--only", "train_x@m1", "--force").returncode == 0
    assert order(one) == ["train_x@m1"] and keycontrast(one, "run", "--only").returncode == 1
