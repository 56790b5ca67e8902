"""Text files without a header, one row per line, as the layout parses it."""

from collections.abc import Iterator
from pathlib import Path

from stages.ingest.reading.rows import RawRow, RowMaker
from stages.ingest.reading.text import character_problem, is_sound, printable, text_lines
from stages.run.errors import InputError


def read_lines(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a text file; empty lines are passed over.

    Raises:
        InputError: the file has no rows, or is not text of the encoding.
    """
    rows = 0
    for number, line in enumerate(text_lines(path, encoding), start=1):
        if line.strip():
            rows += 1
            yield line_row(number, line, path, encoding, maker)
    if not rows:
        raise InputError(f"{path}: the file has no rows.")


def line_row(number: int, line: str, path: Path, encoding: str, maker: RowMaker) -> RawRow:
    """Return the row in ``line``, the ``number``-th of the file ``path``."""
    text = line.rstrip("\r\n")
    if not is_sound(line):
        return maker.broken(number, printable(text), character_problem(line, encoding, number))
    parse = maker.layout.layout.parse
    assert parse is not None, "the layout reads no lines"
    try:
        values = parse(text, path)
    except ValueError as error:
        return maker.broken(number, text, f"{error}, in line {number}")
    content = {role: values[column] for role, column in maker.layout.columns.items() if column in values}
    return maker.row(number, content, tuple(values), tuple(values.values()))
