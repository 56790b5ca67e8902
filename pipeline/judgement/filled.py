"""Filled sheets read back: every problem at once, with file, row, column and remedy."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from keycontrast.errors import InputError
from pipeline.judgement.design import COLUMNS, INSTRUCTIONS, Design
from pipeline.judgement.sheets import Key, KeyRow, text_digest
from pipeline.judgement.spreadsheet import read_csv

_SHOWN = 40
_Cells = list[tuple[int, dict[str, str]]]


@dataclass
class Judgements:
    """What raters said.

    Attributes:
        table: columns item (example id), run, rater, criterion and score, sorted by them.
        expected: cells that raters were asked to fill.
        missing: of these, how many are empty, by rater.
    """

    table: pd.DataFrame
    expected: int
    missing: dict[str, int]


@dataclass
class _Reading:
    """Scores and problems of one sheet."""

    scores: list[tuple[int, str, str, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    missing: int = 0


def read_judgements(folder: Path, key: Key, partial: bool = False) -> Judgements:
    """Return the scores in the sheets of ``folder``.

    Args:
        folder: holds ``rater-1.csv`` and so on.
        key: of the sheets.
        partial: take incomplete sheets, counting what is missing; otherwise empty cells are errors.

    Raises:
        InputError: cells that are empty (without ``partial``), no number or out of scale, rows that are not of
            the sheet or whose texts were changed; all of them are listed.
    """
    rows: list[tuple[int, str, str, str, int]] = []
    problems, gaps, missing = _strangers(folder, key), [], {}
    for rater, expected in key.rows.items():
        path = folder / f"{rater}.csv"
        reading = _read(path, expected, key.design)
        rows += [(item, run, rater, criterion, score) for item, run, criterion, score in reading.scores]
        problems += reading.problems
        gaps += reading.gaps
        missing[rater] = reading.missing
    if not partial:
        problems += gaps
    if problems:
        raise InputError(_listed(problems, bool(gaps) and not partial))
    if not rows:
        raise InputError(f"{folder}: no sheet has a score in it. Let raters fill in at least one.")
    table = pd.DataFrame(rows, columns=["item", "run", "rater", "criterion", "score"])
    cells = sum(len(expected) for expected in key.rows.values()) * len(key.design.criteria)
    return Judgements(table.sort_values(["item", "run", "rater", "criterion"], ignore_index=True), cells, missing)


def _strangers(folder: Path, key: Key) -> list[str]:
    """Return what to do about files that are no sheet: scores in them would be lost."""
    known = {INSTRUCTIONS, *(f"{rater}.csv" for rater in key.rows)}
    found = sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    return [f"{path}: no sheet of this evaluation. If scores are in it, save it as CSV UTF-8 under the sheet's own "
            f"name; otherwise take it out." for path in found if path.name not in known]


def _read(path: Path, expected: tuple[KeyRow, ...], design: Design) -> _Reading:
    reading = _Reading()
    if not path.is_file():
        reading.missing = len(expected) * len(design.criteria)
        reading.gaps.append(f"{path}: not there. Put the filled sheet back under this name.")
        return reading
    try:
        cells = read_csv(path, [*COLUMNS, *design.criteria])
    except InputError as error:
        reading.problems.append(str(error))
        return reading
    keyed = {(row.item, row.position): row for row in expected}
    for number, values, row in _known_rows(path, cells, keyed, reading):
        if text_digest(values["source"], values["output"]) != row.text:
            reading.problems.append(f"{path}: row {number}: source or output is not that of item {row.item}, position "
                                    f"{row.position}; sort whole rows only, and put the texts back.")
            continue
        for criterion in design.criteria:
            _take(reading, f"{path}: row {number}, column {criterion}", values[criterion], row, criterion, design)
    for row in keyed.values():
        reading.missing += len(design.criteria)
        reading.gaps.append(f"{path}: item {row.item}, position {row.position} has no row; put it back.")
    if len(reading.gaps) > 1 and not reading.scores and not reading.problems:
        reading.gaps = [f"{path}: none of its {reading.missing} cells is filled in; give whole numbers from "
                        f"{design.low} to {design.high}."]
    return reading


def _known_rows(path: Path, cells: _Cells, keyed: dict[tuple[int, int], KeyRow],
                reading: _Reading) -> Iterator[tuple[int, Mapping[str, str], KeyRow]]:
    """Yield the rows that the key has, taking them out of ``keyed``; others are problems."""
    for number, values in cells:
        place = (_whole(values["item"]), _whole(values["position"]))
        row = keyed.pop(place, None) if None not in place else None     # type: ignore[arg-type]
        if row is None:
            reading.problems.append(f"{path}: row {number}: item {values['item']!r}, position {values['position']!r} "
                                    f"is not of this sheet, or stands in it twice; take the row out.")
        else:
            yield number, values, row


def _take(reading: _Reading, place: str, text: str, row: KeyRow, criterion: str, design: Design) -> None:
    allowed = f"give a whole number from {design.low} to {design.high}"
    score = _whole(text)
    if not text.strip():
        reading.missing += 1
        reading.gaps.append(f"{place}: empty; {allowed}.")
    elif score is None:
        reading.problems.append(f"{place}: {text.strip()!r} is no whole number; {allowed}.")
    elif score not in design.points:
        reading.problems.append(f"{place}: {score} is not on the scale; {allowed}.")
    else:
        reading.scores.append((row.example_id, row.run, criterion, score))


def _whole(text: str) -> int | None:
    """Return the whole number that ``text`` says, also as ``2.0`` or ``2,0``; None if it says none."""
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return int(value) if value.is_integer() else None


def _listed(problems: list[str], only_partial: bool) -> str:
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in the sheets:"
    lines = [count, *(f"  {problem}" for problem in problems[:_SHOWN])]
    if len(problems) > _SHOWN:
        lines.append(f"  and {len(problems) - _SHOWN} more")
    if only_partial:
        lines.append("To read sheets that are not complete yet, give --partial.")
    return "\n".join(lines)
