"""The flow `reproduce` on a small DVC project: order, failure, retries, caching, kills; and how the DAG is read."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import yaml
from dvc_objects.fs.utils import tmp_fname
from rich.console import Console
from small_project import SERVER, dvc, environment, keycontrast, lock, make_project, order, prefect_server_beside

from pipeline.running.dag import Dag, StageNode, open_repo, read_dag
from pipeline.running.display import RunDisplay
from pipeline.running.environment import settle_environment
from pipeline.running.leftovers import clear_dead_locks, clear_unfinished
from pipeline.running.workers import BadInput, LockLost, StageCrash, failure_of
from stages.run.errors import InputError
from stages.run.processes import alive

ALL = ["evaluate_x@m1", "evaluate_x@m2", "ingest@d", "report", "side@d", "train_x@m1", "train_x@m2"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One Prefect server for all commands of this module: each start takes seconds."""
    home = tmp_path_factory.mktemp("prefect")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(home))
        patch.setenv("PATH", os.environ["PATH"])
        patch.delenv("PREFECT_API_URL", raising=False)
        settle_environment(home)
        with prefect_server_beside(home) as address:
            for name, value in address.items():
                patch.setenv(name, value)
            yield


@pytest.fixture(scope="module")
def done(server, tmp_path_factory):
    """A project that `keycontrast run` has brought up to date, after a failure that was mended."""
    root = make_project(tmp_path_factory.mktemp("flow") / "a project")
    (root / "mend-train_x@m1").touch()
    (root / "crash-train_x@m2").touch()
    failed = keycontrast(root, "run")
    failed_order = order(root)
    (root / "mend-train_x@m1").unlink()
    mended = keycontrast(root, "run")
    return root, failed, failed_order, mended, order(root)


def test_a_failed_stage_stops_what_depends_on_it_and_nothing_else(done):
    _, failed, ran, _, _ = done
    assert failed.returncode == 1
    assert ran[0] == "ingest@d" and {"side@d", "train_x@m2", "evaluate_x@m2"} <= set(ran)
    assert not {"evaluate_x@m1", "report"} & set(ran)
    assert "failed  train_x@m1" in failed.stdout and "skipped evaluate_x@m1" in failed.stdout
    assert "raw.jsonl, row 3: no column 'target'\n        Rename it" in failed.stdout
    assert "Traceback" not in failed.stdout + failed.stderr


def test_a_crash_is_tried_again_and_bad_input_is_not(done):
    _, failed, ran, _, _ = done
    assert ran.count("train_x@m2") == 2 and ran.count("train_x@m1") == 1
    assert "done    train_x@m2" in failed.stdout


def test_after_mending_only_the_rest_runs(done):
    _, _, _, mended, ran = done
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert ran == ["train_x@m1", "evaluate_x@m1", "report"]
    assert "4 of 7 stages were up to date already." in mended.stdout
    assert "No estimate yet: 3 of 3 stages have no record of a run here." in mended.stdout


def test_lock_is_that_of_dvc_repro(done, tmp_path):
    twin = make_project(tmp_path / "a project")
    assert dvc(twin, "repro").returncode == 0
    assert lock(done[0]) == lock(twin)
    assert sorted(order(twin)) == ALL


def test_a_second_run_finds_nothing_to_do(done):
    root = done[0]
    before = lock(root)
    again = keycontrast(root, "run")
    assert again.returncode == 0 and "All 7 stages are up to date." in again.stdout
    assert "start" not in again.stdout and "estimate" not in again.stdout
    assert order(root) == [] and lock(root) == before
    # No flow begins, so that no server is needed: nobody answers here.
    unreachable = keycontrast(root, "run", "train_x", PREFECT_API_URL="http://127.0.0.1:9/api")
    assert unreachable.returncode == 0 and "All 3 stages are up to date." in unreachable.stdout


