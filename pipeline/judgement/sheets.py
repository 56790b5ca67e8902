"""Blinded sheets: the items that all systems share, shuffled for every rater; and their key, kept from raters."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from keycontrast.errors import InputError
from pipeline.judgement.design import COLUMNS, Design
from pipeline.judgement.spreadsheet import as_csv, harmless
from stages.common.seeds import generator

REFERENCE = "human reference"   # no run can be called so: their names have no spaces
NO_OUTPUT = "(no output)"
VERSION = 1     # of keys


@dataclass(frozen=True)
class Outputs:
    """What the systems wrote for the items that they share.

    Attributes:
        sources: text of each item, by example id.
        systems: for each system, its output by example id.
    """

    sources: dict[int, str]
    systems: dict[str, dict[int, str]]


@dataclass(frozen=True)
class KeyRow:
    """What a row of a sheet is.

    Attributes:
        item: number of the item in this sheet, from 1.
        position: of the output among those of its item, from 1.
        example_id: the item.
        run: the system that wrote the output.
        text: digest of source and output, see :func:`text_digest`.
    """

    item: int
    position: int
    example_id: int
    run: str
    text: str


@dataclass(frozen=True)
class Sheet:
    """A rater's sheet and its key."""

    rater: str
    content: bytes
    rows: tuple[KeyRow, ...]


def shared_outputs(predictions: Mapping[str, pd.DataFrame], references: bool = False) -> Outputs:
    """Return the first output of every system for each item that all of them have.

    Args:
        predictions: table ``predictions`` of each run.
        references: take the first reference as a further system, :data:`REFERENCE`; in lower case if all outputs
            are, or its capitals would give it away.

    Raises:
        InputError: two runs have different sources under one example id.
    """
    systems: dict[str, dict[int, str]] = {}
    sources: dict[int, str] = {}
    ids: set[int] | None = None
    for run, table in predictions.items():
        first = table[table["sample"] == 0]
        numbers = [int(number) for number in first["example_id"]]
        for number, source in zip(numbers, first["source"], strict=True):
            if sources.setdefault(number, source) != source:
                raise InputError(f"run {run}: example {number} has another source than in {next(iter(predictions))}: "
                                 f"the runs are of different data. Compare runs of one data set and split.")
        systems[run] = dict(zip(numbers, first["prediction"], strict=True))
        ids = set(numbers) if ids is None else ids & set(numbers)
    if references:
        systems[REFERENCE] = _references(predictions.values(), systems)
    shared = sorted(number for number in ids or () if all(number in outputs for outputs in systems.values()))
    return Outputs({number: sources[number] for number in shared},
                   {name: {number: outputs[number] for number in shared} for name, outputs in systems.items()})


def _references(predictions: Iterable[pd.DataFrame], systems: Mapping[str, Mapping[int, str]]) -> dict[int, str]:
    """Return the first reference of each item, in lower case if all outputs are: capitals would tell it apart."""
    lower = all(text == text.lower() for outputs in systems.values() for text in outputs.values())
    return {int(number): texts[0].lower() if lower else texts[0] for table in predictions
            for number, texts in zip(table["example_id"], table["references"], strict=True) if len(texts)}


def make_sheets(outputs: Outputs, design: Design, seed: int) -> list[Sheet]:
    """Return one sheet per rater; the same arguments give the same bytes.

    Items are drawn without regard to what systems wrote. A rater who judges an item judges the outputs of all
    systems for it, so that a paired test is free of what raters differ in. Order of items and of outputs is
    drawn anew for each rater.

    Raises:
        InputError: the systems share fewer items than the design has.
    """
    shared = sorted(outputs.sources)
    if len(shared) < design.items:
        raise InputError(f"--items: {design.items} were asked for, and the runs share {len(shared)}. Ask for at most "
                         f"so many, or predict more items.")
    drawn = generator(seed, "judgement", "items").permutation(np.array(shared))[:design.items]
    shares = assigned(sorted(int(number) for number in drawn), design, seed)
    return [_sheet(f"rater-{number}", items, outputs, design, seed) for number, items in enumerate(shares, 1)]


