"""The files of a data set in their order, with their published splits, and their rows, each with its place."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from keycontrast.errors import InputError, nearest
from keycontrast.reading import (
    COMPRESSIONS,
    TableForm,
    character_problem,
    escaped,
    file_format,
    is_unicode,
    once,
    open_bytes,
    open_text,
    read_table,
    text_lines,
)
from stages.common.schemas import ALL_SPLITS
from stages.ingest.layouts import DOCUMENT, LAYOUTS, BoundLayout, Layout, layout_of
from stages.ingest.params import Dataset
from stages.ingest.parsing import RowError
from stages.ingest.rows import WORDS, RawRow, RowMaker

# The order in which files are named.
_FORMATS = (".csv", ".tsv", ".jsonl", DOCUMENT, ".parquet")
_PACKED = f"{', '.join(COMPRESSIONS[:-1])} or {COMPRESSIONS[-1]}"


class DataFile(NamedTuple):
    """A file of a data set, or a folder of posts: its name in the folder, its published split, and the params that
    describe it, which are the data set's or those of its own columns."""

    name: str
    path: Path
    split: str | None
    form: Any


def read_rows(dataset: Dataset) -> Iterator[RawRow]:
    """Yield the rows of all files of ``dataset``, file after file in the order of :func:`data_files`."""
    for file in data_files(dataset):
        yield from read_file(file.path, file.form.encoding, RowMaker(file.name, layout_of(file.form), file.split))


def data_files(dataset: Dataset) -> list[DataFile]:
    """Return the files in the order of ``dataset.files``, sorted within a pattern, then those of ``dataset.splits`` or
    of the layout, training first; if none is named, all files, format by format. If the params name only files of
    evaluated splits, all others are of training. Layouts of posts have folders in place of files."""
    source, layout = Path(dataset.source), LAYOUTS[dataset.layout]
    if not source.exists():
        others = [other.name for other in source.parent.iterdir()] if source.parent.is_dir() else []
        raise InputError(f"{source}: no such file or folder. Correct the data set's `source` in the params"
                         f"{f'; {nearest(source.name, others)}' if others else '.'}")
    alone = source.is_file()
    if alone and layout.reader == "posts":
        raise InputError(f"{source}: layout {layout.name} reads folders. Unpack the archive, and name the folder that "
                         f"it makes as `source`.")
    if alone and dataset.files:
        raise InputError(f"{source} is a file, so `files` must be empty; or name its folder as `source`.")
    files = _named_files(dataset)
    if alone:
        files = files or {source.name: DataFile(source.name, source, None, dataset)}
    elif dataset.splits and not dataset.files and "train" not in dataset.splits:
        files = _all_files(source, layout, dataset, leave_out=files) | files
    elif not files:
        files = _all_files(source, layout, dataset)
    for file in files.values():
        _check_file(file.path, LAYOUTS[file.form.layout], source)
    return list(files.values())


def _named_files(dataset: Dataset) -> dict[str, DataFile]:
    """Return the files that the params or else the layout name, by name."""
    source, layout = Path(dataset.source), LAYOUTS[dataset.layout]
    alone, in_params = source.is_file(), bool(dataset.files or dataset.splits)
    folder, named = source.parent if alone else source, dict[str, DataFile]()
    for split, entry in _entries(dataset):
        pattern = entry if isinstance(entry, str) else entry.name
        names = [name for name in _matching(folder, pattern, layout) if not alone or name == source.name]
        if not names:
            present = [path.name for path in folder.iterdir()]
            raise InputError(f"{f'splits.{split}: ' if split else ''}{folder / pattern}: no such file; "
                             f"{nearest(pattern, present)}")
        if not in_params and layout.reader != "posts" and len(names) > 1:
            raise InputError(f"{folder}: holds {' and '.join(names)}. Say which is meant, in the data set's `splits`.")
        for name in names:
            form = dataset if isinstance(entry, str) else entry
            known = named.setdefault(name, DataFile(name, folder / name, split, form))
            if None not in (known.split, split) and known.split != split:
                raise InputError(f"{folder / name}: is named under splits.{known.split} and under splits.{split}. "
                                 f"Leave it under one of them.")
            own = known.form if isinstance(entry, str) else entry  # whichever comes first
            named[name] = known._replace(split=known.split or split, form=own)
    return named


def _entries(dataset: Dataset) -> list[tuple[str | None, Any]]:
    """Return the entries of the params, or else of the layout, each with its published split."""
    source, layout = Path(dataset.source), LAYOUTS[dataset.layout]
    splits: Mapping[Any, Sequence[Any]] = dataset.splits
    if dataset.files or splits or source.is_file():
        return [*((None, entry) for entry in dataset.files),
                *((split, entry) for split in ALL_SPLITS for entry in splits.get(split, []))]
    if layout.reader == "posts" and not any((source / name).exists() for name in layout.splits.values()):
        return []  # other editions, which have no split
    return list(layout.splits.items())


