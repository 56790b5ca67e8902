"""Which files a data set has, in which order, which of them are a published split, and the rows of all."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keycontrast.errors import InputError, nearest
from keycontrast.reading import COMPRESSIONS, TableForm, file_format, read_table
from stages.ingest.layouts.layout import Layout, check_columns, check_types
from stages.ingest.layouts.registry import LAYOUTS, layout_of
from stages.ingest.reading.lines import read_captions, read_lines
from stages.ingest.reading.rows import WORDS, RawRow, RowMaker

if TYPE_CHECKING:
    from stages.ingest.params import Dataset

_DOCUMENT = ".json"
# The order in which files are named.
FORMATS = (".csv", ".tsv", ".jsonl", _DOCUMENT, ".parquet")
_PACKED = f"{', '.join(COMPRESSIONS[:-1])} or {COMPRESSIONS[-1]}"


def read_rows(dataset: "Dataset") -> Iterator[RawRow]:
    """Yield the rows of all files of ``dataset``, file after file in the order of :func:`data_files`.

    Raises:
        InputError: a file is missing, empty, damaged, unreadable as a whole or lacks a column.
    """
    splits, forms = published_splits(dataset), _forms(dataset)
    for name, path in data_files(dataset):
        form = forms.get(name, dataset)
        yield from _rows(path, form.encoding, RowMaker(name, layout_of(form), splits.get(name)))


def _rows(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    declared, form = maker.layout.layout, file_format(path)
    if declared.read is not None:
        return declared.read(path, encoding, maker)
    if declared.parse is not None:
        return read_lines(path, encoding, maker)
    if form == _DOCUMENT:
        return read_captions(path, encoding, maker)
    layout = maker.layout
    return _of_table(path, TableForm(form, encoding, layout.quoting, layout.separator, WORDS), maker)


def _of_table(path: Path, form: TableForm, maker: RowMaker) -> Iterator[RawRow]:
    layout = maker.layout

    def check(names: list[str], first: str, schema: pa.Schema | None) -> None:
        check_columns(path, names, layout, first)
        if schema is not None:
            check_types(path, schema, layout)

    columns = tuple(layout.columns.items())
    for record in read_table(path, form, check):
        if (values := record.values) is None:
            yield maker.broken(record.number, record.line, record.problem)
        else:
            yield maker.row(record.number, {role: values.get(column) for role, column in columns}, values,
                            values.values())


def data_files(dataset: "Dataset") -> list[tuple[str, Path]]:
    """Return name and path of each file, in the order of ``dataset.files``, sorted within a pattern.

    Files that only ``dataset.splits`` names follow, training first. Where neither names any, the folder is
    read format by format.

    Raises:
        InputError: the source or a file is missing, a pattern matches nothing, or a type is not known.
    """
    source = Path(dataset.source)
    if not source.exists():
        raise InputError(f"{source}: no such file or folder. Correct the data set's `source` in the params"
                         f"{_similar(source)}")
    layout = LAYOUTS[dataset.layout]
    if layout.folders is not None:
        return _folders(dataset, layout)
    if source.is_file():
        if dataset.files:
            raise InputError(f"{source} is a file, so `files` must be empty; or name its folder as `source`.")
        found = [(source.name, source)]
    else:
        found = _inside(source, dataset)
    forms = _forms(dataset)
    for name, path in found:
        _check_file(path, LAYOUTS[forms.get(name, dataset).layout], source)
    return found


def published_splits(dataset: "Dataset") -> dict[str, str]:
    """Return the split of each file that ``dataset.splits`` names, or the layout where the params name no files.

    Raises:
        InputError: a pattern matches nothing, or a file would be of two splits.
    """
    source = Path(dataset.source)
    if not source.exists():
        return {}  # which `data_files` reports
    folder, only = (source.parent, source.name) if source.is_file() else (source, None)
    splits: dict[str, str] = {}
    for split, patterns in _named_splits(dataset).items():
        for pattern in patterns:
            names = [name for name in _matching(folder, pattern, LAYOUTS[dataset.layout]) if only in (None, name)]
            if not names:
                raise _missing(folder, pattern, f"splits.{split}: ")
            for name in names:
                if splits.setdefault(name, split) != split:
                    raise InputError(f"{folder / name}: is named under splits.{splits[name]} and under "
                                     f"splits.{split}. Leave it under one of them.")
    return splits


def _forms(dataset: "Dataset") -> dict[str, Any]:
    """Return what the params say of each file that has columns of its own, by its name; of two the first."""
    source, forms = Path(dataset.source), dict[str, Any]()
    for entry in [*dataset.files, *chain.from_iterable(dataset.splits.values())]:
        for name in _matching(source.parent if source.is_file() else source, _pattern(entry)):
            forms.setdefault(name, dataset if isinstance(entry, str) else entry)
    return forms


def _pattern(entry: Any) -> str:
    return entry if isinstance(entry, str) else str(entry.name)


def _check_file(path: Path, layout: Layout, source: Path) -> None:
    form = file_format(path)
    if form not in layout.forms and layout.files:
        raise InputError(f"{path}: files of layout {layout.name} are {layout.files}. Correct `files` or the data set's "
                         f"`layout`, which is {layout.structure} for tables.")
    if form not in FORMATS and not layout.files:
        raise InputError(f"{path}: files of type {form!r} cannot be read, only those named below, each also as "
                         f"{_PACKED}; {nearest(form, FORMATS)}")
    if form not in layout.forms:
        raise InputError(f"{path}: one JSON document is read only in layout mscoco_captions. Write one object per "
                         f"line, and name the file .jsonl.")
    if layout.index and path == source:
        raise InputError(f"{path}: {layout.index}.")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty. Remove it from `files`, or fetch it again.")


def _inside(folder: Path, dataset: "Dataset") -> list[tuple[str, Path]]:
    layout, named = LAYOUTS[dataset.layout], _named(dataset)
    found: dict[str, Path] = {}
    for pattern in named or [f"*{form}{packed}" for form in layout.forms for packed in ("", *COMPRESSIONS)]:
        names = _matching(folder, pattern)
        if not names and named:
            raise _missing(folder, pattern)
        if layout.splits and not dataset.files + list(dataset.splits) and len(names) > 1:
            raise InputError(f"{folder}: holds {' and '.join(names)}. Say which is meant, in the data set's `splits`.")
        found |= {name: folder / name for name in names}
    if not found:
        raise InputError(f"{folder}: holds no {', '.join(layout.forms)} file, nor one of them as {_PACKED}.")
    if not named:
        _refuse_copies(found)
    if layout.index and len(found) > 1 and not named:
        raise InputError(f"{folder}: holds the indices {', '.join(found)}. Name the one that is meant in the data "
                         f"set's `files`.")
    return list(found.items())


def _named(dataset: "Dataset") -> list[str]:
    """Return the names and patterns that the params give, or the layout if they give none."""
    splits = _named_splits(dataset)
    files = [_pattern(entry) for entry in dataset.files]
    return files + [pattern for split in ("train", "validation", "test") for pattern in splits.get(split, [])]


def _named_splits(dataset: "Dataset") -> dict[str, list[str]]:
    """Return names and patterns of the published splits: the params', or those of the layout."""
    if dataset.files or dataset.splits or Path(dataset.source).is_file():
        return {str(split): [_pattern(entry) for entry in entries] for split, entries in dataset.splits.items()}
    layout, source = LAYOUTS[dataset.layout], Path(dataset.source)
    published = layout.splits
    if layout.folders and not any((source / name).exists() for name in published.values()):
        return {}  # other editions, which have no split
    return {split: [pattern] for split, pattern in published.items()}


