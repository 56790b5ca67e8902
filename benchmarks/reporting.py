"""What was measured, as lines for a terminal and as ``docs/performance.md``."""

import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, Section

_CPU = Path("/proc/cpuinfo")
_MEMORY = Path("/proc/meminfo")
_PACKAGES = ("torch", "numpy", "scipy", "pyarrow", "pandas", "duckdb", "spacy", "pytextrank", "networkx", "captum")
Measured = dict[str, list[Section]]
_INTRODUCTION = """# Performance

Written by `python -m benchmarks --write`; nothing in it is edited by hand. Ratios say how many times as long a
contender takes as the first one. Contenders run in turn, after their answers were compared; absolute times are those of
the machine that a part names, and no promise."""


def machine() -> dict[str, Any]:
    """Return what decides the times: processor, memory, Python and versions."""
    import torch

    models = [line.partition(":")[2].strip() for line in _lines(_CPU) if line.startswith("model name")]
    total = next((int(line.split()[1]) for line in _lines(_MEMORY) if line.startswith("MemTotal")), 0)
    return {"processor": models[0] if models else platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(total / 2**20), "system": platform.system(), "python": platform.python_version(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "versions": {name: found for name in _PACKAGES if (found := _version(name)) is not None}}


def as_text(measured: Measured) -> str:
    """Return ``measured`` as lines for a terminal."""
    lines = []
    for name, sections in measured.items():
        for section in sections:
            lines += [f"{name}: {section.title}", f"  on: {section.workload}", f"  same answers: {section.agreement}"]
            width = max((len(row.name) for row in section.rows), default=0)
            lines += [f"  {row.name:{width}}  {_seconds(row.median):>10} ({_seconds(row.minimum)} to "
                      f"{_seconds(row.maximum)}){_rate(row)}  x {row.ratio:.2f}" for row in section.rows]
            lines += ["  " + ", ".join(f"{key} {_value(value)}" for key, value in entry.items())
                      for entry in section.table or []]
            lines += [f"  {note}" for note in section.notes] + [""]
    return "\n".join(lines)


def as_markdown(measured: Measured, where: dict[str, Any], before: str = "", order: Sequence[str] = ()) -> str:
    """Return the document: an introduction, then what was measured, a part for each benchmark.

    Args:
        measured: sections by benchmark.
        where: from :func:`machine`.
        before: the document as it was; its parts that are not measured now stay as they are.
        order: names of all benchmarks; what has another name goes.
    """
    return _document({name: _part(name, sections, where) for name, sections in measured.items()}, before, order)


def with_part(name: str, part: str, before: str, order: Sequence[str]) -> str:
    """Return the document ``before`` with ``part``, which begins with its heading, for what stood under ``name``."""
    return _document({name: part}, before, order)


def _document(new: dict[str, str], before: str, order: Sequence[str]) -> str:
    parts = {name: part for name, part in parts_of(before).items() if name in order} | new
    ranks = {name: rank for rank, name in enumerate(order)}
    in_order = sorted(parts, key=lambda name: ranks.get(name, len(ranks)))
    return "\n\n".join([_INTRODUCTION, *(parts[name] for name in in_order)]) + "\n"


def parts_of(document: str) -> dict[str, str]:
    """Return the parts of a document by the benchmark that each is of."""
    pieces = re.split(r"^(?=## )", document, flags=re.MULTILINE)[1:]
    return {piece.partition("\n")[0].removeprefix("## "): piece.rstrip("\n") for piece in pieces}


def _part(name: str, sections: list[Section], where: dict[str, Any]) -> str:
    versions = ", ".join(f"{package} {number}" for package, number in where["versions"].items())
    peer = " --peer DIR" if name == "pgkpr_parity" else ""
    command = f"benchmarks.{name}" if name == "scale" else f"benchmarks {name}{peer}"
    lines = [f"## {name}", "", f"`python -m {command}`", "",
             f"Machine: {where['processor']}, {where['cores']} cores, {where['memory_gib']} GiB, {where['system']}, "
             f"GPU: {where['gpu'] or 'none'}. Python {where['python']}; {versions}."]
    for section in sections:
        lines += ["", *_section(section)]
    return "\n".join(lines)


def _section(section: Section) -> list[str]:
    lines = [f"### {section.title}", "", f"On: {section.workload}.", "", f"Same answers: {section.agreement}.", ""]
    if section.rows:
        lines += ["| contender | median | fastest | slowest | per second | times as long |",
                  "| --- | ---: | ---: | ---: | ---: | ---: |"]
        lines += [f"| {row.name} | {_seconds(row.median)} | {_seconds(row.minimum)} | {_seconds(row.maximum)} | "
                  f"{f'{row.rate:,.0f} {row.unit}' if row.rate else ''} | {row.ratio:.2f} |" for row in section.rows]
        lines.append("")
    if section.table:
        heads = list(section.table[0])
        lines += [f"| {' | '.join(heads)} |", f"|{' ---: |' * len(heads)}"]
        lines += [f"| {' | '.join(_value(entry[head]) for head in heads)} |" for entry in section.table]
        lines.append("")
    lines += [f"{note}\n" for note in section.notes]
    return lines[:-1] if not lines[-1] else lines


def _rate(row: Row) -> str:
    return f"  {row.rate:,.0f} {row.unit}/s" if row.rate else ""


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:  # the GPU's benchmark runs where little is installed
        return None


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
