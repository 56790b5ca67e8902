"""Which files a data set has, in which order, and which of them are a published split."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from stages.data.reading.newsgroups import group_folders
from stages.data.reading.text import COMPRESSIONS
from stages.runtime.errors import InputError, nearest

if TYPE_CHECKING:
    from stages.params.data import Dataset

# The order in which the files of a folder are read if `files` names none.
FORMATS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
_DOCUMENT = ".json"
_PACKED = f"{', '.join(COMPRESSIONS[:-1])} or {COMPRESSIONS[-1]}"
_LINES = "text files with one dialogue per line, named .txt", "dialogue"
# Layouts whose files come in these forms alone, what these are, and the layout of tables of the same.
_PUBLISHED: dict[str, tuple[tuple[str, ...], str, str]] = {
    "douban_dialogue": ((".txt",), *_LINES), "groupwise_dialogue": ((".txt",), *_LINES),
    "trec": ((".label",), "text files named .label, such as train_5500.label and TREC_10.label", "labelled"),
    "all_terms": ((".txt",), "text files named .txt, such as r8-train-all-terms.txt", "labelled"),
    "rt_polarity": ((".pos", ".neg"), "text files named .pos and .neg, such as rt-polarity.pos", "labelled"),
    "text_gcn": ((".txt",), "indices named .txt, such as mr.txt, beside the folder corpus", "labelled"),
}
# The splits of the files as they are published, for data sets that name neither `files` nor `splits`.
_SPLITS: dict[str, dict[str, str]] = {
    "newsgroups": {"train": "20news-bydate-train", "test": "20news-bydate-test"},
    "trec": {"train": "train_5500.label*", "test": "TREC_10.label*"},
    "all_terms": {"train": "*train-all-terms.txt*", "test": "*test-all-terms.txt*"}}


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
    if dataset.layout == "newsgroups":
        return _group_folders(dataset)
    if source.is_file():
        if dataset.files:
            raise InputError(f"{source} is a file, so `files` must be empty; or name its folder as `source`.")
        found = [(source.name, source)]
    else:
        found = _inside(source, dataset)
    for _, path in found:
        _check_file(path, dataset)
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
            names = [name for name in _matching(folder, pattern, dataset.layout) if only in (None, name)]
            if not names:
                raise _missing(folder, pattern, f"splits.{split}: ")
            for name in names:
                if splits.setdefault(name, split) != split:
                    raise InputError(f"{folder / name}: is named under splits.{splits[name]} and under "
                                     f"splits.{split}. Leave it under one of them.")
    return splits


def file_format(path: Path) -> str:
    """Return the ending that says how a file is laid out, without that of its compression."""
    return Path(path.stem if path.suffix.lower() in COMPRESSIONS else path.name).suffix.lower()


def _check_file(path: Path, dataset: "Dataset") -> None:
    form = file_format(path)
    forms, what, tables = _PUBLISHED.get(dataset.layout, (FORMATS, "", ""))
    if form not in forms and what:
        raise InputError(f"{path}: files of layout {dataset.layout} are {what}. Correct `files` or the data set's "
                         f"`layout`, which is {tables} for tables.")
    if form not in forms:
        raise InputError(f"{path}: files of type {form!r} cannot be read, only those named below, each also as "
                         f"{_PACKED}; {nearest(form, FORMATS)}")
    if form == _DOCUMENT and dataset.layout != "mscoco_captions":
        raise InputError(f"{path}: one JSON document is read only in layout mscoco_captions. Write one object per "
                         f"line, and name the file .jsonl.")
    if dataset.layout == "text_gcn" and path == Path(dataset.source):
        raise InputError(f"{path}: layout text_gcn reads an index and its corpus, so `source` must be the folder that "
                         f"holds both; name the index in `files`.")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty. Remove it from `files`, or fetch it again.")


def _inside(folder: Path, dataset: "Dataset") -> list[tuple[str, Path]]:
    named = _named(dataset)
    found: dict[str, Path] = {}
    for pattern in named or _patterns(dataset):
        names = _matching(folder, pattern)
        if not names and named:
            raise _missing(folder, pattern)
        if dataset.layout in _SPLITS and not dataset.files + list(dataset.splits) and len(names) > 1:
            raise InputError(f"{folder}: holds {' and '.join(names)}. Say which is meant, in the data set's `splits`.")
        found |= {name: folder / name for name in names}
    if not found:
        raise InputError(f"{folder}: holds no {', '.join(_forms(dataset))} file, nor one of them as {_PACKED}.")
    if not named:
        _refuse_copies(found)
    if dataset.layout == "text_gcn" and len(found) > 1 and not named:
        raise InputError(f"{folder}: holds the indices {', '.join(found)}. Name the one that is meant in the data "
                         f"set's `files`.")
    return list(found.items())


def _patterns(dataset: "Dataset") -> list[str]:
    return [f"*{form}{packed}" for form in _forms(dataset) for packed in ("", *COMPRESSIONS)]


def _forms(dataset: "Dataset") -> list[str]:
    if dataset.layout in _PUBLISHED:
        return list(_PUBLISHED[dataset.layout][0])
    return [form for form in FORMATS if form != _DOCUMENT or dataset.layout == "mscoco_captions"]


def _named(dataset: "Dataset") -> list[str]:
    """Return the names and patterns that the params give, or the layout if they give none."""
    splits = _named_splits(dataset)
    return dataset.files + [pattern for split in ("train", "validation", "test") for pattern in splits.get(split, [])]


def _named_splits(dataset: "Dataset") -> dict[str, list[str]]:
    """Return names and patterns of the published splits: the params', or those of the layout."""
    if dataset.files or dataset.splits or Path(dataset.source).is_file():
        return {str(split): patterns for split, patterns in dataset.splits.items()}
    published = _SPLITS.get(dataset.layout, {})
    source = Path(dataset.source)
    if dataset.layout == "newsgroups" and not any((source / name).exists() for name in published.values()):
        return {}  # other editions, which have no split
    return {split: [pattern] for split, pattern in published.items()}


def _group_folders(dataset: "Dataset") -> list[tuple[str, Path]]:
    """Return name and path of the folders of 20 Newsgroups that hold posts, those of training first."""
    source = Path(dataset.source)
    if source.is_file():
        raise InputError(f"{source}: layout newsgroups reads folders. Unpack the archive, and name the folder that it "
                         f"makes as `source`.")
    found: dict[str, Path] = {}
    for pattern in _named(dataset):
        names = _matching(source, pattern, dataset.layout)
        if not names:
            raise _missing(source, pattern)
        found |= {name: source / name for name in names}
    if not found:
        found = {folder.relative_to(source).as_posix(): folder for folder in group_folders(source)}
    return list(found.items())


def _matching(folder: Path, pattern: str, layout: str = "") -> list[str]:
    """Return the sorted names of the files of ``folder`` that ``pattern`` names or matches; of newsgroups, folders."""
    if Path(pattern).is_absolute():
        raise InputError(f"files: {pattern!r} must be a name or pattern inside {folder}.")
    if layout == "newsgroups":
        matched = [path for path in sorted(folder.glob(pattern)) if path.is_dir()]
        return [group.relative_to(folder).as_posix() for path in matched for group in group_folders(path)]
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
