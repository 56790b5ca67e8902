"""A run over two work pools: a server, two workers with clones of their own, an S3 server and git between them."""

import shutil
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
import s3_server
import small_project
import tiny_project
from small_project import keycontrast, order
from source_imports import ROOT
from test_deployment import server  # noqa: F401 - a fixture
from test_parallel_training import until
from test_parts import AUTHOR, clone, git, published

# A server, a command line, two workers and four or more flows, each of which imports Prefect.
pytestmark = [pytest.mark.timeout(1500), pytest.mark.whole]
PREFECT = (sys.executable, "-m", "prefect")


class Pools:
    """A server's two work pools, with the deployments of ``prefect-pools.yaml`` and a worker for each clone.

    Args:
        client: of the server.
        home: where it is deployed from.
        clones: folder of each place.
        environ: of command line and workers.
    """

    def __init__(self, client, home, clones, environ):
        from prefect.client.schemas.actions import WorkPoolCreate

        self.client, self.workers = client, {}
        for place in clones:
            client.create_work_pool(WorkPoolCreate(name=f"keycontrast-{place}", type="process"))
        deploy = subprocess.run([*PREFECT, "--no-prompt", "deploy", "--prefect-file", str(ROOT / "prefect-pools.yaml"),
                                 "--all"], cwd=home, env=environ, capture_output=True, text=True, check=False)
        assert deploy.returncode == 0, deploy.stdout + deploy.stderr
        for place, folder in clones.items():
            self.workers[place] = subprocess.Popen(
                [*PREFECT, "worker", "start", "--pool", f"keycontrast-{place}"], cwd=folder.parent,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**environ, "KEYCONTRAST_PROJECT": str(folder)})

    def spread(self, targets=None, meanwhile=lambda: None):
        """Start a run in parts, do something, and return how the run ended and what its parts are called."""
        deployment, before = self.client.read_deployment_by_name("spread/spread").id, self.runs()
        run = self.client.create_flow_run_from_deployment(deployment, parameters={"targets": targets})
        meanwhile()
        until(lambda: self.client.read_flow_run(run.id).state.is_final(), 600)
        return self.client.read_flow_run(run.id).state, self.runs() - before - {run.name}

    def runs(self):
        return {one.name for one in self.client.read_flow_runs()}

    def end(self):
        for worker in self.workers.values():
            worker.terminate()
        for worker in self.workers.values():
            worker.wait(60)


@contextmanager
def pools(home, clones, of_project):
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    # The workers must reach server, remote and git.
    environ = of_project.environment(**AUTHOR, **s3_server.CREDENTIALS, PREFECT_WORKER_QUERY_SECONDS="0.5")
    with (temporary_settings({PREFECT_API_URL: environ["PREFECT_API_URL"]}), get_client(sync_client=True) as client):
        found = Pools(client, home, clones, environ)
        try:
            yield found
        finally:
            found.end()


def test_two_workers_with_clones_of_their_own_one_of_them_killed_leave_the_lock_of_one_folder(server,  # noqa: F811
                                                                                             tmp_path):
    with s3_server.s3_server() as address:
        home, one = published(tmp_path / "machines", address), tmp_path / "one folder"
        shutil.copytree(home, one)
        clones = {place: clone(home, place) for place in ("processor", "gpu")}
        (clones["gpu"] / "wait-train_x@m1").touch()
        with pools(home, clones, small_project) as two:

            def kill():
                began = clones["gpu"] / "order.txt"
                until(lambda: began.exists() and "train_x@m1" in began.read_text(), 300)
                for process in psutil.Process(two.workers["gpu"].pid).children(recursive=True):
                    process.kill()

            state, parts = two.spread(meanwhile=kill)
            assert state.is_failed() and parts == {"1 processor", "2 gpu"}
            (clones["gpu"] / "wait-train_x@m1").unlink()
            state, _ = two.spread()
            assert state.is_completed(), state
    assert set(order(clones["gpu"])) == {"train_x@m1", "train_x@m2"}
    assert sorted(order(clones["processor"])) == ["evaluate_x@m1", "evaluate_x@m2", "ingest@d", "report", "side@d"]
    git(home, "pull", "--ff-only", "--quiet")
    assert keycontrast(one, "run").returncode == 0
    assert small_project.lock(home) == small_project.lock(one)
    order(one)
    (one / "raw").write_text("other\n")    # what needs it is out of date, and left alone
    assert keycontrast(one, "run", "--only", "train_x@m1", "--force").returncode == 0
    assert order(one) == ["train_x@m1"] and keycontrast(one, "run", "--only").returncode == 1


def test_the_stages_of_a_model_take_turns_on_two_machines_of_which_one_has_the_data(server, tmp_path):  # noqa: F811
    with s3_server.s3_server() as address:
        home = published(tmp_path / "machines", address, tiny_project.make, ["/triples.jsonl", "/questions.jsonl"])
        one, clones = tmp_path / "one folder", {place: clone(home, place) for place in ("processor", "gpu")}
        shutil.copytree(home, one)
        for name in ("triples.jsonl", "questions.jsonl"):
            shutil.copy(home / name, clones["processor"])
        with pools(home, clones, tiny_project) as two:
            state, parts = two.spread(["evaluate_hcl"])
        assert state.is_completed() and parts == {"1 processor", "2 gpu", "3 processor"}
    run = tiny_project.call(one, *tiny_project.command("run", "evaluate_hcl"))
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    git(home, "pull", "--ff-only", "--quiet")
    assert len(tiny_project.lock(home)["stages"]) >= 10
    assert tiny_project.lock(home) == tiny_project.lock(one)
