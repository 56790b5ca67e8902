"""The flow `reproduce` on a small DVC project: order, failure, retries, caching, kills; and how the DAG is cut."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from small_project import dvc, environment, keycontrast, lock, make_project, order

from pipeline.dag import Dag, StageNode, clear_dead_locks, read_dag, subflow_of
from pipeline.display import RunDisplay
from pipeline.environment import settle_environment
from pipeline.processes import BadInput, LockLost, StageCrash, failure_of, visible_gpus
from pipeline.server import prefect_server
from stages.runtime.errors import InputError
from stages.runtime.guard import alive

ALL = ["evaluate_x@m1", "evaluate_x@m2", "ingest@d", "report", "side@d", "train_x@m1", "train_x@m2"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One Prefect server for all commands of this module: each start takes seconds."""
    home = tmp_path_factory.mktemp("prefect")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(home))
        patch.setenv("PATH", os.environ["PATH"])
        patch.delenv("PREFECT_API_URL", raising=False)
        patch.chdir(home)
        settle_environment(home)
        with prefect_server() as await_server:
            await_server()
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
    # What this project reads is of no type that could be looked at.
    assert "No estimate of time and memory: raw: files of type ''" in mended.stdout


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


def test_missing_outs_come_from_the_cache_and_only_the_rest_is_computed(done, tmp_path):
    root = copied(done[0], tmp_path / "p")
    before = lock(root)
    content = (root / "artifacts/report/report").read_bytes()
    shutil.rmtree(root / "artifacts")
    back = keycontrast(root, "run")
    assert back.returncode == 0 and "artifacts of 7 stages brought back from DVC's cache" in back.stdout
    assert "All 7 stages are up to date." in back.stdout
    assert order(root) == [] and lock(root) == before and (root / "artifacts/report/report").read_bytes() == content
    # What has other inputs is computed, and so is what the cache has lost.
    shutil.rmtree(root / "artifacts")
    hashed = lock(root)["stages"]["side@d"]["outs"][0]["md5"]
    (root / ".dvc/cache/files/md5" / hashed[:2] / hashed[2:]).unlink()
    params = (root / "params.yaml").read_text()
    (root / "params.yaml").write_text(params.replace("seed: 2\n", "seed: 3\n"))
    some = keycontrast(root, "run")
    assert some.returncode == 0 and "artifacts of 3 stages brought back" in some.stdout, some.stdout + some.stderr
    assert sorted(order(root)) == ["side@d", "train_x@m2"]


def test_params_that_come_back_compute_nothing_and_a_failed_stage_is_restored_by_one_command(done, tmp_path):
    root = copied(done[0], tmp_path / "p")
    params = root / "params.yaml"
    one = params.read_text()
    two = one.replace("seed: 2\n", "seed: 3\n")
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


def test_prefect_keeps_links_durations_and_states(done):
    program = """
from prefect.client.orchestration import get_client
with get_client(sync_client=True) as client:
    artifacts = client.read_artifacts(limit=200)
    runs = client.read_task_runs(limit=200)
    flows = client.read_flow_runs(limit=200)
    print([a.key for a in artifacts], [a.data for a in artifacts if a.key == "report"])
    print(sorted({(r.name, r.state.name) for r in runs}))
    print(sorted({f.state.type.value for f in flows}), sorted({str(f.flow_id) for f in flows}).__len__())
"""
    shown = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True,
                           check=True).stdout
    assert "train-x-m2" in shown and "Duration:" in shown and "artifacts/report/report](file://" in shown
    assert "('ingest@d', 'Cached')" in shown and "('report', 'Completed')" in shown
    assert shown.splitlines()[-1] == "['COMPLETED', 'FAILED'] 4"


