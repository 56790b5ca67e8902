"""`keycontrast run` on a small DVC project: order, failures, retries, GPUs, kills, Prefect's server and records."""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from small_project import dvc, environment, keycontrast, make_project, order

from pipeline.dag import StageNode
from pipeline.flow import Session
from pipeline.worker import StageCrash, Workers
from stages.run.processes import alive

ALL = ["evaluate_x@m1", "evaluate_x@m2", "ingest@d", "report", "side@d", "train_x@m1", "train_x@m2"]
DATABASE = Path(".keycontrast/prefect/prefect.db")
# What a shell may have that leads elsewhere: a proxy that refuses, a database that is not there.
ELSEWHERE = {"http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9", "no_proxy": "",
             "PREFECT_API_DATABASE_CONNECTION_URL": "sqlite+aiosqlite:////nowhere/x.db", "PREFECT_HOME": "/nowhere",
             "PREFECT_SERVER_DATABASE_CONNECTION_URL": "sqlite+aiosqlite:////nowhere/x.db"}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A project that `keycontrast run` has brought up to date, after a failure that was mended."""
    root = make_project(tmp_path_factory.mktemp("flow") / "a project")
    (root / "mend-train_x@m1").touch()
    (root / "crash-train_x@m2").touch()
    failed = keycontrast(root, "run", **ELSEWHERE)
    failed_order = order(root)
    (root / "mend-train_x@m1").unlink()
    with closing(sqlite3.connect(root / DATABASE)) as database:
        database.execute("update alembic_version set version_num='5b0bd3b41a23'")
        database.commit()
    (root / "gpus.txt").unlink()
    mended = keycontrast(root, "run", CUDA_VISIBLE_DEVICES="3,5")
    git(root, "add", ".")
    git(root, "commit", "-qm", "all")
    return root, failed, failed_order, mended, order(root)


def git(root, *words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", *words], cwd=root, check=True)


def changes(root):
    return subprocess.run(["git", "status", "--short", "--untracked-files=no"], cwd=root, check=True,
                          capture_output=True, text=True).stdout


def copied(root, target):
    """A copy of a project that may be changed, with a Prefect database that need not be made."""
    shutil.copytree(root, target, ignore=shutil.ignore_patterns("tmp", ".keycontrast"))
    return with_database(root, target)


def with_database(root, target):
    (target / DATABASE).parent.mkdir(parents=True)
    with closing(sqlite3.connect(root / DATABASE)) as database, closing(sqlite3.connect(target / DATABASE)) as copy:
        database.backup(copy)
    return target


def test_a_failed_stage_stops_what_depends_on_it_and_nothing_else(done):
    _, failed, ran, *_ = done
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert ran[0] == "ingest@d" and {"side@d", "train_x@m2", "evaluate_x@m2"} <= set(ran)
    assert not {"evaluate_x@m1", "report"} & set(ran)
    assert "raw.jsonl, row 3: no column 'target'\n        Rename it" in failed.stdout
    assert failed.stdout.splitlines()[-3:-1] == [
        "Not run, because they need what failed: evaluate_x@m1, report.",
        "Failed: train_x@m1: raw.jsonl, row 3: no column 'target'"]
    assert failed.stdout.count("evaluate_x@m1") == 1 and "Traceback" not in failed.stdout + failed.stderr
    # A crash is tried again, and bad input is not.
    assert ran.count("train_x@m2") == 2 and ran.count("train_x@m1") == 1 and "done    train_x@m2" in failed.stdout


def test_after_mending_only_the_rest_runs_on_one_gpu_and_a_prefect_database_of_another_version_is_set_aside(done):
    root, _, _, mended, ran = done
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert ran == ["train_x@m1", "evaluate_x@m1", "report"]
    assert "4 of 7 stages were up to date already." in mended.stdout
    assert (root / "gpus.txt").read_text().splitlines() == ["train_x@m1 3", "evaluate_x@m1 3,5", "report 3,5"]
    aside, = (root / DATABASE).parent.parent.glob("prefect-2*/prefect.db")
    said = f"Prefect cannot use {DATABASE}, of another version or damaged: set aside in"
    assert mended.stdout.count(said) == 1 and aside.parent.name in mended.stdout


def test_prefect_keeps_edges_logs_links_durations_and_states(done, tmp_path):
    with closing(sqlite3.connect(done[0] / DATABASE)) as database:
        runs = database.execute("select id, name, state_name, task_inputs from task_run").fetchall()
        artifacts = database.execute("select key, type, data from artifact").fetchall()
        flows = database.execute("select state_type from flow_run").fetchall()
        logs = "".join(row[0] for row in database.execute("select message from log where task_run_id is not null"))
    names = {key.replace("-", ""): name for key, name, *_ in runs}
    edges = {(names[one["id"].replace("-", "")], name) for _, name, _, inputs in runs
             for one in json.loads(inputs).get("wait_for", ())}
    assert {("train_x@m1", "evaluate_x@m1"), ("evaluate_x@m2", "report")} <= edges
    assert {("report", "Completed"), ("ingest@d", "Cached")} <= {(name, state) for _, name, state, _ in runs}
    assert flows == [("COMPLETED",)] and "evaluate_x@m1 was here" in logs
    links = next(data for key, kind, data in artifacts if key == "report" and kind == "markdown")
    assert "artifacts/report/report](file://" in links and "Duration:" in links
    tables = [json.loads(json.loads(data)) for _, kind, data in artifacts if kind == "table"]
    assert [{"run": "m1", "bleu": 0.5}] in tables


def test_a_second_run_finds_nothing_to_do_without_prefect(done, tmp_path):
    root = copied(done[0], tmp_path / "p")
    program = ("import sys\nfrom pipeline.cli import main\ntry:\n    main()\n"
               "finally:\n    print('prefect' in sys.modules)")
    again = subprocess.run([sys.executable, "-c", program, "run"], cwd=root, env=environment(**ELSEWHERE),
                           capture_output=True, text=True, check=False)
    assert again.returncode == 0 and "All 7 stages are up to date." in again.stdout, again.stderr
    assert again.stdout.endswith("False\n") and "start" not in again.stdout and order(root) == []
    assert changes(root) == ""


def test_errors_of_prefects_server_are_in_its_log_alone(done, tmp_path):
    root = copied(done[0], tmp_path / "p")
    program = """
