"""The published tables in ``papers/``, with notes on cells that do not add up, and the papers' data sets."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_PAPERS = Path(__file__).parent / "papers"


@dataclass(frozen=True)
class PublishedCell:
    """A cell as printed, with its value and a flag (key of :data:`NOTES`) or none."""

    text: str
    value: float
    flag: str = ""


@dataclass(frozen=True)
class PublishedRow:
    """A row: its name, its cells by metric, and a flag of its own (key of :data:`NOTES`) or none."""

    name: str
    cells: dict[str, PublishedCell]
    flag: str = ""


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper for data set ``kind`` of :func:`dataset_kind_of`; ``scale`` divides its values."""

    number: str
    kind: str
    metrics: tuple[str, ...]
    rows: dict[str, PublishedRow]
    scale: int = 1


@dataclass(frozen=True)
class Paper:
    """A paper: its tables by number, and notes by flag."""

    tables: dict[str, PublishedTable]
    notes: dict[str, str]


@cache
def paper(track: str) -> Paper:
    """Return the paper of a track (``hcl``, ``pgkpr`` or ``clld``)."""
    read = yaml.safe_load((_PAPERS / f"{track}.yaml").read_text(encoding="utf-8"))
    return Paper({table["number"]: printed_table(**table) for table in read["tables"]}, read["notes"])


def printed_table(rows: str, metrics: Sequence[str], flags: Mapping[str, str] | None = None,
                  cells: Sequence[Mapping[str, Any]] = (), **table: Any) -> PublishedTable:
    """Return a table from its lines ``row | cell | cell``, flags of rows by name, and flags and notes of cells."""
    known = {(cell["row"], cell["metric"]): {key: cell[key] for key in cell if key not in ("row", "metric")}
             for cell in cells}
    read = {}
    for line in rows.strip().splitlines():
        name, *texts = (part.strip() for part in line.split("|"))
        printed = {key: replace(PublishedCell(text, float(text)), **known.pop((name, key), {}))
                   for key, text in zip(metrics, texts, strict=True)}
        read[name] = PublishedRow(name, printed, (flags or {}).get(name, ""))
    if known:
        raise ValueError(f"table {table['number']} has no cell {next(iter(known))}")
    return PublishedTable(metrics=tuple(metrics), rows=read, **table)


# Flags with ! are suspicions, those with r remarks.
NOTES = {flag: note for track in ("hcl", "pgkpr", "clld") for flag, note in paper(track).notes.items()}
# Layouts of published files with classes; in other layouts the data set is known by its name.
_CLASSIFIED = {"newsgroups": "20ng", "trec": "trec6", "rt_polarity": "mr"}
_CLASS_NAMES = re.compile(
    r"(?<![a-z0-9])(?:(?P<x20ng>20_?ng|20_?news(?:groups?)?)|(?P<trec6>trec(?:[-_]?6)?(?![-_]?[0-9]))|(?P<r8>r8)"
    r"|(?P<r52>r52)|(?P<mr>mr))(?![a-z0-9])")


def dataset_kind_of(name: str, layout: str, source: str = "") -> str | None:
    """Return the paper's name of a data set, by its name, layout and source (file or folder); None for any other."""
    # Not the whole path: any folder above may be called mr.
    called = f"{name} {'/'.join(source.split('/')[-2:])}".lower()
    if layout in ("glue_qqp", "kaggle_qqp", "quora_qqp") or (layout == "pairs" and ("qqp" in called
                                                                                 or "quora" in called)):
        return "qqp"
    if "dialogue" in layout and "douban" in called:
        return "douban"
    if layout in _CLASSIFIED:
        return _CLASSIFIED[layout]
    if layout in ("labelled", "all_terms", "text_gcn"):
        match = _CLASS_NAMES.search(called)
        return None if match is None else str(match.lastgroup).removeprefix("x")
    if layout == "mscoco_captions" or (layout == "captions" and re.search(r"coco(?![a-z])", called)):
        return "mscoco"
    roc = layout == "stories" and re.search(r"(?<![a-z])roc(?:[-_ ]?stor|(?![a-z]))", called)
    return "rocstories" if roc or layout == "rocstories" else None