def test_events_reach_the_server_before_it_ends(server):
    program = """
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from pipeline.flows import events_delivered
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
    server = server_of(command.pid)
    assert server
    _, message = refused.communicate(timeout=60)
    assert refused.returncode == 1 and f"already running (process {command.pid}" in message
    command.send_signal(signal.SIGKILL)
    command.wait()
    assert await_value(lambda: all(not alive(pid) for pid in server))
    # This project's stages have no guard; real ones end with the command (tests/test_runtime.py).
    (root / "wait-ingest@d").unlink()
    again = keycontrast(root, "run", "ingest")
    assert again.returncode == 0, again.stdout + again.stderr
    assert (root / "artifacts/d/ingest@d").read_text() == "ingest@draw\n"


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
    from pipeline.flows import Session  # here: Prefect reads its settings once, when it is imported

    return Session(Dag(nodes=()), RunDisplay(Console(), 0), list(gpus), processes, jobs)


def started(session, nodes):
    """Start what can start, as the flow does, and return each name with its devices."""
    from pipeline.flows import _startable

    waiting, names = list(nodes), []
    while (one := _startable(session, waiting, len(names))) is not None:
        waiting.remove(one)
        gpus = session.take(one)
        names.append((one.name, *gpus))
    return names


def test_how_many_stages_run_at_a_time_and_on_which_gpus():
    nodes = [*(node(f"train_x@m{number}", gpu=True) for number in range(6)), node("report")]
    assert started(session(""), nodes) == [("train_x@m0",), ("train_x@m1",)]
    assert len(started(session("", jobs=5), nodes)) == 5 and len(started(session("", jobs=1), nodes)) == 1
    assert started(session("7"), nodes) == [("train_x@m0", "7"), ("report",)]
    assert started(session("78"), nodes) == [("train_x@m0", "7"), ("train_x@m1", "8")]
    assert started(session("78", jobs=2), nodes) == [
        ("train_x@m0", "7"), ("train_x@m1", "8"), ("train_x@m2", "7"), ("train_x@m3", "8")]
    assert started(session("678", processes=2), nodes) == [("train_x@m0", "6", "7"), ("report",)]
    assert started(session("6789", processes=2), nodes) == [
        ("train_x@m0", "6", "7"), ("train_x@m1", "8", "9"), ("report",)]
    assert started(session("678", processes=2, jobs=2), nodes)[:3] == [
        ("train_x@m0", "6", "7"), ("train_x@m1", "8", "6"), ("train_x@m2", "7", "8")]


def test_devices_are_free_again_when_a_stage_has_ended():
    from pipeline.flows import _startable

    one, other = node("generate_x@r", gpu=True), node("train_x@m", gpu=True)
    shared = session("78", processes=2)
    gpus = shared.take(one)
    assert gpus == ("7",) and _startable(shared, [other], 1) is None
    shared.give_back(gpus)
    assert _startable(shared, [other], 0) is other


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


def server_of(pid):
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if read(path / "stat").rpartition(")")[2].split()[
        1:2] == [str(pid)] and "pipeline.server" in read(path / "cmdline")]


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


def test_subflows():
    parts = subflow_of(NODES)
    assert [name for name, part in parts.items() if part == "prepare"] == ["ingest@d", "annotate@d", "textrank@d",
                                                                           "keywords@d"]
    # The classifier branch runs beside the training, because no training needs it.
    assert [name for name, part in parts.items() if part == "train"] == ["pair_classifier@d", "attribution@d",
                                                                         "train_hcl@m"]
    assert [name for name, part in parts.items() if part == "evaluate"] == ["generate_hcl@r", "evaluate_hcl@r",
                                                                            "report"]


def test_subflows_when_the_classifier_names_the_keywords():
    nodes = [node("keywords@d", "attribution@d") if one.name == "keywords@d" else one for one in NODES]
    parts = subflow_of(nodes)
    assert parts["pair_classifier@d"] == parts["attribution@d"] == "prepare"


def test_a_model_that_learns_from_another_ones_mistakes_is_trained_in_the_same_subflow():
    nodes = (node("ingest@d"), node("train_clld@ct", "ingest@d"), node("confusing_pairs@ct", "train_clld@ct"),
             node("train_clld@sled", "confusing_pairs@ct"), node("linear_floor@d", "ingest@d"),
             node("evaluate_clld@sled", "train_clld@sled", "linear_floor@d"))
    assert subflow_of(nodes) == {"ingest@d": "prepare", "train_clld@ct": "train", "confusing_pairs@ct": "train",
                                 "train_clld@sled": "train", "linear_floor@d": "train",
                                 "evaluate_clld@sled": "evaluate"}


def test_no_subflow_waits_for_a_later_one():
    nodes = (node("train_a@m"), node("generate_a@m", "train_a@m"), node("train_b@m", "generate_a@m"),
             node("extra", "generate_a@m"))
    place = {"prepare": 0, "train": 1, "evaluate": 2}
    parts = subflow_of(nodes)
    assert all(place[parts[before]] <= place[parts[one.name]] for one in nodes for before in one.upstream)


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


@pytest.mark.parametrize(("output", "kind", "message"), [
    ("Running stage 'x@d':\n> python -m stages.x d\nx: file.csv: no column 'a'\n  add it\n"
     "ERROR: failed to reproduce 'x@d': failed to run: python -m stages.x d, exited with 1\n", BadInput,
     "file.csv: no column 'a'\n  add it"),
    ("Running stage 'x@d':\n> python -m stages.x d\nTraceback (most recent call last):\n  ...\nMemoryError\n"
     "ERROR: failed to reproduce 'x@d': failed to run: python -m stages.x d, exited with 1\n", StageCrash,
     "Traceback (most recent call last):\n  ...\nMemoryError"),
    ("ERROR: Unable to acquire lock. Most likely another DVC process is running\n", LockLost,
     "ERROR: Unable to acquire lock. Most likely another DVC process is running"),
    ("ERROR: failed to reproduce 'x@d': dependency 'raw' does not exist\n", BadInput,
     "failed to reproduce 'x@d': dependency 'raw' does not exist"),
    ("Running stage 'x@d':\n> python -m stages.x d\n", StageCrash, "no message")])
def test_ends_of_a_stage_are_told_apart(output, kind, message):
    failure = failure_of("x@d", output)
    if message == "no message":
        message = "\n".join(line for line in output.splitlines())
    assert type(failure) is kind and str(failure) == message


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
        assert list(kept["write"]) == ["a"] and [entry["cmd"] for entry in kept["read"]["c"]] == ["dvc repro"]
    finally:
        for process in (sleeper, other):
            process.kill()
            process.wait()
    (folder / "rwlock").write_text('{"write": {"a"')
    assert "half written" in clear_dead_locks(tmp_path)[0] and not (folder / "rwlock").exists()


def test_gpus_that_stages_may_take(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert visible_gpus("auto") == ["0", "2"] and visible_gpus("cpu") == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus("cuda") == []
