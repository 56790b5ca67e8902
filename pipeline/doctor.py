"""``keycontrast doctor``: check every condition that the pipeline needs, and name each problem with its remedy."""

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from packaging.requirements import Requirement
from packaging.version import Version
from rich.console import Console
from rich.text import Text

from keycontrast.cells import printable
from keycontrast.errors import InputError, unwritten
from stages.common.paths import PARAMS

_FREE_GIB, _MEMORY_GIB = 3.0, 4.0
_AGAIN = "install again: rm .venv/installed; make env (or pip install -c constraints.txt -e '.[dev]')"


class Finding(NamedTuple):
    """Result of a check; it is a problem if it has a remedy."""

    subject: str
    detail: str
    remedy: str = ""


def diagnose() -> list[Finding]:
    """Run all checks; one that fails is a problem and hides no other."""
    params = None
    with suppress(Exception):   # a problem of the check of params
        from stages.params import load_params

        params = load_params(PARAMS)
    checks: dict[str, tuple[Callable[[Any], Iterator[Finding]], str]] = {
        "packages": (_packages, _AGAIN),
        "params": (_params, "correct params.yaml, or write a new one: keycontrast use sample"),
        "language pipeline": (_language_pipeline, "name another in params.yaml (annotate.pipeline), or restore "
                                                  "data/language: git checkout data/language"),
        "encoder": (_encoders, _AGAIN),
        "dvc": (_repository, "correct what the message names; `git diff dvc.yaml` shows changes"
                if Path(".dvc").is_dir() else "clone the repository with git, or run `git init` and `dvc init`"),
        "device": (_machine, _AGAIN)}
    findings: list[Finding] = []
    for subject, (check, remedy) in checks.items():
        try:
            findings.extend(check(params))
        except InputError as error:
            findings.append(Finding(subject, str(error), remedy))
        except Exception as error:  # noqa: BLE001 - a check that cannot run is a problem, too
            message = unwritten(error)
            findings.append(Finding(subject, message or f"cannot be checked: {type(error).__name__}: {error}",
                                    "see the message" if message else _AGAIN))
    return findings


def report(findings: list[Finding], console: Console) -> None:
    """Print all findings, problems last, each with its remedy."""
    for finding in sorted(findings, key=lambda finding: bool(finding.remedy)):
        mark = Text("problem ", style="bold red") if finding.remedy else Text("ok      ", style="green")
        console.print(mark + Text(printable(f"{finding.subject}: {finding.detail}", keep="\n")), soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"        remedy: {finding.remedy}"), soft_wrap=True)
    problems = sum(bool(finding.remedy) for finding in findings)
    console.print(Text(f"{problems} problem{'s' * (problems != 1)}." if problems else "Everything is in order."))


def _packages(_: Any) -> Iterator[Finding]:
    """Name the system, and compare installed packages with the requirements of the project."""
    yield Finding("python", f"{platform.python_version()} on {platform.system()} {platform.release()}, "
                            f"{platform.machine()}")
    good = 0
    for requirement in map(Requirement, requires("keycontrast") or []):
        marker = requirement.marker
        if requirement.name == "keycontrast" or marker is not None and not any(
                marker.evaluate({"extra": extra}) for extra in ("", "embeddings", "train", "pipeline")):
            continue
        try:
            installed = Version(version(requirement.name)).public     # without a label such as +cpu
        except PackageNotFoundError:
            yield Finding(requirement.name, f"not installed (needed: {requirement})", _AGAIN)
            continue
        if requirement.specifier.contains(installed, prereleases=True):
            good += 1
        else:
            yield Finding(requirement.name, f"{installed} is installed, {requirement} is needed", _AGAIN)
    yield Finding("packages", f"{good} as required")


def _params(_: Any) -> Iterator[Finding]:
    from pipeline.sources import check_sources, hub_warnings
    from stages.params import load_params

    params = load_params(PARAMS)
    check_sources(params)
    yield from (Finding("hub", warning) for warning in hub_warnings(params.plain()))
    yield Finding("params", f"recipe {params.recipe}, data in place")


def _language_pipeline(params: Any) -> Iterator[Finding]:
    from keycontrast.text.annotate import load_annotator

    name = params.annotate.pipeline if params else "embedded"
    for language in sorted({dataset.language for dataset in params.datasets.values()} if params else {"en"}):
        about = load_annotator(name, language).describe()
        yield Finding("language pipeline", f"{name}: {about['name']} {about['version']}")


def _encoders(params: Any) -> Iterator[Finding]:
    """Check the encoders of the project and of its models, each once."""
    from stages.common.encoders import resolve_encoder
    from stages.tracks.registry import TRACKS

    sources = {params.encoder.source if params else "bundled": "encoder"}
    for track in TRACKS.values() if params else ():
        for name in track.models(params):
            if (source := track.encoder(params, name)) is not None:
                sources.setdefault(source, f"encoder of models.{track.name}.{name}")
    for source, subject in sources.items():
        try:
            description = resolve_encoder(source).description
        except InputError as error:
            yield Finding(subject, str(error), "see the message; the bundled encoder needs no network")
        else:
            digest = str(description.get("sha256"))[:12]
            yield Finding(subject, f"{source}: {description.get('name')}, sha256 {digest}...")


def _repository(_: Any) -> Iterator[Finding]:
    from pipeline.dag import read_dag

    yield Finding("dvc", f"{len(read_dag())} stages")


def _machine(params: Any) -> Iterator[Finding]:
    free, available = shutil.disk_usage(".").free / 2**30, _available_memory() / 2**30
    yield Finding("disk", f"{free:.1f} GiB free", "" if free >= _FREE_GIB else
                  f"free at least {_FREE_GIB:.0f} GiB; `dvc gc --workspace` removes unused files from DVC's cache")
    yield Finding("memory", f"{available:.1f} GiB available", "" if available >= _MEMORY_GIB else
                  "end other programs, or lower runtime.workers and training.micro_batch of train_hcl, train_pgkpr or "
                  "train_clld in params.yaml")
    import torch

    wanted = params.runtime.device if params else "auto"
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    detail = ", ".join(gpus) if gpus else f"no GPU; {os.cpu_count()} CPU cores"
    yield Finding("device", f"{detail} (runtime.device: {wanted})", "" if gpus or wanted != "cuda" else
                  "set runtime.device to auto or cpu in params.yaml, or install a CUDA build of torch")


def _available_memory() -> int:
    """Return bytes of memory that programs may still take, within the limit of a container."""
    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    limit = group / "memory.max"
    if limit.exists() and limit.read_text().strip() != "max":
        parts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used = int((group / "memory.current").read_text()) - int(parts["inactive_file"])  # which the system gives back
        return min(free, int(limit.read_text()) - used)
    return free