def _folders(dataset: "Dataset", layout: Layout) -> list[tuple[str, Path]]:
    """Return name and path of the folders that take the place of files, those of training first."""
    source = Path(dataset.source)
    if source.is_file():
        raise InputError(f"{source}: layout {layout.name} reads folders. Unpack the archive, and name the folder that "
                         f"it makes as `source`.")
    found: dict[str, Path] = {}
    for pattern in _named(dataset):
        names = _matching(source, pattern, layout)
        if not names:
            raise _missing(source, pattern)
        found |= {name: source / name for name in names}
    if not found and layout.folders is not None:
        found = {folder.relative_to(source).as_posix(): folder for folder in layout.folders(source)}
    return list(found.items())


def _matching(folder: Path, pattern: str, layout: Layout | None = None) -> list[str]:
    """Return the sorted names of the files of ``folder`` that ``pattern`` names or matches, or of its folders."""
    if Path(pattern).is_absolute():
        raise InputError(f"files: {pattern!r} must be a name or pattern inside {folder}.")
    if layout is not None and layout.folders is not None:
        matched = [path for path in sorted(folder.glob(pattern)) if path.is_dir()]
        return [group.relative_to(folder).as_posix() for path in matched for group in layout.folders(path)]
    if (folder / pattern).is_file():
        return [(folder / pattern).relative_to(folder).as_posix()]
    return [path.relative_to(folder).as_posix() for path in sorted(folder.glob(pattern)) if path.is_file()]


def _refuse_copies(found: dict[str, Path]) -> None:
    """Refuse a file beside its own archive, if nobody said that both are meant."""
    plain = {name: name.removesuffix(Path(name).suffix) if Path(name).suffix in COMPRESSIONS else name
             for name in found}
    copies = [name for name, count in Counter(plain.values()).items() if count > 1]
    if copies:
        names = " and ".join(name for name in found if plain[name] == copies[0])
        raise InputError(f"{found[next(n for n in found if plain[n] == copies[0])].parent}: holds {names}. Say which "
                         f"is meant, in the data set's `files`.")


def _missing(folder: Path, pattern: str, place: str = "") -> InputError:
    names = [path.name for path in folder.iterdir()]
    return InputError(f"{place}{folder / pattern}: no such file; {nearest(pattern, names)}")


def _similar(path: Path) -> str:
    if not path.parent.is_dir():
        return "."
    return f"; {nearest(path.name, [other.name for other in path.parent.iterdir()])}"
