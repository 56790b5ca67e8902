"""Which files a data set has, in which order, and which of them are a published split."""

from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from keycontrast.errors import InputError, nearest
from keycontrast.reading import COMPRESSIONS, file_format
from stages.ingest.files import read_file
from stages.ingest.layouts import DOCUMENT, LAYOUTS, Layout, layout_of
from stages.ingest.params import Dataset
from stages.ingest.rows import RawRow, RowMaker

# The order in which files are named.
_FORMATS = (".csv", ".tsv", ".jsonl", DOCUMENT, ".parquet")
_PACKED = f"{', '.join(COMPRESSIONS[:-1])} or {COMPRESSIONS[-1]}"


def read_rows(dataset: Dataset) -> Iterator[RawRow]:
    """Yield the rows of all files of ``dataset``, file after file in the order of :func:`data_files`."""
    splits, forms = published_splits(dataset), _forms(dataset)
    for name, path in data_files(dataset):
        form = forms.get(name, dataset)
        yield from read_file(path, form.encoding, RowMaker(name, layout_of(form), splits.get(name)))


def data_files(dataset: Dataset) -> list[tuple[str, Path]]:
    """Return name and path of each file, in the order of ``dataset.files``, sorted within a pattern.

    Files that only ``dataset.splits`` names follow, training first. Where neither names any, the folder is
    read format by format. Layouts of posts have folders in place of files.

    Raises:
        InputError: the source or a file is missing, a pattern matches nothing, or a type is not known.
    """
    source, layout, forms = Path(dataset.source), LAYOUTS[dataset.layout], _forms(dataset)
    if not source.exists():
        others = [other.name for other in source.parent.iterdir()] if source.parent.is_dir() else []
        raise InputError(f"{source}: no such file or folder. Correct the data set's `source` in the params"
                         f"{f'; {nearest(source.name, others)}' if others else '.'}")
    if source.is_file():
        if layout.reader == "posts":
            raise InputError(f"{source}: layout {layout.name} reads folders. Unpack the archive, and name the folder "
                             f"that it makes as `source`.")
        if dataset.files:
            raise InputError(f"{source} is a file, so `files` must be empty; or name its folder as `source`.")
        found = {source.name: source}
    else:
        found = _named_files(source, layout, dataset) or _all_files(source, layout)
    for name, path in found.items():
        _check_file(path, LAYOUTS[forms.get(name, dataset).layout], source)
    return list(found.items())


def published_splits(dataset: Dataset) -> dict[str, str]:
    """Return the split of each file that ``dataset.splits`` names, or the layout where the params name no files."""
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


def _forms(dataset: Dataset) -> dict[str, Any]:
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


def _named_files(folder: Path, layout: Layout, dataset: Dataset) -> dict[str, Path]:
    """Return the files that the params name, or the layout if they name none.

    Where they name those of published splits alone, and none of training, all others are of training.
    """
    splits, found = _named_splits(dataset), dict[str, Path]()
    in_splits = [pattern for split in ("train", "validation", "test") for pattern in splits.get(split, [])]
    for pattern in [*map(_pattern, dataset.files), *in_splits]:
        names = _matching(folder, pattern, layout)
        if not names:
            raise _missing(folder, pattern)
        if not dataset.files and not dataset.splits and layout.reader != "posts" and len(names) > 1:
            raise InputError(f"{folder}: holds {' and '.join(names)}. Say which is meant, in the data set's `splits`.")
        found |= {name: folder / name for name in names}
    if dataset.splits and not dataset.files and "train" not in splits:
        if layout.reader == "posts":
            raise InputError(f"{folder}: `splits` names {', '.join(splits)} alone. Name the folders of training too.")
        others = _all_files(folder, layout, leave_out=found)
        if not others:
            raise InputError(f"{folder}: `splits` names {', '.join(found)}, and there is no other "
                             f"{', '.join(layout.forms)} file for training. Name its file under splits.train, or put "
                             f"it there.")
        found = others | found
    return found


def _all_files(folder: Path, layout: Layout, leave_out: Collection[str] = ()) -> dict[str, Path]:
    """Return the files of ``folder`` that ``layout`` reads, where nobody names any, but those to ``leave_out``."""
    if layout.reader == "posts":
        return {group.relative_to(folder).as_posix(): group for group in _groups(folder)}
    names = [name for form in layout.forms for packed in ("", *COMPRESSIONS)
             for name in _matching(folder, f"*{form}{packed}") if name not in leave_out]
    if not names and not leave_out:
        raise InputError(f"{folder}: holds no {', '.join(layout.forms)} file, nor one of them as {_PACKED}.")
    for name in names:
        copies = [name, *(f"{name}{packed}" for packed in COMPRESSIONS if f"{name}{packed}" in names)]
        if len(copies) > 1:
            raise InputError(f"{folder}: holds {' and '.join(copies)}. Say which is meant, in the data set's `files`.")
    if layout.reader == "index" and len(names) > 1:
        raise InputError(f"{folder}: holds the indices {', '.join(names)}. Name the one that is meant in the data "
                         f"set's `files`.")
    return {name: folder / name for name in names}


def _named_splits(dataset: Dataset) -> dict[str, list[str]]:
    """Return names and patterns of the published splits: the params', or those of the layout."""
    source, layout = Path(dataset.source), LAYOUTS[dataset.layout]
    if dataset.files or dataset.splits or source.is_file():
        return {str(split): [_pattern(entry) for entry in entries] for split, entries in dataset.splits.items()}
    if layout.reader == "posts" and not any((source / name).exists() for name in layout.splits.values()):
        return {}  # other editions, which have no split
    return {split: [pattern] for split, pattern in layout.splits.items()}


def _matching(folder: Path, pattern: str, layout: Layout | None = None) -> list[str]:
    """Return the sorted names of the files of ``folder`` that ``pattern`` names or matches, or of its groups."""
    if Path(pattern).is_absolute():
        raise InputError(f"files: {pattern!r} must be a name or pattern inside {folder}.")
    if layout is not None and layout.reader == "posts":
        found = [group for path in sorted(folder.glob(pattern)) if path.is_dir() for group in _groups(path)]
    elif (folder / pattern).is_file():
        found = [folder / pattern]
    else:
        found = [path for path in sorted(folder.glob(pattern)) if path.is_file()]
    return [path.relative_to(folder).as_posix() for path in found]


def _groups(folder: Path) -> list[Path]:
    """Return the folders of newsgroups that ``folder`` stands for: itself, if it holds posts, else those inside."""
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if not inside:
        raise InputError(f"{folder}: the folder is empty. Fetch it again, or name another one.")
    return [folder] if any(path.is_file() for path in inside) else inside


def _missing(folder: Path, pattern: str, place: str = "") -> InputError:
    names = [path.name for path in folder.iterdir()]
    return InputError(f"{place}{folder / pattern}: no such file; {nearest(pattern, names)}")