import logging
from pipeline import cli, flow
run = flow._run
def noisy(session):
    run(session)
    logging.getLogger("prefect.server.utilities").error("it failed")
flow._run = noisy
cli.main()
"""
    again = subprocess.run([sys.executable, "-c", program, "run", "side@d", "--force"], cwd=root, env=environment(),
                           capture_output=True, text=True, check=False)
    assert again.returncode == 0 and "it failed" not in again.stdout + again.stderr, again.stdout + again.stderr
    assert (root / DATABASE.with_name("server.log")).read_text() == "it failed\n"


@pytest.mark.whole
def test_missing_outs_come_back_and_one_copied_from_elsewhere_stays(done, tmp_path):
    root = copied(done[0], tmp_path / "p")
    (root / "artifacts/report/report").unlink()
    (root / "artifacts/data/d/side@d").unlink()
    model = root / "artifacts/models/m1/train_x@m1"
    model.unlink()  # and not through the link that leads into the cache
    model.write_text("trained elsewhere\n")
    kept = keycontrast(root, "run")
    assert kept.returncode == 1 and model.read_text() == "trained elsewhere\n" and order(root) == []
    assert "2 missing artifacts were restored from DVC's cache" in kept.stdout
    assert "`dvc commit train_x@m1` takes them" in kept.stdout.splitlines()[-2]
    assert (root / "artifacts/data/d/side@d").read_text() == "side@dingest@draw\n"
    assert dvc(root, "commit", "--force", "train_x@m1").returncode == 0
    taken = keycontrast(root, "run")
    assert taken.returncode == 0 and model.read_text() == "trained elsewhere\n", taken.stdout
    assert order(root) == ["evaluate_x@m1", "report"]


@pytest.mark.whole
def test_other_bytes_from_the_same_inputs_leave_git_clean_until_they_are_saved(done, tmp_path):
    """A fresh clone without a cache, on a processor that rounds differently."""
    root = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(done[0]), str(root)], check=True)
    with_database(done[0], root)
    committed, metrics = (root / "dvc.lock").read_bytes(), (root / "artifacts/report/x.json").read_bytes()
    (root / "processor").write_text("another\n")
    first = keycontrast(root, "run")
    assert first.returncode == 0 and sorted(order(root)) == ALL, first.stdout + first.stderr
    assert "7 of 7 stages wrote other bytes from the same inputs" in first.stdout and "run --save" in first.stdout
    assert changes(root) == "" and (root / "dvc.lock").read_bytes() == committed
    again = keycontrast(root, "run")
    assert "All 7 stages are up to date." in again.stdout and "other bytes" not in again.stdout
    assert changes(root) == "" and (root / "artifacts/report/x.json").read_bytes() == metrics
    saved = keycontrast(root, "run", "--save")
    assert "All 7 stages are up to date." in saved.stdout
    for _ in range(2):
        assert changes(root) == " M artifacts/report/x.json\n M dvc.lock\n"
        assert dvc(root, "status", "-q").returncode == 0
        assert "All 7 stages are up to date." in keycontrast(root, "run").stdout


@pytest.mark.whole
def test_targets_alone_and_again(done, tmp_path):
    root = copied(done[0], tmp_path / "p")
    (root / "raw").write_text("other\n")
    single = keycontrast(root, "run", "--only", "side", "--force")
    assert single.returncode == 0 and order(root) == ["side@d"], single.stdout + single.stderr
    only = keycontrast(root, "run", "train_x@m2")
    assert only.returncode == 0 and order(root) == ["ingest@d", "train_x@m2"], only.stdout + only.stderr


@pytest.mark.whole
def test_a_killed_run_leaves_nothing_behind_and_goes_on(done, tmp_path):
    root = with_database(done[0], make_project(tmp_path / "p"))
    (root / "wait-ingest@d").touch()
    command = started(root)
    refused = subprocess.Popen([sys.executable, "-m", "pipeline", "run"], cwd=root, env=environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    below = [child.pid for child in psutil.Process(command.pid).children() if "spawn_main" in str(child.cmdline())]
    assert below
    _, message = refused.communicate(timeout=60)
    assert refused.returncode == 1 and f"already running (process {command.pid}" in message
    command.send_signal(signal.SIGKILL)
    command.communicate()
    assert await_value(lambda: not any(map(alive, below)))
    # This project's stages have no guard; real ones end with the command (tests/test_processes.py).
    (root / "wait-ingest@d").unlink()
    text = (done[0] / "dvc.lock").read_text()
    (root / "dvc.lock").write_text(text[:text.rindex("md5: ") + 9])  # as DVC leaves it that is killed as it writes
    (root / ".keycontrast/lock-before-run").write_text("schema: '2.0'\nstages: {}\n")
    again = keycontrast(root, "run", "ingest")
    assert again.returncode == 0 and "dvc.lock was cut off" in again.stdout, again.stdout + again.stderr
    assert (root / "artifacts/data/d/ingest@d").read_text() == "ingest@draw\n"


@pytest.mark.whole
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_names_the_running_stage_and_ends_it(done, tmp_path, number):
    root = with_database(done[0], make_project(tmp_path / "p"))
    (root / "wait-ingest@d").touch()
    command = started(root)
    child = await_value(lambda: [int(path.name) for path in Path("/proc").glob("[0-9]*")
                                 if "work.py" in read(path / "cmdline") and (path / "cwd").readlink() == root])
    command.send_signal(number)
    shown, message = command.communicate(timeout=60)
    assert command.returncode == 130 and message == "keycontrast: interrupted; run the same command to continue\n"
    assert "interrupted ingest@d" in shown and "failed" not in shown and "Traceback" not in shown
    assert await_value(lambda: not any(map(alive, child)))


def started(root):
    """`keycontrast run`, once its first stage is at work."""
    # A shell that starts something in the background lets it ignore SIGINT.
    command = subprocess.Popen([sys.executable, "-m", "pipeline", "run"], cwd=root, env=environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert await_value(lambda: (root / "order.txt").exists())
    return command


def await_value(condition, seconds=120):
    """Wait until ``condition`` gives something true, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    return None


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


