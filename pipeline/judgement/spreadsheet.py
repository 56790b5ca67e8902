"""CSV that spreadsheets open rightly and that does nothing in them."""

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from keycontrast.errors import InputError

# What opens a formula in some spreadsheet, also in full width as East Asian versions take it.
_FORMULA = frozenset("=+-@＝＋－＠")
_DELIMITERS = ",;\t"


def harmless(text: str) -> str:
    """Return ``text`` on one line, with an apostrophe before what a spreadsheet would compute.

    >>> harmless("=HYPERLINK(A1)")
    "'=HYPERLINK(A1)"
    """
    plain = "".join(" " if unicodedata.category(letter) in ("Cc", "Zl", "Zp") else letter for letter in text)
    return f"'{plain}" if plain.lstrip()[:1] in _FORMULA and plain.strip() else plain


def as_csv(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """Return a table as CSV in UTF-8 with a byte-order mark, by which spreadsheets know the encoding."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(heads)
    writer.writerows([harmless(str(value)) for value in row] for row in rows)
    return stream.getvalue().encode("utf-8-sig", errors="replace")


def read_csv(path: Path, heads: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a CSV file that a spreadsheet may have saved: its number as people count, and its cells.

    Commas, semicolons and tabs are told apart by the first line; blank rows are left out.

    Raises:
        InputError: the file is no UTF-8, or has other columns than ``heads``.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 (byte {error.start}). Save it from the spreadsheet as "
                         f"\"CSV UTF-8\".") from error
    first = text.splitlines()[0] if text.strip() else ""
    delimiter = max(_DELIMITERS, key=first.count)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    found = [name.strip() for name in rows[0]] if rows else []
    missing = [name for name in heads if name not in found]
    if missing:
        raise InputError(f"{path}: row 1: column {missing[0]!r} is missing; the first row must be "
                         f"{','.join(heads)}. Copy it from a sheet made anew.")
    return [(number, dict(zip(found, [*row, *[""] * len(found)], strict=False)))
            for number, row in enumerate(rows[1:], 2) if any(value.strip() for value in row)]
