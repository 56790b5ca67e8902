"""Finished chunks in a stage's scratch folder, so that a stage that was killed goes on where it was.

    store = ChunkStore(process.scratch, hash_values({"params": ..., "model": ..., "code": ...}))
    tables = map_chunks(make, arguments, chunks, workers, "annotate", store=store)
    ...                      # write the artifact
    store.clear()
"""

import hashlib
import shutil
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from stages.run.log import logger

# Written once and read at most once: speed before size.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Store(Protocol):
    """What keeps results by their chunk until the caller has done with all of them."""

    def find(self, chunk: Any) -> Path | None:
        """Return the file that holds the result of ``chunk``; None if it has none yet."""

    def read(self, path: Path) -> Any:
        """Return the result in ``path``."""

    def keep(self, chunk: Any, result: Any) -> None:
        """Write the result of ``chunk``, whole or not at all."""


class ChunkStore:
    """Results by the content of their chunk, valid only for ``key`` (a hash of params, models and code).

    Results kept under another key come from other work and are removed.

    Attributes:
        folder: where the files lie, below the scratch folder.
    """

    def __init__(self, scratch: Path, key: str) -> None:
        self._root = scratch / "chunks"
        self.folder = self._root / key
        if self._root.exists():
            for other in sorted(self._root.iterdir()):
                if other.name != key:
                    shutil.rmtree(other)

    def find(self, chunk: pa.Table) -> Path | None:
        """Return the file that holds the result of ``chunk``; None if it has none yet.

        A file that was not written to its end, as after a loss of power, is removed.
        """
        path = self._path(chunk)
        if not path.exists():
            return None
        try:
            with pa.OSFile(str(path)) as source:
                pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            logger("chunks").warning("%s was not written to its end; its chunk is worked on again", path)
            path.unlink()
            return None
        return path

    def read(self, path: Path) -> pa.Table:
        """Return the result in ``path``."""
        with pa.OSFile(str(path)) as source:
            return pa.ipc.open_file(source).read_all()

    def keep(self, chunk: pa.Table, result: pa.Table) -> None:
        """Write the result of ``chunk``, whole or not at all."""
        path = self._path(chunk)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, result.schema, options=_OPTIONS) as file:
            file.write_table(result)
        temporary.replace(path)

    def clear(self) -> None:
        """Forget all results, once the artifact stands."""
        shutil.rmtree(self._root, ignore_errors=True)

    def _path(self, chunk: pa.Table) -> Path:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, chunk.schema) as stream:
            stream.write_table(chunk)
        return self.folder / f"{hashlib.sha256(sink.getvalue()).hexdigest()}.arrow"
