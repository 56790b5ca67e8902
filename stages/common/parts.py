"""Where the rows of a table lie: in one file, or in a folder of parts.

A table that outgrows ``artifacts.part_rows`` becomes a folder of its name, which pandas, pyarrow, DuckDB and DVC read
as they read a file:

    tokens.parquet/part-00000.parquet, part-00001.parquet, ..., _table.json

Parts have one order; how rows fall into parts depends on params and rows, never on who writes them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from keycontrast.errors import InputError

LIST = "_table.json"
_FORM = "keycontrast-table"


@dataclass(frozen=True)
class Layout:
    """Block ``artifacts`` of the params: how tables are kept that grow with the corpus.

    Attributes:
        part_rows: rows after which a table goes on in another part; None leaves the cuts to who writes it.
    """

    part_rows: int | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "Layout":
        """Return the layout that all ``params`` of a stage ask for."""
        return cls(**params["artifacts"])


@dataclass(frozen=True)
class Part:
    """One Parquet file of a table.

    Attributes:
        place: path.
        rows: in it.
        bytes: its size.
        sha256: of its bytes; empty where nobody has asked.
    """

    place: str
    rows: int
    bytes: int
    sha256: str = ""

    @contextmanager
    def opened(self) -> Iterator[pq.ParquetFile]:
        """Yield the file, whose checksums are compared as it is read."""
        # Buffered ahead, what was read of a file would be kept until its end.
        with pq.ParquetFile(self.place, page_checksum_verification=True, pre_buffer=False) as file:
            yield file

    def batches(self, columns: list[str] | None, rows: int) -> Iterator[pa.Table]:
        """Yield its rows in pieces of at most ``rows``."""
        with self.opened() as file:
            for batch in file.iter_batches(batch_size=rows, columns=columns):
                yield pa.Table.from_batches([batch])


@dataclass(frozen=True)
class Listed:
    """The list of a table's parts.

    Attributes:
        parts: in order.
        metadata: of the table, as a single file keeps them in its footer.
    """

    parts: tuple[Part, ...]
    metadata: dict[bytes, bytes]

    def as_json(self) -> str:
        """Return the list as text, with a digest of what it says."""
        content = {"form": _FORM, "url": None,
                   "metadata": {key.decode(): value.decode() for key, value in sorted(self.metadata.items())},
                   "parts": [{"file": part.place.rpartition("/")[2], "rows": part.rows, "bytes": part.bytes,
                              "sha256": part.sha256} for part in self.parts]}
        return json.dumps({**content, "digest": _digest(content)}, indent=1, ensure_ascii=False) + "\n"


def listed(path: Path) -> Listed | None:
    """Return the list of the parts of table ``path``; None if it is a single file, or is not there.

    Raises:
        InputError: a folder without list, or a list that is damaged.
    """
    if not path.is_dir():
        return None
    file = path / LIST
    if not file.exists():
        raise InputError(f"{path}: a folder without {LIST}, hence no table of ours. Remove it and run its stage again.")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.pop("digest") != _digest(content) or content["form"] != _FORM:
            raise ValueError("its digest is another")
        parts = tuple(Part(f"{path.as_posix()}/{row['file']}", row["rows"], row["bytes"], row["sha256"])
                      for row in content["parts"])
        return Listed(parts, {key.encode(): value.encode() for key, value in content["metadata"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: not a readable list of a table's parts, or damaged since it was written ({error}). "
                         f"Remove {path} and run its stage again.") from error


def parts_of(path: Path) -> tuple[Part, ...]:
    """Return the parts of table ``path``, in order: of a single file, that file.

    Raises:
        InputError: the list of its parts is damaged.
    """
    found = listed(path)
    if found is not None:
        return found.parts
    return (Part(str(path), pq.read_metadata(path).num_rows, path.stat().st_size),)


def is_folder_of_parts(path: Path) -> bool:
    """Whether ``path`` is a table as a folder."""
    return (path / LIST).is_file()


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
