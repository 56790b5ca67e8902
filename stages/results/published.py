"""Published tables as printed, with notes on the cells that do not add up; and the data sets of the papers.

The tables themselves stand in ``papers/``, one file per track.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from stages.metrics.registered import metric

_PAPERS = Path(__file__).parent / "papers"


@dataclass(frozen=True)
class PublishedCell:
    """A cell as printed: its value, a flag (key of :data:`NOTES`) or none, and what it should almost surely say."""

    text: str
    value: float
    flag: str = ""
    presumed: float | None = None


@dataclass(frozen=True)
class PublishedRow:
    """A row: its name, its cells by metric, and a flag of its own (key of :data:`NOTES`) or none."""

    name: str
    cells: dict[str, PublishedCell]
    flag: str = ""


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper; ``human``: people have judged, and no metric of ours stands beside it.

    ``kind`` is as :func:`dataset_kind_of` returns it, ``quora`` for Quora and MSCOCO together; ``scale`` is what values
    between 0 and 1 were multiplied by.
    """

    number: str
    title: str
    kind: str
    metrics: tuple[str, ...]
    rows: dict[str, PublishedRow]
    scale: int = 1
    human: bool = False

    @property
    def headings(self) -> list[str]:
        """Headings of its columns."""
        return [label[:1].upper() + label[1:] for label in (metric(key).label for key in self.metrics)]

    @property
    def flags(self) -> list[str]:
        """Flags that occur in the table, in the order of :data:`NOTES`."""
        found = {flag for row in self.rows.values() for flag in (row.flag, *(cell.flag for cell in row.cells.values()))}
        return [flag for flag in NOTES if flag in found]


@dataclass(frozen=True)
class Paper:
    """What the paper of a track printed: tables by number, notes by flag, and other numbers (``facts``) by name."""

    tables: dict[str, PublishedTable]
    notes: dict[str, str]
    facts: dict[str, Any]


@cache
def paper(track: str) -> Paper:
    """Return what the paper of a track (``hcl``, ``pgkpr`` or ``clld``) printed."""
    read = yaml.safe_load((_PAPERS / f"{track}.yaml").read_text(encoding="utf-8"))
    return Paper({table["number"]: printed_table(**table) for table in read["tables"]}, read["notes"],
                 read.get("facts", {}))


def printed_table(rows: str, metrics: Sequence[str], flags: Mapping[str, str] | None = None,
                  cells: Sequence[Mapping[str, Any]] = (), **table: Any) -> PublishedTable:
    """Return a table from its lines ``row | cell | cell``, flags of rows by name, and what else is known of cells."""
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
    """Return which of the papers' data sets a data set of the params is, by its layout and name; None for none.

    ``qqp`` (Quora's pairs), ``douban``, ``rocstories`` or ``mscoco``; of texts with classes ``20ng``, ``trec6``,
    ``r8``, ``r52`` or ``mr``.

    Args:
        name: of the data set.
        layout: ``datasets.<name>.layout``.
        source: file or folder, which may name what the data set's name does not.
    """
    called = f"{name} {source}".lower()
    if layout in ("glue_qqp", "kaggle_qqp", "quora_qqp") or (layout == "pairs" and ("qqp" in called
                                                                                 or "quora" in called)):
        return "qqp"
    if layout == "dialogue" and "douban" in called:
        return "douban"
    if layout in _CLASSIFIED:
        return _CLASSIFIED[layout]
    if layout in ("labelled", "all_terms", "text_gcn"):
        # Not the whole path: any folder above may be called mr.
        found = _CLASS_NAMES.search(name.lower()) or _CLASS_NAMES.search("/".join(source.lower().split("/")[-2:]))
        return None if found is None else str(found.lastgroup).removeprefix("x")
    if layout == "mscoco_captions" or (layout == "captions" and "coco" in called):
        return "mscoco"
    return "rocstories" if layout == "stories" and "roc" in called else None
