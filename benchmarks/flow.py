"""The cost of orchestration: the data stages by ``keycontrast run`` and by ``dvc repro``."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import networkx as nx
import yaml
from dvc.repo import Repo

from benchmarks.harness import Context, Disagreement, Section, compare

_ROOT = Path(__file__).resolve().parent.parent
_LEFT_OUT = ("benchmarks", "docs", "metrics", "tests", "dvc.lock")
_TARGET = "graph@sample"
_PYTHON = sys.executable


def run(context: Context) -> list[Section]:
    """Compare a run from nothing and a run with nothing to do."""
    with tempfile.TemporaryDirectory(prefix="keycontrast-") as folder:
        projects = {name: _project(Path(folder) / str(number))
                    for number, name in enumerate(("keycontrast run", "dvc repro"))}
        stages, outs = _plan(projects["dvc repro"])
        ways: dict[str, Callable[[Path], None]] = dict(zip(projects, (
            lambda project: _call(project, _PYTHON, "-m", "pipeline", "run", _TARGET),
            lambda project: _call(project, _PYTHON, "-m", "dvc", "repro", _TARGET)), strict=True))
        for name, way in ways.items():
            way(projects[name])
        files = _same_tables(projects, outs)    # the runs that it compares were the warm-up
        cold = compare({name: partial(_from_nothing, way, projects[name]) for name, way in ways.items()},
                       1 if context.quick else max(1, context.repeats // 2), warmup=0)
        idle = compare({name: partial(way, projects[name]) for name, way in ways.items()},
                       1 if context.quick else context.repeats, warmup=0)
    workload = f"{stages} stages of data/sample, {_TARGET}"
    agreement = f"{files} Parquet files have the same bytes both ways"
    return [Section("From nothing", workload, agreement, [cold]), Section("Nothing to do", workload, agreement, [idle])]


def _from_nothing(way: Callable[[Path], None], project: Path) -> None:
    for name in ("artifacts", ".dvc/cache"):
        shutil.rmtree(project / name, ignore_errors=True)
    (project / "dvc.lock").unlink(missing_ok=True)
    way(project)


def _call(project: Path, *line: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(line, cwd=project, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    if done.returncode:
        raise Disagreement(f"{' '.join(line[1:])} failed:\n{done.stderr[-2000:]}")


def _project(folder: Path) -> Path:
    """Return a copy of the project without artifacts, with the params of the sample recipe."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=_ROOT,
                            capture_output=True, text=True, check=True).stdout.split("\0")
    for name in {name for name in listed if name and name.split("/")[0] not in _LEFT_OUT and (_ROOT / name).is_file()}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_ROOT / name, folder / name)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    _call(folder, _PYTHON, "-m", "pipeline", "use", "sample")
    return folder


def _plan(project: Path) -> tuple[int, list[str]]:
    """Return the number of stages that the target needs, and the paths of their outs."""
    with Repo(str(project)) as repo:
        graph = repo.index.graph
        target = next(stage for stage in graph if getattr(stage, "name", None) == _TARGET)
        stages = {target, *nx.descendants(graph, target)}   # an edge leads from a stage to one that it needs
        return (sum(bool(getattr(stage, "cmd", None)) for stage in stages),
                [Path(out.fs_path).relative_to(project.resolve()).as_posix() for stage in stages for out in stage.outs])


def _same_tables(projects: dict[str, Path], outs: list[str]) -> int:
    """Check that the Parquet files among the outs have the same bytes in all projects; return their number."""
    def tables(project: Path) -> dict[str, str]:
        files = [path for out in outs for path in [project / out, *(project / out).rglob("*")]]
        return {path.relative_to(project).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in files if path.suffix == ".parquet" and path.is_file()}

    digests = {name: tables(project) for name, project in projects.items()}
    first = next(iter(digests.values()))
    if not first:
        raise Disagreement(f"no Parquet file among {', '.join(outs)}")
    for name, files in digests.items():
        if files != first:
            differing = sorted(path for path in first.keys() | files.keys() if first.get(path) != files.get(path))
            raise Disagreement(f"{name} gives other artifacts: {', '.join(differing)}")
    locks = [yaml.safe_load((project / "dvc.lock").read_text()) for project in projects.values()]
    if locks[0] != locks[1]:
        raise Disagreement("dvc.lock differs between keycontrast run and dvc repro")
    return len(first)
