"""``keycontrast doctor``: every condition that the pipeline needs, checked, each problem with its remedy."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import psutil
from packaging.requirements import Requirement
from packaging.version import Version
from rich.console import Console
from rich.text import Text

from keycontrast.errors import InputError, unwritten
from stages.common.paths import PARAMS

_PROJECT = "keycontrast"
_MIN_PYTHON = (3, 11)
_FREE_GIB = 3.0
_MEMORY_GIB = 4.0
_AGAIN = "install again: make env (or pip install -c constraints.txt -e .)"


@dataclass(frozen=True)
class Finding:
    """One thing that was checked.

    Attributes:
        subject: what it is about.
        detail: what was found.
        problem: whether it keeps the pipeline from working.
        remedy: what to do about it.
    """

    subject: str
    detail: str
    problem: bool = False
    remedy: str = ""


def diagnose(root: Path = Path()) -> list[Finding]:
    """Check everything; one check that fails never hides another."""
    checks: dict[str, Callable[[Path], Iterator[Finding]]] = {
        "python": _python, "system": _system, "packages": _packages,
        "params": _params, "language pipeline": _language_pipeline, "encoder": _encoder, "hub": _hub,
        "dvc": _repository, "disk": _disk, "memory": _memory, "device": _device}
    return [finding for subject, check in checks.items() for finding in _checked(subject, check, root)]


def _checked(subject: str, check: Callable[[Path], Iterator[Finding]], root: Path) -> list[Finding]:
    """Return what ``check`` finds; what keeps it from being made is one more finding."""
    found: list[Finding] = []
    try:
        found.extend(check(root))
    except Exception as error:  # noqa: BLE001 - what keeps a check from being made is a finding itself
        told = unwritten(error)
        found.append(Finding(subject, told or f"cannot be checked: {type(error).__name__}: {error}", True,
                             "see the message" if told else _AGAIN))
    return found


def report(findings: list[Finding], console: Console) -> None:
    """Print all findings, problems last, each with its remedy."""
    for finding in sorted(findings, key=lambda finding: finding.problem):
        mark = Text("problem ", style="bold red") if finding.problem else Text("ok      ", style="green")
        console.print(mark + Text(f"{finding.subject}: {finding.detail}"), soft_wrap=True)
        if finding.problem:
            console.print(Text(f"        remedy: {finding.remedy}"), soft_wrap=True)
    problems = sum(finding.problem for finding in findings)
    console.print(Text(f"{problems} problem{'s' * (problems != 1)}." if problems else "Everything is in order."))


def _python(_: Path) -> Iterator[Finding]:
    wanted = ".".join(map(str, _MIN_PYTHON))
    yield Finding("python", platform.python_version(), sys.version_info < _MIN_PYTHON,
                  f"create the environment with Python {wanted} or later: make env PYTHON=python{wanted}")


def _system(_: Path) -> Iterator[Finding]:
    yield Finding("system", f"{platform.system()} {platform.release()}, {platform.machine()}")


def _packages(_: Path) -> Iterator[Finding]:
    """Compare installed packages with what the project requires."""
    good = 0
    for text in requires(_PROJECT) or []:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = Version(version(requirement.name)).public     # without a label such as +cpu
        except PackageNotFoundError:
            yield Finding(requirement.name, f"not installed (needed: {requirement})", True, _AGAIN)
            continue
        fits = requirement.specifier.contains(installed, prereleases=True)
        good += fits
        if not fits:
            yield Finding(requirement.name, f"{installed} is installed, {requirement} is needed", True, _AGAIN)
    yield Finding("packages", f"{good} as required")


def _params(root: Path) -> Iterator[Finding]:
    from pipeline.sources import check_sources
    from stages.params import load_params

    try:
        params = load_params(root / PARAMS)
        check_sources(params, root)
    except InputError as error:
        yield Finding("params", str(error), True, "correct params.yaml, or write it anew: keycontrast use sample")
    else:
        yield Finding("params", f"recipe {params.recipe}, data in place")


def _language_pipeline(root: Path) -> Iterator[Finding]:
    from keycontrast.text.pipelines import load_pipeline

    name = _param(root, "annotate", "pipeline", "embedded")
    try:
        meta = load_pipeline(name).meta
    except InputError as error:
        yield Finding("language pipeline", str(error), True, "name another in params.yaml (annotate.pipeline), or "
                                                             "restore data/language: git checkout data/language")
    else:
        yield Finding("language pipeline", f"{name}: {meta.get('name')} {meta.get('version')}")


def _encoder(root: Path) -> Iterator[Finding]:
    yield _found_encoder("encoder", _param(root, "encoder", "source", "bundled"))
    for source, place in _own_encoders(root).items():
        yield _found_encoder(f"encoder of {place}", source)


def _hub(root: Path) -> Iterator[Finding]:
    from pipeline.hub_revisions import remarks
    from stages.params import load_params

    try:
        params = load_params(root / PARAMS).plain()
    except InputError:      # a finding of its own
        return
    yield from (Finding("hub", remark) for remark in remarks(params))


def _found_encoder(subject: str, source: str) -> Finding:
    from stages.common.encoders import resolve_encoder

    try:
        found = resolve_encoder(source).description
    except InputError as error:
        return Finding(subject, str(error), True, "see the message; the bundled encoder needs no network")
    return Finding(subject, f"{source}: {found.get('name')}, sha256 {str(found.get('sha256'))[:12]}...")


def _own_encoders(root: Path) -> dict[str, str]:
    """Return the encoders that models name beside the project's, each with the place of the first that does."""
    from stages.params import load_params
    from stages.tracks.registry import TRACKS

    try:
        params = load_params(root / PARAMS)
    except InputError:
        return {}
    found = {params.encoder.source: ""}
    for track in TRACKS.values():
        for name in track.models(params):
            if (source := track.encoder(params, name)) is not None:
                found.setdefault(source, f"models.{track.name}.{name}")
    del found[params.encoder.source]
    return found