def assigned(items: Sequence[int], design: Design, seed: int) -> list[list[int]]:
    """Return the items of each rater: each item has ``design.judges`` raters, whose loads differ by one at most."""
    loads = np.zeros(design.raters, dtype=int)
    shares: list[list[int]] = [[] for _ in range(design.raters)]
    draw = generator(seed, "judgement", "raters")
    for item in items:
        # The least loaded first, ties as drawn: all pairs of raters come to share items.
        order = np.lexsort((draw.random(design.raters), loads))[:design.judges]
        loads[order] += 1
        for rater in order:
            shares[rater].append(item)
    return shares


def _sheet(rater: str, items: Sequence[int], outputs: Outputs, design: Design, seed: int) -> Sheet:
    names = sorted(outputs.systems)
    order = generator(seed, "judgement", rater, "items").permutation(np.array(items, dtype=int))
    key, rows = [], []
    for place, example in enumerate((int(number) for number in order), 1):
        mixed = generator(seed, "judgement", rater, "systems", example).permutation(len(names))
        for position, index in enumerate(mixed, 1):
            run = names[int(index)]
            source, output = outputs.sources[example], outputs.systems[run][example]
            output = output if output.strip() else NO_OUTPUT
            key.append(KeyRow(place, position, example, run, text_digest(harmless(source), harmless(output))))
            rows.append([place, position, source, output, *[""] * len(design.criteria)])
    return Sheet(rater, as_csv([*COLUMNS, *design.criteria], rows), tuple(key))


def text_digest(source: str, output: str) -> str:
    """Return what tells whether a row still has its texts: of their letters and digits, as spreadsheets alter the rest.

    >>> text_digest("Why?", "How so") == text_digest("Why ?", "'how so")
    True
    """
    plain = ["".join(letter for letter in text.casefold() if letter.isalnum()) for text in (source, output)]
    return hashlib.sha256("\n".join(plain).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Key:
    """Everything that turns filled sheets back into judgements.

    Attributes:
        design: of the evaluation.
        seed: that everything was drawn from.
        runs: for each system, where its outputs come from: file and sha256 (empty for references).
        rows: rows of each rater's sheet.
        written: sha256 of each sheet as it was made, empty of scores.
    """

    design: Design
    seed: int
    runs: dict[str, dict[str, str]]
    rows: dict[str, tuple[KeyRow, ...]]
    written: dict[str, str]

    def as_values(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"version": VERSION, "seed": self.seed, "design": asdict(self.design), "runs": self.runs,
                "sheets": {rater: {"sha256": self.written[rater], "rows": [asdict(row) for row in rows]}
                           for rater, rows in self.rows.items()}}


def key_of(sheets: Sequence[Sheet], design: Design, seed: int, runs: Mapping[str, dict[str, str]]) -> Key:
    """Return the key of ``sheets``."""
    return Key(design, seed, dict(runs), {sheet.rater: sheet.rows for sheet in sheets},
               {sheet.rater: hashlib.sha256(sheet.content).hexdigest() for sheet in sheets})


def read_key(path: Path) -> Key:
    """Read a key.

    Raises:
        InputError: it is missing, or no key that this version reads.
    """
    if not path.is_file():
        raise InputError(f"{path}: not found. Name the folder that `keycontrast judge sheets --out` wrote; filled "
                         f"sheets mean nothing without their key.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] != VERSION:
            raise InputError(f"{path}: version {content['version']} is not {VERSION}; read it with the version of "
                             f"Keycontrast that wrote it.")
        design = content["design"]
        return Key(Design(**{**design, "criteria": tuple(design["criteria"])}), content["seed"], content["runs"],
                   {rater: tuple(KeyRow(**row) for row in sheet["rows"]) for rater, sheet in content["sheets"].items()},
                   {rater: sheet["sha256"] for rater, sheet in content["sheets"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a key ({type(error).__name__}: {error}). Put the file back as it was "
                         f"written.") from error
