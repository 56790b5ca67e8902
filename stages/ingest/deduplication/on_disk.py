"""Distinct texts in an Arrow file, looked up by number without holding them in memory."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa


class TextFile:
    """Texts by number.

    Args:
        path: of the file, which is written.
        texts: batches of one column, the texts in the order of their numbers.
    """

    def __init__(self, path: Path, texts: pa.RecordBatchReader) -> None:
        self._path = path
        with pa.ipc.new_file(path, texts.schema) as writer:
            for batch in texts:
                writer.write_batch(batch)

    @cached_property
    def _texts(self) -> pa.ChunkedArray:
        return pa.ipc.open_file(pa.memory_map(str(self._path))).read_all().column(0)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: int) -> str:
        text: str = self._texts[number].as_py()
        return text

    def batches(self, wanted: np.ndarray, size: int) -> Iterator[list[str]]:
        """Yield the texts at the rising numbers where ``wanted`` (n_texts,) is true, at most ``size`` at a time."""
        for start in range(0, len(self), size):
            piece = slice(start, start + size)
            if wanted[piece].any():
                yield self._texts[piece].filter(pa.array(wanted[piece])).to_pylist()

    def close(self) -> None:
        """Unmap the file; a later look-up maps it again."""
        self.__dict__.pop("_texts", None)