def _param(root: Path, block: str, name: str, default: str) -> str:
    """Return a param, or its default where the params are wrong, which is a finding of its own."""
    from stages.params import load_params

    try:
        return str(getattr(getattr(load_params(root / PARAMS), block), name))
    except InputError:
        return default


def _repository(root: Path) -> Iterator[Finding]:
    from pipeline.dag import read_dag

    try:
        dag = read_dag(root)
    except InputError as error:
        began = (root / ".dvc").is_dir()
        yield Finding("dvc", str(error), True, "mend what the message names; `git diff dvc.yaml` shows what was changed"
                      if began else "clone the repository with git; or in this folder: git init, dvc init")
    else:
        changed = sum(node.changed for node in dag.values())
        yield Finding("dvc", f"{len(dag)} stages, {changed} of them to run")


def _disk(root: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(root).free / 2**30
    yield Finding("disk", f"{free:.1f} GiB free", free < _FREE_GIB,
                  f"free at least {_FREE_GIB:.0f} GiB; `dvc gc --workspace` empties the cache of what is not in use")


def _memory(_: Path) -> Iterator[Finding]:
    available = available_memory() / 2**30
    yield Finding("memory", f"{available:.1f} GiB available", available < _MEMORY_GIB,
                  "end other programs, or lower runtime.workers and training.micro_batch of train_hcl, train_pgkpr or "
                  "train_clld in params.yaml")


def available_memory() -> int:
    """Return bytes of memory that programs may still take, the limit of a container included."""
    free = int(psutil.virtual_memory().available)
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and limit.read_text().strip() != "max":
        return min(free, int(limit.read_text()) - int(used.read_text()))
    return free


def _device(root: Path) -> Iterator[Finding]:
    import torch

    wanted = _param(root, "runtime", "device", "auto")
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    detail = ", ".join(gpus) if gpus else f"no GPU; {os.cpu_count()} CPU cores"
    yield Finding("device", f"{detail} (runtime.device: {wanted})", wanted == "cuda" and not gpus,
                  "set runtime.device to auto or cpu in params.yaml, or install a CUDA build of torch")
