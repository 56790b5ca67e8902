"""Parts of a run on machines that share no folder: how it is cut, and how DVC's remote and git carry what is made."""

import io
import shutil
import subprocess

import pytest
import s3_server
from rich.console import Console
from small_project import environment, lock, make_project

from pipeline.running import parts
from pipeline.running.dag import Dag, StageNode, open_repo, read_dag
from pipeline.running.parts import GPU, PROCESSOR, Part, parts_of
from stages.run.errors import InputError

AUTHOR = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
          for what, value in (("NAME", "a person"), ("EMAIL", "a@b.c"))}


def git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, env=environment(**AUTHOR), check=True, capture_output=True,
                          text=True).stdout


def published(folder, address, make=make_project, ignored=()):
    """Make the project in a clone of a bare repository, committed and pushed, with the S3 server as DVC's remote."""
    origin, home = folder / "origin.git", folder / "home"
    folder.mkdir(exist_ok=True)
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch", "main", str(origin)], check=True)
    make(home)
    (home / ".gitignore").write_text("\n".join(["/artifacts/", "/.keycontrast/", "/order.txt", "/gpus.txt",
                                                "__pycache__/", *ignored]) + "\n")
    (home / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")  # as DVC makes it
    s3_server.use_remote(home, address)
    git(home, "checkout", "--quiet", "-b", "main")
    git(home, "add", ".")
    git(home, "commit", "--quiet", "--message", "Begin")
    git(home, "remote", "add", "origin", str(origin))
    git(home, "push", "--quiet", "--set-upstream", "origin", "main")
    return home


def clone(home, name):
    git(home.parent, "clone", "--quiet", str(home.parent / "origin.git"), name)
    return home.parent / name


def test_a_run_is_cut_where_its_stages_change_places():
    def node(name, *upstream, gpu=False):
        return StageNode(name=name, upstream=upstream, gpu=gpu)

    dag = Dag(nodes=(node("ingest"), node("vectors", "ingest", gpu=True), node("side", "ingest"),
                     node("train", "vectors", "side", gpu=True), node("evaluate", "train"),
                     node("late", "evaluate", gpu=True), node("report", "evaluate", "late")))
    assert parts_of(dag) == [
        Part(PROCESSOR, ("ingest", "side")), Part(GPU, ("vectors", "train")), Part(PROCESSOR, ("evaluate",)),
        Part(GPU, ("late",)), Part(PROCESSOR, ("report",))]
    assert parts_of(dag.only(["late"])) == [Part(GPU, ("late",))]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A published project whose remote is an S3 server."""
    with pytest.MonkeyPatch.context() as patch, s3_server.s3_server() as address:
        s3_server.credentials(patch)
        for name, value in AUTHOR.items():
            patch.setenv(name, value)
        yield published(tmp_path_factory.mktemp("parts"), address), address


def reproduced(names):
    """Run stages alone, without a flow."""
    with open_repo() as repo:
        for name in names:
            repo.reproduce(name, single_item=True)
    return True


def test_two_clones_take_turns_through_s3_and_git_and_leave_the_lock_of_one_folder(home, tmp_path, monkeypatch):
    project, address = home
    monkeypatch.setenv("PATH", environment()["PATH"])
    monkeypatch.chdir(project)
    commit, dag = parts.published_commit(), read_dag()
    clones = {PROCESSOR: clone(project, "processor"), GPU: clone(project, "gpu")}
    cut = parts_of(dag)
    assert [part.place for part in cut] == [PROCESSOR, GPU, PROCESSOR]
    for part in cut:
        monkeypatch.chdir(clones[part.place])
        git(".", "pull", "--ff-only", "--quiet")
        assert parts.run_part(part.names, commit, lambda part=part: reproduced(part.names), Console(quiet=True))
    assert sum("/files/md5/" in name for name in s3_server.objects(address)) >= 7
    # The GPU's clone has what its stages read and made, and nothing else.
    assert {path.name for path in (clones[GPU] / "artifacts").rglob("*") if path.is_file()} == {
        "ingest@d", "train_x@m1", "train_x@m2"}
    monkeypatch.chdir(project)
    git(".", "pull", "--ff-only", "--quiet")
    one = tmp_path / "one folder"
    shutil.copytree(project, one, ignore=shutil.ignore_patterns("dvc.lock", "x.json", "tmp", "cache"))
    monkeypatch.chdir(one)
    reproduced([node.name for node in dag.nodes])
    assert lock(one) == lock(project)
    assert (project / "artifacts" / "report" / "x.json").read_bytes() == (one / "artifacts/report/x.json").read_bytes()
    monkeypatch.chdir(project)
    parts.fetch(read_dag(), [node.name for node in dag.nodes])
    assert not read_dag().out_of_date()


def test_what_is_done_of_a_part_that_fails_is_handed_on(home, monkeypatch):
    project = clone(home[0], "failing")
    monkeypatch.setenv("PATH", environment()["PATH"])
    monkeypatch.chdir(project)
    for name in ("dvc.lock", "artifacts/report/x.json"):
        (project / name).unlink(missing_ok=True)
    (project / "raw").write_text("other\n")
    git(project, "commit", "--quiet", "--all", "--message", "Other data")
    git(project, "push", "--quiet")
    said = Console(record=True, width=200, file=io.StringIO())
    with open_repo() as repo:
        assert not parts.run_part(["ingest@d", "side@d"], parts.published_commit(),
                                  lambda: not repo.reproduce("ingest@d", single_item=True), said)
    assert "Handed on: dvc.lock" in said.export_text()
    assert list(lock(project)["stages"]) == ["ingest@d"] and git(project, "status", "--porcelain") == ""
    assert git(project, "log", "-1", "--format=%s", "origin/main") == "Run ingest, side\n"
    git(home[0], "pull", "--ff-only", "--quiet")
    assert lock(home[0]) == lock(project)


def test_what_others_do_not_have_stops_a_part_before_it_runs(home, monkeypatch):
    project = clone(home[0], "another")
    monkeypatch.chdir(project)
    commit, params = parts.published_commit(), (project / "params.yaml").read_text()

    def run(targets=("side@d",), commit=commit):
        return parts.run_part(targets, commit, lambda: pytest.fail("it ran"), Console(quiet=True))

    (project / "params.yaml").write_text(params + "\n")
    with pytest.raises(InputError, match="params.yaml: not as committed, so other machines have it in another way"):
        run()
    (project / "params.yaml").write_text(params)
    with pytest.raises(InputError, match="does not have commit 1234567890, with which the run began"):
        run(commit="1234567890" * 4)
    (project / "dvc.lock").unlink(missing_ok=True)
    with pytest.raises(InputError, match="dvc.lock has no ingest@d, which side@d reads from. Run it first"):
        run()
    git(project, "commit", "--quiet", "--allow-empty", "--message", "Not pushed")
    with pytest.raises(InputError, match=r"commit \w{10} is not on the branch that this one follows.*`git push`"):
        run()


def test_a_remote_that_does_not_answer_is_named(home, tmp_path, monkeypatch):
    project = make_project(tmp_path / "p")
    monkeypatch.setenv("PATH", environment()["PATH"])
    monkeypatch.chdir(project)
    reproduced(["ingest@d"])
    with pytest.raises(InputError, match="no remote"):
        parts.push(["ingest@d"])
    s3_server.use_remote(project, home[1])
    config = project / ".dvc" / "config"
    config.write_text(config.read_text().replace("s3://store", "s3://no-such-bucket"))
    with pytest.raises(InputError, match="bucket"):
        parts.push(["ingest@d"])