@pytest.mark.whole
def test_missing_outs_come_from_the_cache_and_only_the_rest_is_computed(done, tmp_path):
    root = copied(done[0], tmp_path / "p")
    before = lock(root)
    content = (root / "artifacts/report/report").read_bytes()
    shutil.rmtree(root / "artifacts")
    back = keycontrast(root, "run")
    assert back.returncode == 0 and "Artifacts of 7 stages brought back from DVC's cache" in back.stdout
    assert "All 7 stages are up to date." in back.stdout
    assert order(root) == [] and lock(root) == before and (root / "artifacts/report/report").read_bytes() == content
    # What has other inputs is computed, and so is what the cache has lost.
    shutil.rmtree(root / "artifacts")
    hashed = lock(root)["stages"]["side@d"]["outs"][0]["md5"]
    (root / ".dvc/cache/files/md5" / hashed[:2] / hashed[2:]).unlink()
    params = (root / "params.yaml").read_text()
    (root / "params.yaml").write_text(params.replace("      - 2\n", "      - 3\n"))
    some = keycontrast(root, "run")
    assert some.returncode == 0 and "Artifacts of 3 stages brought back" in some.stdout, some.stdout + some.stderr
    assert sorted(order(root)) == ["side@d", "train_x@m2"]
    # Likewise where its outs are there and only another stage's are brought back.
    shutil.rmtree(root / "artifacts/report")
    (root / "params.yaml").write_text(params.replace("      - 2\n", "      - 4\n"))
    other = keycontrast(root, "run")
    assert other.returncode == 0 and "Artifacts of 1 stages brought back" in other.stdout, other.stdout + other.stderr
    assert order(root) == ["train_x@m2"]


@pytest.mark.whole
def test_params_that_come_back_compute_nothing_and_a_failed_stage_is_restored_by_one_command(done, tmp_path):
    root = copied(done[0], tmp_path / "p")
    params = root / "params.yaml"
    one = params.read_text()
    two = one.replace("      - 2\n", "      - 3\n")
    order(root)
    for text, ran in ((two, ["train_x@m2"]), (one, []), (two, [])):
        params.write_text(text)
        there = keycontrast(root, "run", "train_x@m2")
        assert there.returncode == 0 and order(root) == ran, there.stdout + there.stderr
    before = lock(root)
    (root / "raw").write_text("more\n")
    (root / "mend-train_x@m2").touch()
    failed = keycontrast(root, "run", "train_x@m2")
    assert failed.returncode == 1 and not (root / "artifacts/models/m2/train_x@m2").exists()
    command = "dvc checkout --force train_x@m2"
    assert f"`{command}` brings it back" in failed.stdout
    assert dvc(root, *command.split()[1:]).returncode == 0
    assert (root / "artifacts/models/m2/train_x@m2").read_text() == "train_x@m2ingest@draw\n"
    assert lock(root)["stages"]["train_x@m2"] == before["stages"]["train_x@m2"]


@pytest.mark.whole
def test_other_bytes_from_the_same_inputs_are_said_in_one_line(done, tmp_path):
    root = copied(done[0], tmp_path / "p")
    assert "other bytes" not in done[3].stdout
    (root / "metrics").mkdir()
    (root / "metrics/one.json").write_text("1")
    for line in (["add", "dvc.lock", "metrics"], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "lock"]):
        subprocess.run(["git", *line], cwd=root, check=True)
    (root / "raw").write_text("more\n")
    changed = keycontrast(root, "run", "side")
    assert changed.returncode == 0 and order(root) and "other bytes" not in changed.stdout
    (root / "raw").write_text("raw\n")
    (root / "processor").write_text("another\n")
    (root / "metrics/one.json").write_text("2")
    for made in ("artifacts", ".dvc/cache"):
        shutil.rmtree(root / made)
    other = keycontrast(root, "run")
    assert other.returncode == 0 and (
        "Changed: dvc.lock, metrics/one.json, because 7 of 7 stages have written other bytes" in other.stdout)
    assert "`git checkout dvc.lock metrics`" in other.stdout and "Which bytes are promised" in other.stdout
    again = keycontrast(root, "run")
    assert again.returncode == 0 and "other bytes" not in again.stdout


def copied(root, target):
    """A copy of a project that may be changed."""
    return shutil.copytree(root, target, ignore=shutil.ignore_patterns("tmp", ".keycontrast"))


