"""Rows of a data set's files, each with its place, broken ones included.

CSV, TSV, JSONL, Parquet, the captions of MSCOCO, dialogues and classified texts line by line, plain or packed, all
read as streams; and the folders of 20 Newsgroups.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stages.data.layouts.layout import layout_of, needed_columns
from stages.data.reading.classes import read_classes, read_indexed
from stages.data.reading.delimited import read_delimited
from stages.data.reading.dialogues import read_turns
from stages.data.reading.files import data_files, file_format, published_splits
from stages.data.reading.jsonl import read_jsonl
from stages.data.reading.mscoco import read_captions
from stages.data.reading.newsgroups import read_posts
from stages.data.reading.parquet import read_parquet
from stages.data.reading.rows import RawRow, RowMaker, is_unicode

if TYPE_CHECKING:
    from stages.params.data import Dataset

__all__ = ["RawRow", "data_files", "is_unicode", "needed_columns", "read_rows"]

# Layouts whose files are read in a way of their own, whatever they are called.
_BY_LAYOUT: dict[str, Callable[[Path, str, RowMaker], Iterator[RawRow]]] = {
    "douban_dialogue": read_turns, "groupwise_dialogue": read_turns, "trec": read_classes, "all_terms": read_classes,
    "rt_polarity": read_classes, "text_gcn": read_indexed, "newsgroups": read_posts}


def read_rows(dataset: "Dataset") -> Iterator[RawRow]:
    """Yield the rows of all files of ``dataset``, file after file in the order of ``data_files``.

    Raises:
        InputError: a file is missing, empty, damaged, unreadable as a whole or lacks a column.
    """
    layout, splits = layout_of(dataset), published_splits(dataset)
    for name, path in data_files(dataset):
        yield from _rows(path, dataset.encoding, RowMaker(name, layout, splits.get(name)))


def _rows(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    published = _BY_LAYOUT.get(maker.layout.name)
    if published is not None:
        return published(path, encoding, maker)
    form = file_format(path)
    if form == ".parquet":
        return read_parquet(path, maker)
    if form == ".json":
        return read_captions(path, encoding, maker)
    if form == ".jsonl":
        return read_jsonl(path, encoding, maker)
    return read_delimited(path, form, encoding, maker)