@pytest.fixture
def project(tmp_path, monkeypatch):
    root = make_project(tmp_path / "p")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def workers(project):
    found = Workers(environment())
    yield found
    found.end()


def test_a_stage_and_a_worker_that_are_killed_say_so(project, workers):
    def kill_stage(name):
        await_value(lambda: name in read(project / "order.txt"))
        return next(process for process in psutil.Process().children(recursive=True)
                    if f"work.py artifacts/data/d/{name}" in " ".join(process.cmdline()))

    for kill in (lambda stage: stage.kill(), lambda stage: [parent for parent in stage.parents()
                                                            if "spawn_main" in str(parent.cmdline())][0].kill()):
        (project / "order.txt").unlink(missing_ok=True)
        (project / "wait-ingest@d").touch()
        threading.Thread(target=lambda kill=kill: kill(kill_stage("ingest@d"))).start()
        with pytest.raises(StageCrash, match=r"ended by SIGKILL|DVC process that ran it ended"):
            workers.repro("ingest@d")
        (project / "wait-ingest@d").unlink()
        assert await_value(lambda: not [process for process in psutil.process_iter(["cmdline", "cwd"])
                                        if process.info["cwd"] == str(project) and "work.py" in str(
                                            process.info["cmdline"])])


def test_gpus_are_taken_together_and_no_two_stages_have_one():
    """A training with two processes gets two at once, though others wait for one."""
    nodes = [*(StageNode(f"train@{n}", gpu=True, parallel=True) for n in range(3)),
             *(StageNode(f"generate@{n}", gpu=True) for n in range(6))]
    run = Session({}, Workers({}), None, 4, ["0", "1", "2"], 2)
    used, taken, guard = [], set(), threading.Lock()

    def work(node):
        with run.place(node) as gpus:
            with guard:
                assert len(gpus) == (2 if node.parallel else 1) and not taken & set(gpus)
                taken.update(gpus)
                used.append(node.name)
            time.sleep(0.02)
            with guard:
                taken.difference_update(gpus)

    threads = [threading.Thread(target=work, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(used) == sorted(node.name for node in nodes) and not taken
    run = Session({}, Workers({}), None, 2, ["7", "7"])     # which two stages share
    with run.place(nodes[-1]) as one, run.place(nodes[-2]) as two:
        assert one == two == ["7"]
        waiting = threading.Thread(target=lambda: run.place(StageNode("cpu")).__enter__())
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
    waiting.join(20)
    assert not waiting.is_alive()
