"""Values as text that is safe to print: no markup, no control characters, no long lines."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from keycontrast.errors import plain

_CELL = 120
_LIST = 12
# A spreadsheet computes a CSV cell that begins with one of these characters, also after blanks.
_FORMULA = frozenset("=+-@＝＋－＠")
# Characters that JSON may contain unescaped, and that a terminal interprets.
_SILENT = re.compile("[\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str, keep: str = "") -> str:
    """Return ``text`` as :func:`keycontrast.errors.plain` does, and most texts at once; ``keep`` may be a newline."""
    return text if text.isprintable() else plain(text, keep)


def no_formula(text: str) -> str:
    """Return ``text`` with an apostrophe before it if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.strip()[:1] in _FORMULA else text


def json_value(value: Any) -> Any:
    """Return a value that JSON can hold; NaN and infinity, which it lacks, as null."""
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def json_text(value: Any, **options: Any) -> str:
    """Return a value as JSON that a terminal can show; ``options`` are those of ``json.dumps``."""
    text = json.dumps(value, ensure_ascii=False, **options)
    return _SILENT.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text)


def cell(value: Any) -> Text:
    """Return a value as plain text of at most 120 characters."""
    if value is None:
        return Text("null", style="dim")
    text = _plain(value)
    return Text(text if len(text) <= _CELL else text[:_CELL - 1] + "…")


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{printable(str(key))}: {_plain(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        more = f", ... ({len(value)})" if len(value) > _LIST else ""
        return "[" + ", ".join(map(_plain, value[:_LIST])) + more + "]"
    return printable(str(value))


def _fitted(widths: Sequence[int], total: int) -> list[int]:
    """Return ``widths`` cut to add up to at most ``total``; narrow columns keep theirs, wide ones share the rest."""
    fitted = list(widths)
    for done, place in enumerate(sorted(range(len(widths)), key=widths.__getitem__)):
        fitted[place] = min(widths[place], total // (len(widths) - done))
        total -= fitted[place]
    return fitted


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], console: Console, title: str) -> None:
    """Print rows side by side, or below each other where the terminal is too narrow; long cells are cut."""
    heads = [printable(name) for name in columns]
    console.print(Text(title, style="italic"))
    if len(columns) * 12 <= console.width:
        cells = [[cell(value) for value in row] for row in rows]
        natural = [max(text.cell_len for text in column) for column in zip(map(Text, heads), *cells, strict=True)]
        shown = Table()
        for head, width in zip(heads, _fitted(natural, console.width - 3 * len(heads) - 1), strict=True):
            shown.add_column(escape(head), no_wrap=True, overflow="ellipsis", width=width)
        for texts in cells:
            shown.add_row(*texts)
    else:
        shown = Table()
        names = max(map(cell_len, heads))
        for head, width in (("row", max(3, len(str(len(rows))))), ("column", max(6, names))):
            shown.add_column(head, no_wrap=True, width=width)
        shown.add_column("value", no_wrap=True, overflow="ellipsis", width=max(12, console.width - names - 16))
        for number, row in enumerate(rows, 1):
            for place, (name, value) in enumerate(zip(heads, row, strict=True)):
                shown.add_row("" if place else str(number), Text(name), cell(value),
                              end_section=place == len(heads) - 1)
    console.print(shown)
