"""What orchestration costs: the data stages by ``keycontrast run``, by ``dvc repro``, and by hand."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import yaml

from benchmarks.harness import Context, Disagreement, Row, Section, compare
from pipeline.recipes import params_text, read_recipe
from stages.common.entries import module_of

_ROOT = Path(__file__).resolve().parent.parent
_COPIED = ("pipeline", "stages", "models", "recipes", "data", ".dvc/config", ".dvcignore", "dvc.yaml", "pyproject.toml")
_TARGET = "graph@sample"
_STAGES = ("ingest", "annotate", "textrank", "keywords", "clusters", "graph")
_PYTHON = sys.executable


def run(context: Context) -> list[Section]:
    """Compare a run from nothing and a run with nothing to do."""
    with tempfile.TemporaryDirectory(prefix="keycontrast-") as folder:
        ways: dict[str, Callable[[Path], None]] = {"keycontrast run": _flow, "dvc repro": _dvc,
                                                   "python -m stages, one by one": _by_hand}
        projects = {name: _project(Path(folder) / str(number)) for number, name in enumerate(ways)}
        for name, way in ways.items():
            way(projects[name])
        files = _same_artifacts(projects)
        # One warm-up less: the comparison of artifacts was one.
        cold = compare({name: _from_nothing(way, projects[name]) for name, way in ways.items()},
                       1 if context.quick else max(1, context.repeats // 2), warmup=0)
        idle: list[Row] = compare({name: _again(way, projects[name]) for name, way in list(ways.items())[:2]},
                                  1 if context.quick else context.repeats, warmup=0)
    workload = f"{len(_STAGES)} stages of data/sample, {_TARGET}"
    agreement = f"{files} artifacts have the same bytes all three ways"
    return [Section("From nothing", workload, agreement, cold,
                    ["`keycontrast run` starts Prefect once; it imports once what `dvc repro` does for each stage."]),
            Section("Nothing to do", workload, agreement, idle)]


def _from_nothing(way: Callable[[Path], None], project: Path) -> Callable[[], None]:
    def work() -> None:
        for name in ("artifacts", "dvc.lock", ".dvc/cache", ".keycontrast/locks"):
            path = project / name
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
        way(project)

    return work


def _again(way: Callable[[Path], None], project: Path) -> Callable[[], None]:
    return lambda: way(project)


def _flow(project: Path) -> None:
    _call(project, _PYTHON, "-m", "pipeline", "run", _TARGET)


def _dvc(project: Path) -> None:
    _call(project, _PYTHON, "-m", "dvc", "repro", _TARGET)


def _by_hand(project: Path) -> None:
    for stage in _STAGES:
        _call(project, _PYTHON, "-m", module_of(stage), "sample")


def _call(project: Path, *line: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(line, cwd=project, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    if done.returncode:
        raise Disagreement(f"{' '.join(line[1:])} failed:\n{done.stderr[-2000:]}")


def _project(folder: Path) -> Path:
    """Return a copy of the project with nothing computed, its params those of the sample recipe."""
    folder.mkdir()
    for name in _COPIED:
        source, target = _ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (folder / "params.yaml").write_text(params_text(read_recipe("sample", None, folder / "recipes")))
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def _same_artifacts(projects: dict[str, Path]) -> int:
    """Return how many artifacts all projects share byte for byte.

    Raises:
        Disagreement: one differs.
    """
    found = {name: {path.relative_to(project).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
                    for path in sorted((project / "artifacts").rglob("*"))
                    if path.is_file() and path.name != ".gitignore"}    # DVC's own
             for name, project in projects.items()}
    first = next(iter(found.values()))
    for name, files in found.items():
        if files != first:
            differing = sorted(path for path in first.keys() | files.keys() if first.get(path) != files.get(path))
            raise Disagreement(f"{name} gives other artifacts: {', '.join(differing)}")
    locks = [yaml.safe_load((project / "dvc.lock").read_text()) for project in list(projects.values())[:2]]
    if locks[0] != locks[1]:
        raise Disagreement("dvc.lock differs between keycontrast run and dvc repro")
    return len(first)