def test_one_target_and_one_stage(done, tmp_path):
    root = done[0]
    (root / "raw").write_text("other\n")
    try:
        only = keycontrast(root, "run", "evaluate_x@m2")
        assert only.returncode == 0, only.stdout + only.stderr
        assert order(root) == ["ingest@d", "train_x@m2", "evaluate_x@m2"]
        single = keycontrast(root, "stage", "side")
        assert single.returncode == 0 and order(root) == ["side@d"]
        unchanged = keycontrast(root, "stage", "side@d")
        assert "nothing had changed" in unchanged.stdout and order(root) == []
        wrong = keycontrast(root, "run", "evaluate_y@m2", "sides")
        assert wrong.returncode == 1 and "did you mean 'evaluate_x@m2'?" in wrong.stderr
        assert "did you mean 'side'?" in wrong.stderr
    finally:
        (root / "raw").write_text("raw\n")
        order(root)


def test_prefect_keeps_edges_logs_links_durations_and_states(done):
    program = """
import json
from prefect.client.orchestration import get_client
with get_client(sync_client=True) as client:
    runs = client.read_task_runs(limit=200)
    names = {run.id: run.name for run in runs}
    edges = [[names[one.id], run.name] for run in runs for one in run.task_inputs.get("wait_for", ())]
    artifacts = client.read_artifacts(limit=200)
    logs = client.request("POST", "/logs/filter", json={"limit": 200}).json()
    limits = {one.name: one.limit for one in client.read_global_concurrency_limits()}
    states = [flow.state.type.value for flow in client.read_flow_runs(limit=200)]
    print(json.dumps({"edges": edges, "artifacts": [[one.key, one.type, one.data] for one in artifacts],
                      "states": sorted({(run.name, run.state.name) for run in runs}), "flows": sorted(set(states)),
                      "logs": [one["message"] for one in logs if one["task_run_id"]], "limits": limits}))
"""
    found = json.loads(subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True,
                                      text=True, check=True).stdout)
    assert ["train_x@m1", "evaluate_x@m1"] in found["edges"] and ["evaluate_x@m2", "report"] in found["edges"]
    assert ["report", "Completed"] in found["states"] and ["ingest@d", "Cached"] in found["states"]
    assert ["evaluate_x@m1", "NotReady"] in found["states"] and found["flows"] == ["COMPLETED", "FAILED"]
    links = next(data for key, kind, data in found["artifacts"] if key == "report")
    assert "artifacts/report/report](file://" in links and "Duration:" in links
    tables = [json.loads(data) for key, kind, data in found["artifacts"] if kind == "table"]
    assert [{"run": "m1", "bleu": 0.5}] in tables
    assert any("raw.jsonl, row 3: no column 'target'" in message for message in found["logs"])
    assert found["limits"]["keycontrast-processor"] == 2


def test_events_reach_the_server_before_it_ends(server):
    program = """
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from pipeline.running.flows import events_delivered
with events_delivered():
    for number in range(20):
        emit_event("keycontrast.test", {"prefect.resource.id": f"keycontrast.{number}"})
    worker = EventsWorker.instance()
    waiting = worker._queue.qsize()
print(waiting > 0, worker._queue.qsize(), worker._done_event.is_set())
"""
    shown = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True,
                           check=True)
    assert shown.stdout == "True 0 True\n" and shown.stderr == ""


def test_requests_at_one_moment_are_all_served_at_once(server):
    """Prefect's client would try again what the server refuses, two seconds later."""
    address = f"{os.environ['PREFECT_API_URL']}/v2/concurrency_limits"

    def post(path, **body):
        request = urllib.request.Request(f"{address}/{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status

    assert post("", name="many", limit=500) == 201
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: post("increment", names=["many"], slots=1), range(80)))
    assert set(answers) == {200}


