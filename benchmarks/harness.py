"""Timing side by side, peak memory of a fresh process, and the parts of ``docs/performance.md``."""

import gc
import json
import os
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import chdir
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import distributions
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import psutil

DOCUMENT = Path("docs") / "performance.md"
# Of `python -m benchmarks NAME`.
NAMES = ("keywords", "attribution", "graph", "training", "decoding", "flow")
ORDER = (*NAMES, "scale", "scale by id", "gpu")  # of the document's parts
WANTED = "a checkout of github.com/DaSESmartEdu/PGKPR (measured at commit ef618f4)"
_CPU = Path("/proc/cpuinfo")
_PACKAGES = ("torch", "transformers", "numpy", "scipy", "pyarrow", "pandas", "duckdb", "spacy", "pytextrank",
             "networkx", "captum")
_INTRODUCTION = """# Performance

`python -m benchmarks --write` writes this page. Two parts, on scale, are written by their own commands with `--write`.
Each part names the command that measures it again. Contenders that compute the same must give the same answers; then
all run in turn. "Times as long" compares each median with the first row of its group. Absolute times hold only for the
machine of the part."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Context:
    """Options of a benchmark."""

    repeats: int = 5    # counted runs of each contender
    quick: bool = False     # tiny sizes for tests
    peer: Path | None = None    # folder of the public PGKPR code


@dataclass(frozen=True)
class Section:
    """One comparison."""

    title: str
    workload: str   # number and length of texts, number of threads
    agreement: str  # result of the check before anything was timed
    tables: list[Rows]  # contenders first
    notes: list[str] = field(default_factory=list)


class Disagreement(RuntimeError):
    """Two contenders give different answers, so their times cannot be compared."""


def compare(contenders: Mapping[str, Callable[[], Any]], repeats: int, warmup: int = 1, items: int | None = None,
            unit: str = "texts") -> Rows:
    """Time ``contenders`` in turn (A B A B ...), ours first; ``warmup`` runs of each are not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(-warmup, repeats):
        for name, work in contenders.items():
            gc.collect()
            started = time.perf_counter()
            work()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - started)
    return timings(seconds, items, unit)


def timings(seconds: Mapping[str, Sequence[float]], items: int | None = None, unit: str = "texts") -> Rows:
    """Return a row per contender from the seconds of its runs; ratios are to the first contender's median."""
    first = median(next(iter(seconds.values())))
    return [{"contender": name, "median": duration(median(runs)), "fastest": duration(min(runs)),
             "slowest": duration(max(runs)), "per second": f"{items / median(runs):,.0f} {unit}" if items else "",
             "times as long": f"{median(runs) / first:.2f}"} for name, runs in seconds.items()]


def run_apart(name: str, context: Context) -> list[Section]:
    """Run benchmark ``name`` in a new process, without the modules of another benchmark."""
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        return executor.submit(_run, name, context).result()


def _run(name: str, context: Context) -> list[Section]:
    return import_module(f"benchmarks.{name}").run(context)


def peak_memory(function: Callable[..., Any], *arguments: Any, resident: bool = False) -> tuple[Any, float]:
    """Return ``function(*arguments)``, called in a new process, and the peak of its memory in MiB, read every 10 ms.

    It is counted from the import of the module of ``function`` on, without mapped files, which the system can free at
    any time; or, if ``resident``, everything counts.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        process = psutil.Process(executor.submit(os.getpid).result())
        executor.submit(callable, function).result()  # imports its module

        def held() -> int:
            memory = process.memory_info()
            return memory.rss if resident else memory.rss - getattr(memory, "shared", 0)

        before = peak = held()
        future = executor.submit(function, *arguments)
        while wait([future], timeout=0.01).not_done:
            peak = max(peak, held())
        return future.result(), (peak - (0 if resident else before)) / 2**20


def run_stage_in(folder: Path, stage: str, instance: str) -> dict[str, Any]:
    """Run stage ``stage`` for ``instance`` in this process, in the project ``folder``; return its record."""
    from stages.common.settings import module_of

    with chdir(folder):
        if import_module(module_of(stage)).main([instance]) != 0:
            raise RuntimeError(f"stage {stage} failed in {folder}")
        record = Path(".keycontrast") / "records" / f"{stage}@{instance}.json"
        return json.loads(record.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def part(name: str, command: str, sections: Sequence[Section]) -> str:
    """Return a part of the document: command, machine, one table of all contenders, workloads and notes."""
    lines, rows, others = [f"## {name}", f"Command: `python -m {command}`\n{machine()}"], Rows(), list[str]()
    for section in sections:
        contenders: dict[str, dict[str, Any]] = {}
        for table in section.tables:
            if not all("contender" in row for row in table):
                others += [f"{section.title}:", markdown_table(table)]
                continue
            for row in table:
                contenders.setdefault(row["contender"], {"on": section.title}).update(row)
        rows += contenders.values()
    titles: dict[str, list[str]] = {}  # of the sections with one workload and agreement
    for section in sections:
        titles.setdefault(f"{section.workload}. Same answers: {section.agreement}.", []).append(section.title)
    facts = [f"- {'; '.join(named)}: {fact}" for fact, named in titles.items()]
    notes = [f"- {note}" for note in dict.fromkeys(note for section in sections for note in section.notes)]
    return "\n\n".join([*lines, *([markdown_table(rows)] if rows else []), *others, "\n".join(facts + notes)])


def write_parts(parts: Mapping[str, str]) -> None:
    """Put ``parts`` into the document; its other parts stay."""
    from keycontrast.files import atomic_file

    before = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    old = {piece.partition("\n")[0].removeprefix("## "): piece.rstrip("\n")
           for piece in re.split(r"^(?=## )", before, flags=re.MULTILINE)[1:]}
    texts = {name: text for name, text in {**old, **parts}.items() if name in ORDER}
    with atomic_file(DOCUMENT) as temporary:
        temporary.write_text("\n\n".join([_INTRODUCTION, *(texts[name] for name in ORDER if name in texts)]) + "\n",
                             encoding="utf-8")


def machine() -> str:
    """Return processor, memory, GPU, Python and versions of packages."""
    import torch

    models = re.findall(r"^model name\s*:\s*(.*)", _CPU.read_text() if _CPU.exists() else "", re.MULTILINE)
    gpu = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}" if torch.cuda.is_available() else "none"
    versions = {package.name: package.version for package in distributions()}  # some may be missing on a GPU machine
    return (f"Machine: {models[0] if models else platform.machine()}, {psutil.cpu_count()} cores, "
            f"{psutil.virtual_memory().total / 2**30:.0f} GiB, {platform.system()}, GPU: {gpu}. Python "
            f"{platform.python_version()}; "
            f"{', '.join(f'{name} {versions[name]}' for name in _PACKAGES if name in versions)}.")


def markdown_table(rows: Rows) -> str:
    """Return ``rows`` as a table; its columns are the keys of all rows, and missing values are empty."""
    heads = list(dict.fromkeys(head for row in rows for head in row))
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    lines += [[_value(row.get(head, "")) for head in heads] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def duration(seconds: float) -> str:
    """Return seconds, or milliseconds below one second."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
