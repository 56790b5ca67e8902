"""The texts that a command is given: as arguments, in a file of lines or a table, or on standard input."""

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pyarrow as pa

from keycontrast import reading
from keycontrast.errors import InputError, nearest

COLUMN = "text"


class Given(NamedTuple):
    """The id of a row, if there is a column of ids, and its text as given; None in a skipped row or an empty line."""

    id: Any
    text: str | None


@dataclass(frozen=True)
class FileOptions:
    """Options of the commands for files of texts; without ``skip_empty``, rows without a text are errors."""

    column: str | None = None
    id_column: str | None = None
    encoding: str = "utf-8"
    quoting: reading.Quoting = "standard"
    separator: str | None = None
    skip_empty: bool = False

    def __post_init__(self) -> None:
        try:
            "".encode(self.encoding)
            codecs.lookup(self.encoding).decode(b"", "surrogateescape")
        except (LookupError, UnicodeError) as error:
            raise InputError(f"--encoding: no encoding is called {self.encoding!r}; utf-8, latin-1 and cp1252 are "
                             f"some.") from error
        if self.quoting not in ("standard", "none"):
            raise InputError(f"--quoting: found {self.quoting!r}; {nearest(self.quoting, ('standard', 'none'))}")
        object.__setattr__(self, "separator", "\t" if self.separator == "\\t" else self.separator)
        if self.separator is not None and len(self.separator) != 1:
            raise InputError(f"--separator: must be one character, found {self.separator!r}.")


LINES = FileOptions()


def texts_from(arguments: Sequence[str], file: Path | None, stream: TextIO,
               options: FileOptions = LINES) -> Iterator[tuple[int, str]]:
    """Yield rows, counted from 0, and their texts without spaces around them: of arguments, a file, or ``stream``.

    Rows and lines without a text are counted and left out.
    """
    if arguments and file is not None:
        raise InputError("give texts or --file, not both.")
    if file is None and options != LINES:
        raise InputError("--column, --encoding, --quoting, --separator and --skip-empty say how a file is read; "
                         "give --file too.")
    given: Iterator[str | None]
    if arguments:
        given = _checked_arguments(arguments)
    elif file is not None:
        given = (row.text for row in file_texts(file, options))
    else:
        if stream.isatty():
            raise InputError('no text. Give one: keycontrast predict RUN "a sentence", or --file FILE, or lines on '
                             "standard input.")
        given = stream_lines(stream)
    return ((row, text.strip()) for row, text in enumerate(given) if text is not None)


def file_texts(file: Path, options: FileOptions = LINES) -> Iterator[Given]:
    """Yield the texts of a file, perhaps packed: one a row of a table, one a line of other files."""
    try:
        fault = ("" if file.is_file() else "a folder" if file.is_dir() else
                 "a pipe; pass it as standard input" if file.exists() else "no such file")
    except OSError:  # a text in place of a name, which is too long for one
        fault = "no such file"
    if fault:
        raise InputError(f"{file}: {fault}. It should be a file with one text per line, or a table: "
                         f"{', '.join(reading.TABLES)}.")
    form = reading.file_format(file)
    form = ".jsonl" if form in (".json", ".ndjson") else form  # it may hold one JSON object per line
    if form not in (".csv", ".tsv") and (options.separator is not None or options.quoting != "standard"):
        name = "--quoting" if options.separator is None else "--separator"
        raise InputError(f"{name}: {file} is neither CSV nor TSV; leave it out.")
    if form in reading.TABLES:
        return _of_table(file, form, options)
    if options.column is not None or options.id_column is not None:
        name = "--column" if options.column is not None else "--id"
        raise InputError(f"{name}: {file} is read line by line and has no columns; leave it out, or name a table "
                         f"({', '.join(reading.TABLES)}).")
    return (Given(None, text) for text in _of_lines(file, options.encoding))


