"""Which files a data set has, in which order, and which of them are a published split."""

from collections import Counter
from pathlib import Path

from stages.params.data import Dataset
from stages.runtime.errors import InputError, nearest

# The order in which the files of a folder are read if `files` names none.
FORMATS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
_COMPRESSIONS = ("", ".gz", ".zst")
_DOCUMENT, _LINES = ".json", ".txt"
# Layouts whose files come in this form alone; those of others never do.
_BY_LINES = ("douban_dialogue", "groupwise_dialogue")


def data_files(dataset: Dataset) -> list[tuple[str, Path]]:
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
    if source.is_file():
        if dataset.files:
            raise InputError(f"{source} is a file, so `files` must be empty; or name its folder as `source`.")
        found = [(source.name, source)]
    else:
        found = _inside(source, dataset)
    for _, path in found:
        _check_file(path, dataset)
    return found


def published_splits(dataset: Dataset) -> dict[str, str]:
    """Return the split of each file that ``dataset.splits`` names.

    Raises:
        InputError: a pattern matches nothing, or a file would be of two splits.
    """
    source = Path(dataset.source)
    folder, only = (source.parent, source.name) if source.is_file() else (source, None)
    splits: dict[str, str] = {}
    for split, patterns in dataset.splits.items():
        for pattern in patterns:
            names = [name for name in _matching(folder, pattern) if only in (None, name)]
            if not names:
                raise _missing(folder, pattern, f"splits.{split}: ")
            for name in names:
                if splits.setdefault(name, split) != split:
                    raise InputError(f"{folder / name}: is named under splits.{splits[name]} and under "
                                     f"splits.{split}. Leave it under one of them.")
    return splits


def file_format(path: Path) -> str:
    """Return the ending that says how a file is laid out, without that of its compression."""
    return Path(path.stem if path.suffix.lower() in _COMPRESSIONS else path.name).suffix.lower()


def _check_file(path: Path, dataset: Dataset) -> None:
    form = file_format(path)
    if dataset.layout in _BY_LINES and form != _LINES:
        raise InputError(f"{path}: files of layout {dataset.layout} are text files with one dialogue per line, named "
                         f".txt. Correct `files` or the data set's `layout`, which is dialogue for tables.")
    if dataset.layout not in _BY_LINES and form not in FORMATS:
        raise InputError(f"{path}: files of type {form!r} cannot be read, only those named below, each also as .gz "
                         f"or .zst; {nearest(form, FORMATS)}")
    if form == _DOCUMENT and dataset.layout != "mscoco_captions":
        raise InputError(f"{path}: one JSON document is read only in layout mscoco_captions. Write one object per "
                         f"line, and name the file .jsonl.")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty. Remove it from `files`, or fetch it again.")


def _inside(folder: Path, dataset: Dataset) -> list[tuple[str, Path]]:
    named = dataset.files + [pattern for split in ("train", "validation", "test")
                             for pattern in dataset.splits.get(split, [])]  # type: ignore[call-overload]
    found: dict[str, Path] = {}
    for pattern in named or _patterns(dataset):
        names = _matching(folder, pattern)
        if not names and named:
            raise _missing(folder, pattern)
        found |= {name: folder / name for name in names}
    if not found:
        raise InputError(f"{folder}: holds no {', '.join(_forms(dataset))} file, nor one of them as .gz or .zst.")
    if not named:
        _refuse_copies(found)
    return list(found.items())


def _patterns(dataset: Dataset) -> list[str]:
    return [f"*{form}{packed}" for form in _forms(dataset) for packed in _COMPRESSIONS]


def _forms(dataset: Dataset) -> list[str]:
    if dataset.layout in _BY_LINES:
        return [_LINES]
    return [form for form in FORMATS if form != _DOCUMENT or dataset.layout == "mscoco_captions"]


def _matching(folder: Path, pattern: str) -> list[str]:
    """Return the sorted names of the files of ``folder`` that ``pattern`` names or matches."""
    if Path(pattern).is_absolute():
        raise InputError(f"files: {pattern!r} must be a name or pattern inside {folder}.")
    if (folder / pattern).is_file():
        return [(folder / pattern).relative_to(folder).as_posix()]
    return [path.relative_to(folder).as_posix() for path in sorted(folder.glob(pattern)) if path.is_file()]


def _refuse_copies(found: dict[str, Path]) -> None:
    """Refuse a file beside its own archive, if nobody said that both are meant."""
    plain = {name: name.removesuffix(".gz").removesuffix(".zst") for name in found}
    copies = [name for name, count in Counter(plain.values()).items() if count > 1]
    if copies:
        names = " and ".join(name for name in found if plain[name] == copies[0])
        raise InputError(f"{found[next(n for n in found if plain[n] == copies[0])].parent}: holds {names}. Say which "
                         f"is meant, in the data set's `files`.")


def _missing(folder: Path, pattern: str, place: str = "") -> InputError:
    names = [path.name for path in folder.iterdir() if path.is_file()]
    return InputError(f"{place}{folder / pattern}: no such file; {nearest(pattern, names)}")


def _similar(path: Path) -> str:
    if not path.parent.is_dir():
        return "."
    return f"; {nearest(path.name, [other.name for other in path.parent.iterdir()])}"
