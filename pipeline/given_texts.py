"""The texts that a command is given: as arguments, in a file of lines or a table, or on standard input.

What is wrong with a file is said as the stage ``ingest`` says it, for the same readers read it.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from stages.ingest.layouts import TABLES, BoundLayout, Column, Layout
from stages.ingest.readers import character_problem, file_format, read_table, text_lines
from stages.ingest.rows import RawRow, RowMaker, is_unicode, text_fault
from stages.run.errors import InputError, nearest

COLUMN = "text"
_DOCUMENT = ".json"
# How the readers name what is an option here.
_WORDS = (("the data set's `encoding`", "--encoding"),
          (r"; or, if (?:marks|they) are ordinary characters in this file, set the data set's `quoting` to none", ""),
          ("set the data set's `separator` to ';'", "write it with commas"),
          ("Remove it from `files`, or fetch it again", "Fetch it again"))


def texts_from(arguments: Sequence[str], file: Path | None, stream: TextIO, column: str | None = None,
               encoding: str = "utf-8") -> Iterator[str]:
    """Yield texts, without spaces around them, as they are read: the arguments, those of a file, or of ``stream``.

    Args:
        arguments: texts.
        file: CSV, TSV, JSONL or Parquet, one text a row; any other file has one a line. Each also packed: .gz,
            .bz2, .xz or .zst.
        stream: one text a line, read if there is neither argument nor file. Empty lines are passed over.
        column: of a table; None for ``text``.
        encoding: of the file.

    Raises:
        InputError: texts from two places, or from none; a text is empty or no text; a file, column or encoding that
            cannot be read. Files and rows are named.
    """
    if arguments and file is not None:
        raise InputError("give texts or --file, not both.")
    if file is None and (column is not None or encoding != "utf-8"):
        raise InputError("--column and --encoding say how a file is read; give --file too.")
    if arguments:
        return _checked_arguments(arguments)
    if file is None:
        if stream.isatty():
            raise InputError('no text. Give one: keycontrast predict RUN "a sentence", or --file FILE, or lines on '
                             "standard input.")
        return _stream_lines(stream)
    return _of_file(file, column, encoding)


def _checked_arguments(arguments: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(arguments, 1):
        place = f"text {number}" if len(arguments) > 1 else "the text"
        if not text.strip():
            raise InputError(f'{place} is empty. Give one: keycontrast predict RUN "a sentence".')
        if not is_unicode(text):
            raise InputError(f"{place} is not valid in the encoding of this terminal. Put it into a file, and name "
                             f"that with --file and --encoding.")
        yield text.strip()


def _stream_lines(stream: TextIO) -> Iterator[str]:
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            if not is_unicode(line):
                raise _not_decoded(number)
            if fault := text_fault(line, f"line {number}"):
                raise InputError(f"standard input: {fault.partition(': ')[2]}.")
            if line.strip():
                yield line.strip()
    except UnicodeDecodeError as error:
        raise _not_decoded(number + 1) from error


def _not_decoded(line: int) -> InputError:
    return InputError(f"standard input, line {line} or soon after: not valid text in the encoding of this terminal. "
                      f"Put the texts into a file, and name that with --file and --encoding.")


def _of_file(file: Path, column: str | None, encoding: str) -> Iterator[str]:
    if not file.is_file():
        what = "a folder" if file.is_dir() else "no such file"
        raise InputError(f"{file}: {what}. It should be a file with one text per line, or a table: "
                         f"{', '.join(TABLES)}.")
    try:
        "".encode(encoding)
    except LookupError as error:
        raise InputError(f"--encoding: no encoding is called {encoding!r}; utf-8, latin-1 and cp1252 are "
                         f"some.") from error
    form = file_format(file)
    if form == _DOCUMENT:
        raise InputError(f"{file}: one JSON document is not read. Write one object per line, and name the file .jsonl.")
    if form not in TABLES and column is not None:
        raise InputError(f"--column: {file} is read line by line and has no columns; leave it out, or name a table "
                         f"({', '.join(TABLES)}).")
    try:
        yield from _of_table(file, form, column or COLUMN, encoding) if form in TABLES else _of_lines(file, encoding)
    except InputError as error:
        raise InputError(_in_our_words(str(error))) from error


def _of_lines(file: Path, encoding: str) -> Iterator[str]:
    found = False
    for number, line in enumerate(text_lines(file, encoding), 1):
        if problem := character_problem(line, encoding, f"line {number}"):
            raise InputError(f"{file}: {problem}")
        if line.strip():
            found = True
            if fault := text_fault(line, f"line {number}"):
                raise InputError(f"{file}: {fault.partition(': ')[2]}.")
            yield line.strip()
    if not found:
        raise InputError(f"{file}: the file has no text. It should hold one per line.")


def _of_table(file: Path, form: str, column: str, encoding: str) -> Iterator[str]:
    declared = Layout("texts", "a text", {COLUMN: Column("a text", COLUMN)})
    layout = BoundLayout(declared, {COLUMN: column}, "standard", named_by=lambda role: "--column")
    for row in _rows(file, form, encoding, RowMaker(file.name, layout, None)):
        yield _text(file, row, column)


def _rows(file: Path, form: str, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    if file.stat().st_size == 0:
        raise InputError(f"{file}: the file is empty. Fetch it again.")
    return read_table(file, form, encoding, maker)


def _text(file: Path, row: RawRow, column: str) -> str:
    """Return the text of a row.

    Raises:
        InputError: it has none; a row that is passed over would leave the answers without their rows.
    """
    place = f"{file}, row {row.row}"
    if row.problem or isinstance(row.content, str):
        raise InputError(f"{place}: {row.problem}")
    if column not in row.names:
        raise InputError(f"{place}: no column {column!r} (--column); {nearest(column, row.names)}")
    value: Any = row.content[COLUMN]
    if value is None:
        raise InputError(f"{place}: column {column!r} has no value. Fill it in, or leave the row out.")
    if not isinstance(value, str):
        raise InputError(f"{place}: column {column!r} holds {value!r}, and a text is needed. Name another column with "
                         f"--column, or write it in quotation marks.")
    if not value.strip():
        raise InputError(f"{place}: column {column!r} is empty. Fill it in, or leave the row out.")
    if fault := text_fault(value, f"column {column!r}"):
        raise InputError(f"{place}: {fault.partition(': ')[2]}.")
    return value.strip()


def _in_our_words(message: str) -> str:
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    return message