def stream_lines(stream: TextIO) -> Iterator[str | None]:
    """Yield the lines of standard input, None in place of an empty one."""
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            line = line.removeprefix(reading.MARK) if number == 1 else line
            if not reading.is_unicode(line):
                raise _not_decoded(number)
            if fault := reading.text_fault(line, f"line {number}"):
                raise InputError(f"standard input: {fault.partition(': ')[2]}.")
            yield line.rstrip("\r\n") if line.strip() else None
    except UnicodeDecodeError as error:
        raise _not_decoded(number + 1) from error


def _checked_arguments(arguments: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(arguments, 1):
        place = f"text {number}" if len(arguments) > 1 else "the text"
        if not text.strip():
            raise InputError(f'{place} is empty. Give one: keycontrast predict RUN "a sentence".')
        if not reading.is_unicode(text):
            raise InputError(f"{place} is not valid in the encoding of this terminal. Put it into a file, and name "
                             f"that with --file and --encoding.")
        yield text


def _not_decoded(line: int) -> InputError:
    return InputError(f"standard input, line {line} or soon after: not valid text in the encoding that it is "
                      f"read in. Put the texts into a file, and name that and its --encoding.")


def _of_lines(file: Path, encoding: str) -> Iterator[str | None]:
    any_text = False
    for number, line in enumerate(reading.text_lines(file, encoding), 1):
        if problem := reading.character_problem(line, encoding, f"line {number}"):
            raise InputError(f"{file}: {problem}")
        if "\r" in line.rstrip("\r\n"):
            raise InputError(f"{file}: line ending: a carriage return (\\r) without a line feed in line {number}; put "
                             f"a line feed in its place.")
        if line.strip():
            any_text = True
            if fault := reading.text_fault(line, f"line {number}"):
                raise InputError(f"{file}: {fault.partition(': ')[2]}.")
        yield line.rstrip("\r\n") if line.strip() else None
    if not any_text:
        raise InputError(f"{file}: the file has no text. It should hold one per line.")


def _of_table(file: Path, form: str, options: FileOptions) -> Iterator[Given]:
    column, wanted = options.column or COLUMN, {"--column": options.column or COLUMN, "--id": options.id_column}

    def check(names: list[str], first_line: str, schema: pa.Schema | None) -> None:
        for option, name in wanted.items():
            if name is not None and names.count(name) > 1:
                raise InputError(f"{file}: column {name!r} occurs {names.count(name)} times. Give each column a name "
                                 f"of its own.")
            if name is not None and name not in names:
                raise InputError(f"{file}: no column {name!r} ({option}); {nearest(name, names)}")
        kind = pa.string() if schema is None else schema.field(column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if str(kind) not in ("string", "large_string", "string_view", "null"):
            raise InputError(f"{file}: column {column!r} is of type {kind}, but must be text. Name another with "
                             f"--column, or write this one anew as text.")

    layout = reading.TableForm(form, options.encoding, options.quoting, options.separator or "")
    row = 0
    for record in reading.read_table(file, layout, check, [name for name in wanted.values() if name is not None]):
        yield from [Given(None, None)] * (record.number - row - 1)  # empty lines
        row = record.number
        text = _text(file, record, column, options.skip_empty)
        yield Given(record.values.get(options.id_column) if record.values and options.id_column else None, text)


def _text(file: Path, record: reading.Record, column: str, skip_empty: bool) -> str | None:
    """Return the text of a row; without one, None if ``skip_empty``, else an error."""
    place = f"{file}, row {record.number}"
    if record.values is None:
        raise InputError(f"{place}: {record.problem}")
    if column not in record.values and not skip_empty:
        raise InputError(f"{place}: no column {column!r} (--column); {nearest(column, record.values)}")
    value = record.values.get(column)
    if value is not None and value == value and not isinstance(value, str):
        raise InputError(f"{place}: column {column!r} holds {value!r}, and a text is needed. Name another column with "
                         f"--column, or write it in quotation marks.")
    if not isinstance(value, str) or not value.strip():
        if skip_empty:
            return None
        what = "is empty" if isinstance(value, str) else "has no value"
        raise InputError(f"{place}: column {column!r} {what}. Fill it in, or leave such rows out with --skip-empty.")
    if fault := reading.text_fault(value, f"column {column!r}"):
        raise InputError(f"{place}: {fault.partition(': ')[2]}.")
    return value
