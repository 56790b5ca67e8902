"""What a layout declares: its columns, how its files are written and read, and what rows its items are made of."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from keycontrast.errors import InputError, nearest
from keycontrast.reading import TABLES, Quoting
from stages.common.layouts import structure_of

if TYPE_CHECKING:
    from stages.ingest.reading.rows import RawRow, RowMaker

SPLIT = "split"
# In words, by the kind of values of a column.
_WANTED = {"text": "text", "name": "text or whole numbers", "truth": "text or whole numbers",
           "text or texts": "text or lists of texts", "texts": "lists of texts", "numbers": "lists of numbers"}


@dataclass(frozen=True)
class Column:
    """What a layout reads from one column.

    Attributes:
        meaning: of its values, for the documentation.
        name: of the column, unless the params give another; None if only the params can name it.
        needed: whether the layout can do without.
        values: ``text``; ``name`` of a class or group (text or a whole number, spelt as text); ``truth`` (0 or 1);
            ``text or texts`` (one, or a list of them); ``texts``; ``numbers``.
        missing: what to do where a file has no such column.
    """

    meaning: str
    name: str | None = None
    needed: bool = True
    values: Literal["text", "name", "truth", "text or texts", "texts", "numbers"] = "text"
    missing: str = ""


@dataclass(frozen=True)
class Layout:
    """How the rows of a data set's files are to be understood.

    Attributes:
        name: as the params call it.
        row: what a row is, for the documentation.
        columns: what it reads, by role, in the order of ``RawRow.content``.
        published: whether the files are those of a publisher, whose columns have names of their own.
        quoting: of CSV and TSV, where the publisher has chosen; None leaves it to the params.
        encoding: of text files, unless the params say otherwise.
        forms: endings of its files, in the order in which they are read.
        files: what its files are, where they are no tables; for messages and the documentation.
        splits: name or pattern of the file of each published split, where the names are known.
        index: why the source must be a folder that holds one such file, if it must.
        folders: returns the folders that a folder stands for, where these take the place of files.
        parse: returns what one line of a text file says, by column, given the line and its file.
        read: yields the rows of a file in a way of its own, given the file and its encoding.
        check: returns what is wrong with the columns that the params name, or nothing.
        roles: returns the column of each role from the columns that the params name, where these are no roles.
        convert: returns the content of a row by the roles of its structure, where these are others.
        set_aside: categories of reasons for which ``convert`` takes no row although nothing is wrong with it.
    """

    name: str
    row: str
    columns: Mapping[str, Column]
    published: bool = False
    quoting: Quoting | None = None
    encoding: str = "utf-8"
    forms: tuple[str, ...] = TABLES
    files: str = ""
    splits: Mapping[str, str] = field(default_factory=dict)
    index: str = ""
    folders: Callable[[Path], list[Path]] | None = None
    parse: Callable[[str, Path], Mapping[str, Any]] | None = None
    read: Callable[[Path, str, "RowMaker"], Iterator["RawRow"]] | None = None
    check: Callable[[Mapping[str, Any]], str] | None = None
    roles: Callable[[Mapping[str, Any]], dict[str, str]] | None = None
    convert: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    set_aside: tuple[str, ...] = ()

    @property
    def structure(self) -> str:
        """Of which kind its rows are."""
        return structure_of(self.name)

    @property
    def named(self) -> dict[str, Column]:
        """The columns that the params may name: those of a publisher have their names."""
        of_tables = self.parse is None and self.read is None
        split = {SPLIT: Column("train, validation or test", needed=False)} if of_tables else {}
        return {**({} if self.published else self.columns), **split}

    def completed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns ``given`` by the params, and those that they leave out.

        Raises:
            ValueError: there is no such column, one is missing, or they contradict each other.
        """
        own = f"; the files of layout {self.name} have columns of their own" if self.published else ""
        for role in given:
            if role not in self.named:
                raise ValueError(f"layout {self.name} has no columns.{role}{own}; {nearest(role, self.named)}")
        found = {role: given.get(role, column.name) for role, column in self.named.items()}
        for role, column in self.named.items():
            if column.needed and found[role] is None:
                raise ValueError(f"layout {self.name} needs columns.{role}")
        problem = self.check(found) if self.check else ""
        if problem:
            raise ValueError(f"layout {self.name} {problem}")
        return found


