"""CSV and TSV files with a header, quoted as in RFC 4180 or not at all."""

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from stages.ingest.layouts.layout import BoundLayout, check_columns
from stages.ingest.reading.rows import RawRow, RowMaker
from stages.ingest.reading.text import character_problem, is_decoded, is_sound, printable, text_lines
from stages.run.errors import InputError

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SEPARATORS = {",": ("commas", "name it .csv"), "\t": ("tabs", "name it .tsv"),
               ";": ("semicolons", "set the data set's `separator` to ';'"),
               "|": ("bars", "set the data set's `separator` to '|'")}
_ALONE = "a carriage return (\\r) without a line feed"
_SHOWN = 80
# Characters of a field; more are a sign of a quotation mark that is not closed.
_LONGEST = 1 << 24


# A record that is not an empty line: its number (0 for the header), the number of its first line, what stands
# there, its fields, and what is wrong with it.
_Record = tuple[int, int, str, list[str], str]


def read_delimited(path: Path, form: str, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    r"""Yield the rows of a ``.csv`` or ``.tsv`` file, which must begin with a header.

    Its columns are parted by commas or tabs, as its ending says, or by what the layout's ``separator`` says.

    Lines may end with \n or \r\n, also mixed. With ``quoting: none`` every line is a row and quotation marks
    are ordinary characters; otherwise fields that hold delimiters, marks or line ends must be in quotation
    marks, and marks inside them doubled.

    Raises:
        InputError: the header is missing or lacks a column, or a quotation mark has swallowed lines.
    """
    layout = maker.layout
    delimiter = layout.separator or _DELIMITERS[form]
    lines = text_lines(path, encoding)
    records = _unquoted(lines, delimiter) if layout.quoting == "none" else _quoted(path, lines, delimiter)
    header = _header(path, next(records, None), delimiter, layout)
    width, strict = len(header), layout.quoting == "standard"
    places = [(role, header.index(column)) for role, column in layout.columns.items()]
    number = 0
    for number, line, text, fields, problem in records:
        if not problem and len(fields) != width:
            problem = _width_problem(len(fields), width, line, delimiter, layout)
        if not problem and not is_sound(text):
            problem = character_problem(text, encoding, line, _unsound(header, fields))
        if not problem and strict and '"' in text and '"' in "".join(fields):
            problem = _stray_mark(text, line, header, delimiter)
        if problem:
            yield maker.broken(number, printable(text.rstrip("\r\n")), problem)
        else:
            yield maker.row(number, {role: fields[place] for role, place in places}, header, fields)
    if number == 0:
        raise InputError(f"{path}: the file has a header but no rows.")


def _header(path: Path, record: _Record | None, delimiter: str, layout: BoundLayout) -> list[str]:
    """Return the names of the columns, once they are known to hold what is needed."""
    if record is None:
        raise InputError(f"{path}: the file is empty. Remove it from `files`, or fetch it again.")
    _, _, text, fields, problem = record
    if "\0" in text:
        raise InputError(f"{path}: the header holds NUL bytes. If the file is UTF-16 without a mark, set the data "
                         f"set's `encoding` to utf-16-le or utf-16-be.")
    if problem:
        old = " Convert the line ends of an old Macintosh file to \\n." if _ALONE in problem else ""
        raise InputError(f"{path}: the header cannot be read ({problem}).{old}")
    if len(fields) == 1:
        for other, (what, remedy) in _SEPARATORS.items():
            if other != delimiter and other in text:
                raise InputError(f"{path}: only one column was found, and its name holds {what}. If {what} separate "
                                 f"the columns of this file, {remedy}.")
    shown = printable(text.rstrip("\r\n"))
    check_columns(path, fields, layout, shown[:_SHOWN] + "..." if len(shown) > _SHOWN else shown)
    return fields


def _unquoted(lines: Iterator[str], delimiter: str) -> Iterator[_Record]:
    number = -1
    for place, line in enumerate(lines, start=1):
        text = line.removesuffix("\n").removesuffix("\r")
        if text or number >= 0:
            number += 1
        if text:
            yield number, place, text, text.split(delimiter), _line_end(place) if "\r" in text else ""


def _quoted(path: Path, source: Iterator[str], delimiter: str) -> Iterator[_Record]:
    """Yield the records of a quoted file.

    A broken record over several lines is an error of the file: an unclosed quotation mark may have
    swallowed any number of good rows.
    """
    csv.field_size_limit(_LONGEST)
    lines: list[str] = []

    def remembered() -> Iterator[str]:
        for line in source:
            lines.append(line)
            yield line

    reader, number, width, first = csv.reader(remembered(), delimiter=delimiter, strict=True), -1, 0, 1
    while True:
        lines.clear()
        fields: list[str] = []
        problem = ""
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = _csv_problem(str(error), first)
        if fields or problem or number >= 0:
            number += 1
        width = width or len(fields)
        if len(lines) > 1:
            if problem or len(fields) != width:
                raise InputError(f"{path}: lines {first} to {first + len(lines) - 1}: a quotation mark is not closed "
                                 f"as it should be. Double the quotation marks inside fields; or, if they are "
                                 f"ordinary characters in this file, set the data set's `quoting` to none.")
            yield number, first, "".join(lines), fields, problem
        elif fields or problem:
            yield number, first, lines[0], fields, problem
        first += len(lines)


def _csv_problem(error: str, line: int) -> str:
    """Say in other words what the parser has found."""
    if "new-line character" in error:
        return _line_end(line)
    if "unexpected end" in error:
        return f"broken line: the quotation mark of the last field of line {line} is not closed"
    if "expected after" in error:
        return (f"broken line: in line {line} a quoted field goes on after its closing mark ({error}); double the "
                f"quotation marks inside fields")
    return f"broken line: line {line}: {error}"


def _line_end(line: int) -> str:
    return f"line ending: {_ALONE} in line {line}; remove it"


def _width_problem(found: int, width: int, line: int, delimiter: str, layout: BoundLayout) -> str:
    problem = f"broken line: {found} fields instead of {width} in line {line}"
    if found < width:
        return problem
    if layout.quoting == "none":
        return f"{problem}; a field must not hold the separating {_SEPARATORS[delimiter][0]}"
    return f"{problem}; fields that hold {_SEPARATORS[delimiter][0]} must be in quotation marks"


def _stray_mark(text: str, line: int, header: Sequence[str], delimiter: str) -> str:
    """Return the problem of a quotation mark in a field that is not quoted, or nothing."""
    field, place = _FIELDS[delimiter], 0
    record = text.rstrip("\r\n")
    for column in header:
        found = field.match(record, place)
        place = found.end() + 1 if found else place
        if place <= len(record) and record[place - 1] != delimiter:
            return (f"quotation mark: column {column!r} holds one in line {line}, but is not quoted itself. Quote it "
                    f"and double the mark; or, if marks are ordinary characters in this file, set the data set's "
                    f"`quoting` to none")
    return ""


# Possessive, so that a row without a match costs no more than its length.
_FIELDS = {delimiter: re.compile(f'"[^"]*+(?:""[^"]*+)*+"|[^"{delimiter}]*+') for delimiter in _SEPARATORS}


def _unsound(header: Sequence[str], fields: Sequence[str]) -> str:
    """Return the first column whose value holds what is no text."""
    return next((column for column, value in zip(header, fields, strict=True) if not is_decoded(value)), "")
