"""What raters are asked: criteria and scale, how many of them judge how many items, and the page they read first."""

import re
from dataclasses import dataclass

from keycontrast.errors import InputError, nearest

COLUMNS = ("item", "position", "source", "output")
_CRITERION = re.compile(r"[a-z][a-z0-9_-]*")
_SCALE = re.compile(r"(\d+)-(\d+)")
_MOST_POINTS = 11
INSTRUCTIONS = "instructions.md"
# The papers name their criteria and do not define them: the wording is ours.
_MEANINGS = {
    "fluency": "Is the output well formed: grammatical, natural, complete? Leave aside what it says.",
    "meaningfulness": "Does the output make sense beside its source: does it stay on the topic and say something "
                      "sensible?",
    "differential": "Does the output find words of its own? A copy of the source, or nearly one, gets the lowest "
                    "score.",
    "accuracy": "Does the output say what the source says, nothing left out and nothing added?",
    "diversity": "How much does the wording differ from the source: other words, another order, another build?",
}


@dataclass(frozen=True)
class Design:
    """A human evaluation.

    Attributes:
        items: sampled items; a rater judges the outputs of all systems for an item.
        raters: sheets that are made.
        per_item: raters of each item; None: all of them.
        low, high: ends of the scale of whole numbers.
        criteria: what is judged, one column of a sheet each.
    """

    items: int
    raters: int
    per_item: int | None
    low: int
    high: int
    criteria: tuple[str, ...]

    @property
    def judges(self) -> int:
        """Raters of each item."""
        return self.raters if self.per_item is None else self.per_item

    @property
    def points(self) -> range:
        """Points of the scale."""
        return range(self.low, self.high + 1)


# HCL: 100 items of QQP, three annotators, everyone sees everything. PGKPR: 100 sources, three of ten students each.
PRESETS = {
    "hcl": Design(100, 3, None, 1, 3, ("fluency", "meaningfulness", "differential")),
    "pgkpr": Design(100, 10, 3, 0, 2, ("fluency", "accuracy", "diversity")),
}


def design_of(like: str = "hcl", items: int | None = None, raters: int | None = None, per_item: int | None = None,
              scale: str | None = None, criteria: str | None = None) -> Design:
    """Return preset ``like`` with what differs from it.

    >>> design_of("hcl", items=20, scale="1-5").points
    range(1, 6)

    Args:
        like: ``hcl`` or ``pgkpr``, the evaluations of the papers.
        items, raters, per_item: in place of the preset's.
        scale: such as ``1-3``, ends included.
        criteria: names with commas between them, such as ``fluency,meaningfulness``.

    Raises:
        InputError: an unknown preset, an impossible number, scale or criterion.
    """
    if like not in PRESETS:
        raise InputError(f"--like: no evaluation is called {like!r}; {nearest(like, PRESETS)}")
    preset = PRESETS[like]
    low, high = (preset.low, preset.high) if scale is None else _scale(scale)
    made = Design(preset.items if items is None else items, preset.raters if raters is None else raters,
                  preset.per_item if per_item is None else per_item, low, high,
                  preset.criteria if criteria is None else _criteria(criteria))
    for name, value in (("items", made.items), ("raters", made.raters), ("per-item", made.judges)):
        if value < 1:
            raise InputError(f"--{name}: {value} is less than 1.")
    if made.judges > made.raters:
        raise InputError(f"--per-item: {made.judges} raters of each item are more than the {made.raters} that there "
                         f"are; raise --raters, or lower --per-item.")
    return made


def _scale(text: str) -> tuple[int, int]:
    found = _SCALE.fullmatch(text.strip())
    if found is None:
        raise InputError(f"--scale: {text!r} is no scale; give its ends, such as 1-3.")
    low, high = int(found[1]), int(found[2])
    if not low < high < low + _MOST_POINTS:
        raise InputError(f"--scale: {text!r} must rise, by at most {_MOST_POINTS - 1}; give its ends, such as 1-3.")
    return low, high


def _criteria(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not _CRITERION.fullmatch(name) or name in COLUMNS:
            raise InputError(f"--criteria: {name!r} cannot head a column; take lower-case letters, digits, - and _, "
                             f"and none of {', '.join(COLUMNS)}.")
    if len(set(names)) < len(names):
        raise InputError(f"--criteria: {text!r} names one twice.")
    return names


def instructions(design: Design, rows: dict[str, int], criteria_text: dict[str, str] | None = None) -> str:
    """Return the page of instructions as Markdown.

    Args:
        design: criteria and scale.
        rows: number of rows of each rater's sheet.
        criteria_text: what criteria mean, in place of or beside those known here.
    """
    meanings = _MEANINGS | (criteria_text or {})
    middle = "" if len(design.points) < 3 else ", and the points between lie evenly"
    lines = ["# Instructions for raters", "",
             "Each row of your sheet shows a source and an output that somebody, or something, wrote for it. Outputs "
             "for the same source stand below each other, in a random order that differs from item to item. Judge "
             "each by itself, and do not talk about them with other raters before all sheets are in.", "",
             f"Fill in every empty cell with a whole number from {design.low} to {design.high}: {design.low} is worst, "
             f"{design.high} is best{middle}.", ""]
    lines += [f"- **{name}**: {meanings.get(name, 'as you were told.')}" for name in design.criteria]
    lines += ["", "Change nothing else: `item` and `position` tell which row is which. You may sort whole rows and "
              "hide columns. Where a source or an output begins with an apostrophe and a sign, the apostrophe only "
              "keeps the spreadsheet from computing it. `(no output)` means that there was none: judge it as such.", "",
              "Save the sheet under its own name as **CSV UTF-8** (in LibreOffice: Text CSV, character set UTF-8).", "",
              "| sheet | rows |", "| --- | ---: |"]
    lines += [f"| `{rater}.csv` | {count} |" for rater, count in rows.items()]
    return "\n".join(lines) + "\n"