def test_a_killed_run_leaves_nothing_behind_and_goes_on(done, tmp_path):
    root = make_project(tmp_path / "p")
    (root / "wait-ingest@d").touch()
    environ = environment()
    del environ["PREFECT_API_URL"]
    command = subprocess.Popen([sys.executable, "-m", "pipeline", "run"], cwd=root, env=environ,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert await_value(lambda: (root / "order.txt").exists())
    refused = subprocess.Popen([sys.executable, "-m", "pipeline", "run"], cwd=root, env=environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    workers = workers_of(command.pid)
    assert workers
    _, message = refused.communicate(timeout=60)
    assert refused.returncode == 1 and f"already running (process {command.pid}" in message
    command.send_signal(signal.SIGKILL)
    command.wait()
    assert await_value(lambda: all(not alive(pid) for pid in workers))
    # This project's stages have no guard; real ones end with the command (tests/test_runtime.py).
    (root / "wait-ingest@d").unlink()
    again = keycontrast(root, "run", "ingest")
    assert again.returncode == 0, again.stdout + again.stderr
    assert (root / "artifacts/d/ingest@d").read_text() == "ingest@draw\n"


@pytest.mark.whole
def test_a_command_ends_soon_after_the_server_that_it_uses(server, tmp_path):
    root = make_project(tmp_path / "p")
    (root / "wait-side@d").touch()
    with subprocess.Popen([sys.executable, "-c", SERVER], cwd=tmp_path, env=environment(PREFECT_API_URL=""), text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one:
        address = json.loads(one.stdout.readline())
        with (tmp_path / "said").open("w") as said:
            command = subprocess.Popen([sys.executable, "-m", "pipeline", "run"], cwd=root, env=environment(**address),
                                       stdout=said, stderr=said)
        assert await_value(lambda: "side@d" in read(root / "order.txt"))
        workers = workers_of(command.pid)
        one.kill()
    assert command.wait(timeout=60) == 1
    message = read(tmp_path / "said")
    assert "Traceback" not in message and f"server at {address['PREFECT_API_URL']} has ended" in message
    assert "give the same command again" in message
    assert all(not alive(pid) for pid in workers)
    (root / "wait-side@d").unlink()
    again = keycontrast(root, "run", "ingest", "side")
    assert again.returncode == 0 and "1 of 2 stages were up to date" in again.stdout, again.stdout + again.stderr


@pytest.mark.whole
def test_trainings_of_two_processes_share_two_gpus(done, tmp_path):
    """Both run at once, each with both devices; other stages see what the command saw."""
    root = make_project(tmp_path / "p")
    params = yaml.safe_load((root / "params.yaml").read_text())
    params["runtime"] |= {"processes": 2}
    (root / "params.yaml").write_text(yaml.safe_dump(params))
    refused = keycontrast(root, "run", "train_x", CUDA_VISIBLE_DEVICES="4")
    assert refused.returncode == 1 and "and 1 GPU is visible (CUDA_VISIBLE_DEVICES=4)" in refused.stderr
    holds = [root / f"wait-train_x@m{number}" for number in (1, 2)]
    for hold in holds:
        hold.touch()
    command = subprocess.Popen([sys.executable, "-m", "pipeline", "run", "--jobs", "2", "train_x"], cwd=root,
                               env=environment(CUDA_VISIBLE_DEVICES="4,5"), stdout=subprocess.DEVNULL)
    assert await_value(lambda: len(read(root / "gpus.txt").splitlines()) == 3)
    for hold in holds:
        hold.unlink()
    assert command.wait(timeout=60) == 0
    assert sorted(read(root / "gpus.txt").splitlines()) == ["ingest@d 4,5", "train_x@m1 4,5", "train_x@m2 4,5"]


def session(gpus, processes=1, jobs=None):
    from pipeline.running.flows import Session  # here: Prefect reads its settings once, when it is imported

    return Session(Dag(nodes=()), RunDisplay(Console(), 0), list(gpus), processes, jobs)


def test_how_many_stages_run_at_a_time_and_on_which_gpus():
    limits = {"": (2, None), "7": (2, 1), "78": (2, 2), "678": (3, 3)}
    for gpus, (processor, gpu) in limits.items():
        assert session(gpus).limits == {"keycontrast-processor": processor, **({"keycontrast-gpu": gpu} if gpu else {})}
    assert session("", jobs=5).limits == {"keycontrast-processor": 5}
    assert session("78", jobs=2).limits == {"keycontrast-processor": 4, "keycontrast-gpu": 4}
    training, other = node("train_x@m", gpu=True), node("generate_x@r", gpu=True)
    assert session("").needed_gpus(training) == 0 and session("78").needed_gpus(node("report")) == 0
    assert session("78", processes=2).needed_gpus(training) == 2
    assert session("78", processes=2).needed_gpus(other) == 1


def test_a_stage_has_the_devices_with_the_fewest_stages_and_gives_them_back():
    shared, one, two = session("678", processes=2), node("generate_x@r", gpu=True), node("train_x@m", gpu=True)
    with shared.devices(one) as first, shared.devices(two) as second, shared.devices(node("report")) as none:
        assert (first, second, none) == (("6",), ("7", "8"), ())
    with shared.devices(two) as again:
        assert again == ("6", "7")


def test_an_interrupt_ends_the_children(done, tmp_path):
    root = make_project(tmp_path / "p")
    (root / "wait-ingest@d").touch()
    # Whoever runs the tests in the background of a shell has SIGINT ignored, and a child inherits that.
    command = subprocess.Popen([sys.executable, "-m", "pipeline", "run"], cwd=root, env=environment(), text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert await_value(lambda: (root / "order.txt").exists())
    child = await_value(lambda: working_in(root))
    command.send_signal(signal.SIGINT)
    _, message = command.communicate(timeout=60)
    assert command.returncode == 130 and "goes on from here" in message and "Traceback" not in message
    assert await_value(lambda: all(not alive(pid) for pid in child))


def await_value(condition, seconds=90):
    """Wait until ``condition`` gives something true, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    return None


def workers_of(pid):
    return [child.pid for child in psutil.Process(pid).children() if "pipeline.running.dvc_worker" in child.cmdline()]


def working_in(root):
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")
            if "work.py" in read(path / "cmdline") and (path / "cwd").readlink() == root]


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def node(name, *upstream, **more):
    return StageNode(name=name, upstream=upstream, **more)


NODES = (node("ingest@d"), node("annotate@d", "ingest@d"), node("pair_classifier@d", "ingest@d"),
         node("attribution@d", "pair_classifier@d", "annotate@d"), node("textrank@d", "annotate@d"),
         node("keywords@d", "textrank@d"), node("train_hcl@m", "keywords@d"), node("generate_hcl@r", "train_hcl@m"),
         node("evaluate_hcl@r", "generate_hcl@r"), node("report", "evaluate_hcl@r", "attribution@d"))


def test_targets():
    dag = Dag(nodes=NODES)
    assert dag.resolve(["train_hcl", "ingest@d"]) == ["ingest@d", "train_hcl@m"]
    assert [one.name for one in dag.subset(["keywords@d"]).nodes] == ["ingest@d", "annotate@d", "textrank@d",
                                                                      "keywords@d"]
    with pytest.raises(InputError, match="no stage is called 'trian_hcl'; did you mean 'train_hcl'?"):
        dag.resolve(["trian_hcl"])


def test_the_dag_is_read_from_dvc(tmp_path):
    root = make_project(tmp_path / "p")
    dag = read_dag(root)
    assert sorted(one.name for one in dag.nodes) == ALL
    assert dag["train_x@m1"].upstream == ("ingest@d",) and dag["train_x@m1"].retries == 2 and dag["train_x@m1"].gpu
    assert dag["report"].upstream == ("evaluate_x@m1", "evaluate_x@m2")
    assert dag["ingest@d"].outs == ("artifacts/d/ingest@d",) and dag["ingest@d"].changed
    names = [one.name for one in dag.nodes]
    assert all(names.index(before) < names.index(one.name) for one in dag.nodes for before in one.upstream)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="not a DVC project"):
        read_dag(tmp_path / "empty")


@pytest.mark.parametrize(("kind", "output", "failure", "message"), [
    ("command", "x: file.csv: no column 'a'\n  add it\n", BadInput, "file.csv: no column 'a'\n  add it"),
    ("command", "x: 3 texts\nTraceback (most recent call last):\n  ...\nMemoryError\n", StageCrash,
     "x: 3 texts\nTraceback (most recent call last):\n  ...\nMemoryError"),
    ("command", "", StageCrash, "said by DVC"), ("lock", "", LockLost, "said by DVC"),
    ("stage", "x: file.csv\n", BadInput, "said by DVC")])
def test_ends_of_a_stage_are_told_apart(kind, output, failure, message):
    found = failure_of("x@d", kind, "said by DVC", output)
    assert type(found) is failure and str(found) == message


def test_locks_of_dead_processes_go_and_others_stay(tmp_path):
    folder = tmp_path / ".dvc" / "tmp"
    folder.mkdir(parents=True)
    assert clear_dead_locks(tmp_path) == []
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "dvc"])
    other = subprocess.Popen(["sleep", "60"])
    try:
        held = {"write": {"a": {"pid": sleeper.pid, "cmd": "dvc repro"}, "b": {"pid": other.pid, "cmd": "dvc old"}},
                "read": {"c": [{"pid": 2**22 + 1, "cmd": "dvc gone"}, {"pid": sleeper.pid, "cmd": "dvc repro"}]}}
        (folder / "rwlock").write_text(json.dumps(held))
        assert clear_dead_locks(tmp_path) == ["removed the lock that a killed command (dvc gone) had left",
                                              "removed the lock that a killed command (dvc old) had left"]
        kept = json.loads((folder / "rwlock").read_text())
        assert clear_dead_locks(tmp_path) == []  # it is said once
        assert list(kept["write"]) == ["a"] and [entry["cmd"] for entry in kept["read"]["c"]] == ["dvc repro"]
    finally:
        for process in (sleeper, other):
            process.kill()
            process.wait()
    (folder / "rwlock").write_text('{"write": {"a"')
    assert "half written" in clear_dead_locks(tmp_path)[0] and not (folder / "rwlock").exists()


def test_temporary_files_of_a_killed_dvc_go_and_others_stay(tmp_path, monkeypatch):
    project = make_project(tmp_path / "p")
    names = iter(tmp_fname, None)
    begun = [project / ".dvc" / "cache" / "files" / "md5" / next(names), project / "artifacts" / "d" / next(names),
             project / ".dvc" / "cache" / "runs" / "ab" / f"cd{next(names)}", project / "metrics" / next(names)]
    others = [project / "artifacts" / "d" / name for name in (".x.parquet.abcdefgh.tmp", "notes.tmp")]
    others.append(project / "data" / next(names))
    for path in begun + others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"test")
    with open_repo(project) as repo, repo.lock:  # whoever has it may be writing them
        monkeypatch.setattr("dvc.lock.DEFAULT_TIMEOUT", 0.1)
        with pytest.raises(InputError, match="lock"):
            clear_unfinished(project)
        assert all(path.exists() for path in begun)
    assert clear_unfinished(project) == ["removed 4 temporary files of DVC that a killed command had left"]
    assert not any(path.exists() for path in begun) and all(path.exists() for path in others)
    assert clear_unfinished(project) == []  # it is said once


def test_gpus_that_stages_may_take(monkeypatch):
    from pipeline.running.flows import visible_gpus

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert visible_gpus("auto") == ["0", "2"] and visible_gpus("cpu") == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus("cuda") == []


@pytest.mark.parametrize(("status", "signal"), [(-9, "SIGKILL"), (137, "SIGKILL"), (-11, "SIGSEGV"), (1, ""), (3, "")])
def test_a_stage_that_was_killed_says_so_before_its_last_line(status, signal):
    words = str(failure_of("train_x@m", "command", f"failed to run: x, exited with {status}", "epoch 3 of 5\n"))
    if signal:
        assert words.startswith(f"ended by {signal}, not by itself") and words.endswith("epoch 3 of 5")
    else:
        assert words == "epoch 3 of 5"
