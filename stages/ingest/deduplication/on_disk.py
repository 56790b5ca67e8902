"""Records and texts on disk, so that a corpus is sorted and joined in memory of a fixed size."""

import os
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

_BUCKETS = 64
_BLOCK = 2**18
_PIECE = 2**15


class RecordFile:
    """Records of one type in one file, added at its end and read from any place.

    Attributes:
        dtype: of a record.
    """

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self.dtype = dtype
        self._path = path
        path.touch()

    def __len__(self) -> int:
        return self._path.stat().st_size // self.dtype.itemsize

    def add(self, records: np.ndarray) -> None:
        """Write ``records`` behind the others."""
        with self._path.open("ab") as handle:
            handle.write(records.astype(self.dtype, copy=False).tobytes())

    def read(self, start: int, count: int) -> np.ndarray:
        """Return at most ``count`` records from the place ``start`` on."""
        return np.fromfile(self._path, self.dtype, count, offset=start * self.dtype.itemsize)

    def blocks(self, size: int = _PIECE) -> Iterator[np.ndarray]:
        """Yield all records in their order, ``size`` at a time."""
        for start in range(0, len(self), size):
            yield self.read(start, size)

    def remove(self) -> None:
        """Delete the file."""
        self._path.unlink()


class Buckets:
    """Records spread over files, so that those that belong together meet in one that fits into memory."""

    def __init__(self, folder: Path, dtype: np.dtype, count: int = _BUCKETS) -> None:
        folder.mkdir()
        self.count = count
        self._files = [RecordFile(folder / str(number), dtype) for number in range(count)]

    def add(self, bucket: np.ndarray, records: np.ndarray) -> None:
        """Write each record to its bucket, in the order given.

        Args:
            bucket: (n,) numbers below ``count``.
            records: (n,) records.
        """
        order = np.argsort(bucket, kind="stable")
        bounds = np.searchsorted(bucket[order], np.arange(self.count + 1))
        for file, (start, end) in zip(self._files, pairwise(bounds.tolist()), strict=True):
            if start < end:
                file.add(records[order[start:end]])

    def take(self) -> Iterator[np.ndarray]:
        """Yield the records of one bucket after another, and delete them."""
        for file in self._files:
            yield file.read(0, len(file))
            file.remove()


def in_order(folder: Path, records: Iterable[np.ndarray], dtype: np.dtype, total: int) -> RecordFile:
    """Write ``records`` in the order of their field ``place``, which names 0 to ``total`` - 1 once each.

    Args:
        folder: a new folder for what lies between; the result is a file beside it, named like it.
        records: arrays of records in any order.
        dtype: of a record.
        total: number of all records.
    """
    blocks = Buckets(folder, dtype, -(-total // _BLOCK))
    for part in records:
        blocks.add(part["place"] // _BLOCK, part)
    file = RecordFile(folder.with_suffix(".ordered"), dtype)
    for block in blocks.take():
        file.add(block[np.argsort(block["place"])])
    folder.rmdir()
    return file


SPAN = np.dtype([("start", "<i8"), ("end", "<i8")])


class TextFile:
    """Texts by number, on disk: one file of UTF-8, and one of where each text begins and ends in it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._spans = RecordFile(folder / "spans", SPAN)
        self._path, self._size = folder / "utf8", 0
        self._readers: tuple[int, int] | None = None
        self._path.touch()
        self._folder = folder

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, texts: list[bytes]) -> np.ndarray:
        """Write ``texts`` without giving them numbers, and return where each one lies."""
        ends = self._size + np.cumsum([len(text) for text in texts], dtype=np.int64)
        spans = np.empty(len(texts), SPAN)
        spans["end"], spans["start"][1:], spans["start"][:1] = ends, ends[:-1], self._size
        with self._path.open("ab") as handle:
            handle.write(b"".join(texts))
        self._size = int(ends[-1]) if len(texts) else self._size
        return spans

    def number(self, spans: np.ndarray) -> None:
        """Give the texts at ``spans`` the next numbers."""
        self._spans.add(spans)

    def __getitem__(self, number: int) -> str:
        if self._readers is None:
            self._readers = (os.open(self._folder / "spans", os.O_RDONLY), os.open(self._path, os.O_RDONLY))
        spans, texts = self._readers
        start, end = np.frombuffer(os.pread(spans, SPAN.itemsize, number * SPAN.itemsize), "<i8").tolist()
        return os.pread(texts, end - start, start).decode()

    def batches(self, wanted: np.ndarray, size: int) -> Iterator[list[str]]:
        """Yield the texts at the rising numbers where ``wanted`` (n_texts,) is true, ``size`` at a time."""
        chosen: list[str] = []
        with self._path.open("rb") as handle:
            for first in range(0, len(self), _PIECE):
                spans = self._spans.read(first, _PIECE)[wanted[first:first + _PIECE]]
                for start, end in zip(spans["start"].tolist(), spans["end"].tolist(), strict=True):
                    handle.seek(start)
                    chosen.append(handle.read(end - start).decode())
                    if len(chosen) == size:
                        yield chosen
                        chosen = []
        if chosen:
            yield chosen

    def close(self) -> None:
        """Close what looking up single texts has opened; a later look-up opens it again."""
        for reader in self._readers or ():
            os.close(reader)
        self._readers = None