def _check_file(path: Path, layout: Layout, source: Path) -> None:
    form = file_format(path)
    if layout.reader == "posts":
        return
    if form not in layout.forms and layout.files:
        raise InputError(f"{path}: files of layout {layout.name} are {layout.files}. Correct `files` or the data set's "
                         f"`layout`, which is {layout.structure} for tables.")
    if form not in (*layout.forms, DOCUMENT):
        raise InputError(f"{path}: files of type {form!r} cannot be read, only those named below, each also as "
                         f"{_PACKED}; {nearest(form, _FORMATS)}")
    if layout.reader == "index" and path == source:
        raise InputError(f"{path}: layout {layout.name} reads an index and its corpus, so `source` must be the folder "
                         f"that holds both; name the index in `files`.")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty. Remove it from `files`, or fetch it again.")


def _all_files(folder: Path, layout: Layout, dataset: Dataset,
               leave_out: Collection[str] = ()) -> dict[str, DataFile]:
    """Return all files of ``folder`` that ``layout`` reads, except those to ``leave_out``."""
    if layout.reader == "posts" and leave_out:
        raise InputError(f"{folder}: `splits` names {', '.join(dataset.splits)} alone. Name those of training too.")
    if layout.reader == "posts":
        names = [group.relative_to(folder).as_posix() for group in _groups(folder)]
        return {name: DataFile(name, folder / name, None, dataset) for name in names}
    inside = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name not in leave_out]
    names = [path.name for form in layout.forms for packed in ("", *COMPRESSIONS) for path in inside
             if path.name.lower().endswith(form + packed)]
    if not names:
        but = f" but {', '.join(leave_out)}, which `splits` names; name the file of training under splits.train"
        raise InputError(f"{folder}: holds no {', '.join(layout.forms)} file, nor one of them as {_PACKED}"
                         f"{but if leave_out else ''}.")
    for name in (every := [*names, *leave_out]):
        copies = [name, *(f"{name}{packed}" for packed in COMPRESSIONS if f"{name}{packed}" in every)]
        if len(copies) > 1:
            raise InputError(f"{folder}: holds {' and '.join(copies)}. Say which is meant, in the data set's `files`.")
    if layout.reader == "index" and len(names) > 1:
        raise InputError(f"{folder}: holds the indices {', '.join(names)}. Name the one that is meant in the data "
                         f"set's `files`.")
    return {name: DataFile(name, folder / name, None, dataset) for name in names}


def _matching(folder: Path, pattern: str, layout: Layout) -> list[str]:
    """Return the sorted names of the files (or groups of posts) of ``folder`` that ``pattern`` names or matches."""
    parts = Path(pattern).parts
    if not parts or Path(pattern).is_absolute() or any(part == ".." or "**" in part != "**" for part in parts):
        raise InputError(f"files: {pattern!r} must be a name or pattern inside {folder}.")
    if layout.reader == "posts":
        paths = [group for path in sorted(folder.glob(pattern)) if path.is_dir() for group in _groups(path)]
    elif (folder / pattern).is_file():
        paths = [folder / pattern]
    else:
        paths = [path for path in sorted(folder.glob(pattern)) if path.is_file()]
    return [path.relative_to(folder).as_posix() for path in paths]


def _groups(folder: Path) -> list[Path]:
    """Return the folders of newsgroups: ``folder``, if it has posts, else the folders in it."""
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if not inside:
        raise InputError(f"{folder}: the folder is empty. Fetch it again, or name another one.")
    return [folder] if any(path.is_file() for path in inside) else inside


_ANNOTATIONS = "annotations"
# A line that is longer is no row.
_FIRST_LINE = 1 << 20