@dataclass(frozen=True)
class BoundLayout:
    """A layout with the columns of one data set.

    Attributes:
        layout: what the columns mean.
        columns: column of each role that is used.
        quoting: of CSV and TSV: ``standard`` as in RFC 4180, ``none`` if quotation marks are ordinary characters.
        named_by: who has named the column of a role; for messages.
        separator: of the columns of CSV and TSV; empty: as the file's ending says.
    """

    layout: Layout
    columns: Mapping[str, str]
    quoting: Quoting
    named_by: Callable[[str], str]
    separator: str = ""

    def values(self, role: str) -> str:
        """Return the kind of values of ``role``."""
        return self.layout.columns[role].values if role in self.layout.columns else "text"


def bound(layout: Layout, named: Mapping[str, Any], quoting: Quoting, separator: str | None = None) -> BoundLayout:
    """Return ``layout`` with the columns that the params of a data set name, its quoting and its separator."""
    given = {role: column for role, column in named.items() if column is not None}
    if layout.published:
        given = {role: str(column.name) for role, column in layout.columns.items()} | given
    split = {SPLIT: given.pop(SPLIT)} if SPLIT in given else {}
    columns = (layout.roles(given) if layout.roles else given) | split

    def named_by(role: str) -> str:
        if layout.published and role in layout.columns:
            return f"which files of layout {layout.name} have"
        lists = (name for name, column in given.items() if isinstance(column, list) and columns[role] in column)
        return f"columns.{role if role in given or role in split else next(lists)} in the params"

    return BoundLayout(layout, columns, layout.quoting or quoting, named_by, separator or "")


def check_columns(path: Path, names: Sequence[str], layout: BoundLayout, first_row: str = "") -> None:
    """Make sure that ``names`` hold the column of every role, once.

    Args:
        path: the file, for the message.
        names: the columns of the file.
        layout: what is looked for.
        first_row: the header as found, where it might have been left out; shown if it holds no needed column.

    Raises:
        InputError: a column is missing or occurs more than once.
    """
    for role, column in layout.columns.items():
        if column not in names:
            raise InputError(f"{path}: no column {column!r} ({layout.named_by(role)}); {nearest(column, names)}"
                             f"{_advice(role, names, layout, first_row)}")
        if names.count(column) > 1:
            raise InputError(f"{path}: column {column!r} occurs {names.count(column)} times in the header. Give each "
                             f"column a name of its own.")


def _advice(role: str, names: Sequence[str], layout: BoundLayout, first_row: str) -> str:
    if first_row and not set(names) & set(layout.columns.values()):
        return f" The first line is {first_row!r}: if that is a row of data, put a line with the columns' names above."
    column = layout.layout.columns.get(role)
    return f" {column.missing}" if column and column.missing else ""


def check_types(path: Path, schema: pa.Schema, layout: BoundLayout) -> None:
    """Make sure that texts are text, and labels and groups single values.

    Raises:
        InputError: a column is of a type that cannot be used.
    """
    for role, column in layout.columns.items():
        found, values = schema.field(column).type, layout.values(role)
        if not _fits(found.value_type if pa.types.is_dictionary(found) else found, values):
            raise InputError(f"{path}: column {column!r} ({role}) is of type {found}, but must be {_WANTED[values]}. "
                             f"Name another column, or write this one anew as {_WANTED[values]}.")


def _fits(kind: pa.DataType, values: str) -> bool:
    """Say whether a column of type ``kind`` may hold ``values``."""
    if pa.types.is_null(kind):  # nothing but gaps; its rows say what is missing
        return True
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = kind.value_type
        if values == "numbers":
            return pa.types.is_floating(inner) or pa.types.is_integer(inner) or pa.types.is_null(inner)
        return values in ("texts", "text or texts") and (_is_text(inner) or pa.types.is_null(inner))
    if values in ("name", "truth") and (pa.types.is_integer(kind) or pa.types.is_floating(kind)
                                        or pa.types.is_boolean(kind)):
        return True
    return values in ("text", "name", "truth", "text or texts") and _is_text(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