def read_file(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a file."""
    layout, form = maker.layout.layout, file_format(path)
    reader = layout.reader
    if reader == "posts":
        return _read_posts(path, encoding, maker)
    if form == DOCUMENT and (DOCUMENT not in layout.forms or not _is_document(path)):
        form = ".jsonl"
    if reader == "table" and form != DOCUMENT:
        return _read_table(path, form, encoding, maker)
    return _read_captions(path, encoding, maker) if reader == "table" else _read_lines(path, encoding, maker)


def _is_document(path: Path) -> bool:
    """Return whether a file named .json is one JSON document, not lines of one object each."""
    with open_bytes(path) as file:
        head = file.readline(_FIRST_LINE)
    try:
        if not head.endswith(b"\n"):
            return True
        first = json.loads(head)
        return isinstance(first, dict) and _ANNOTATIONS in first
    except (ValueError, RecursionError):
        return True


def _read_table(path: Path, form: str, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    layout = maker.layout

    def check(names: list[str], first: str, schema: pa.Schema | None) -> None:
        unnamed = first and not set(names) & set(layout.columns.values())
        _check_columns(path, names, layout, f" The first line is {first!r}: if that is a row of data, put a line with "
                                            f"the columns' names above." if unnamed else "")

    columns = tuple(layout.columns.items())
    for record in read_table(path, TableForm(form, encoding, layout.quoting, layout.separator, WORDS), check):
        if (values := record.values) is None:
            yield maker.broken(record.number, record.line, record.problem)
        else:
            yield maker.row(record.number, {role: values.get(column) for role, column in columns}, values)


def _check_columns(path: Path, names: Sequence[str], layout: BoundLayout, hint: str = "") -> None:
    """Raise an ``InputError`` unless ``names``, the columns of the file, have the column of every role once."""
    for role, column in layout.columns.items():
        if column not in names:
            raise InputError(f"{path}: no column {column!r} ({layout.named_by(role)}); {nearest(column, names)}{hint}")
        if names.count(column) > 1:
            raise InputError(f"{path}: column {column!r} occurs {names.count(column)} times in the header. Give each "
                             f"column a name of its own.")


def _read_captions(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the annotations of ``captions_*.json`` in the order of the file."""
    with open_text(path, encoding, WORDS) as handle:
        try:
            document = json.load(handle, object_pairs_hook=once)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not a JSON object as MSCOCO writes it: {error}. Fetch it again.") from error
    if not isinstance(document, dict) or not isinstance(document.get(_ANNOTATIONS), list):
        hint = nearest(_ANNOTATIONS, document) if isinstance(document, dict) else "it is no object."
        raise InputError(f"{path}: the document has no list {_ANNOTATIONS!r}, as the captions_*.json of MSCOCO have; "
                         f"{hint}")
    annotations = document[_ANNOTATIONS]
    if not annotations:
        raise InputError(f"{path}: the file has no rows: its list {_ANNOTATIONS!r} is empty.")
    if isinstance(annotations[0], dict):
        _check_columns(path, list(annotations[0]), maker.layout)
    columns = tuple(maker.layout.columns.items())
    for number, entry in enumerate(annotations, start=1):
        content = {role: entry.get(column) for role, column in columns} if isinstance(entry, dict) else {}
        problem = "" if content else "broken entry: not a JSON object"
        if not is_unicode(text := str(content.get("text"))):
            problem = character_problem(text, encoding, f"entry {number} of {_ANNOTATIONS!r}", WORDS)
        if problem:
            yield maker.broken(number, escaped(json.dumps(entry, ensure_ascii=False)), problem)
        else:
            yield maker.row(number, content, entry)


def _read_lines(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a text file as the layout parses its lines; empty lines are skipped.

    A line of an index (Yao et al. 2019) is joined with the same line of the file of its name in the folder ``corpus``.
    """
    layout, rows = maker.layout.layout, 0
    assert layout.parse is not None, "the layout reads no lines"
    lines = text_lines(path, encoding, WORDS) if layout.reader == "lines" else _indexed_lines(path, encoding)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        rows += 1
        text = line.rstrip("\r\n")
        problem = character_problem(line, encoding, f"line {number}", WORDS)
        if not problem and "\r" in text:
            problem = f"line ending: a carriage return (\\r) without a line feed in line {number}"
        if problem:
            yield maker.broken(number, escaped(text), problem)
            continue
        try:
            values = layout.parse(text, path)
        except RowError as error:
            yield maker.broken(number, text, f"{error}, in line {number}")
            continue
        content = {role: values[column] for role, column in maker.layout.columns.items() if column in values}
        yield maker.row(number, content, values)
    if not rows:
        raise InputError(f"{path}: the file has no rows.")


def _indexed_lines(path: Path, encoding: str) -> Iterator[str]:
    corpus = path.parent / "corpus" / path.name
    if not corpus.is_file():
        raise InputError(f"{path}: its texts are missing; layout text_gcn keeps them in {corpus}, one per line of the "
                         f"index. Put them there.")
    both = zip_longest(text_lines(path, encoding, WORDS), text_lines(corpus, encoding, WORDS))
    for number, (entry, text) in enumerate(both, 1):
        if not (entry or "").strip() and not (text or "").strip():
            yield ""
        elif entry is None or text is None or not entry.strip():
            shorter, longer = (path, corpus) if text else (corpus, path)
            raise InputError(f"{shorter}: has nothing in line {number}, but {longer} has. Each line of the index "
                             f"belongs to the same line of the corpus: fetch both again.")
        else:
            yield f"{entry.rstrip()}\t{text}"


def _read_posts(folder: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the posts of one newsgroup by rising number, which is the row; one not of ``encoding`` is Latin-1."""
    posts = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if not posts:
        raise InputError(f"{folder}: holds no posts. Fetch the folder again, or take it out.")
    for path in posts:
        if not path.is_file() or not (path.name.isascii() and path.name.isdigit()):
            raise InputError(f"{path}: is no post; those of layout newsgroups are files named by their number, one "
                             f"folder per group. Take it out of the folder.")
    for path in sorted(posts, key=lambda path: int(path.name)):
        content = path.read_bytes()
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            text = content.decode("latin-1")
        values = {"group": folder.name, "post": path.name, "text": text}
        yield maker.row(int(path.name), {role: values[column] for role, column in maker.layout.columns.items()}, values)
