"""What is done to a table piece by piece, part by part: a part of the new table for every part of the old one.

Pieces are worked on in this process, in others or on a cluster, and pass through this process, which writes. Where
several parts are kept elsewhere (``artifacts.url``) and there are others to work, each takes a whole part: it reads it
there, writes its part there, and tells only rows, hash and counts. The bytes are the same.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages.common.chunk_store import ChunkStore
from stages.common.parts import Part, parts_of
from stages.common.schemas import TableSchema
from stages.common.storage import is_url
from stages.common.tables import atomic_file, readable
from stages.common.writing import TableWriter, write_part
from stages.run.cluster_map import Cluster, maker_name
from stages.run.pool import Make, map_chunks

# Rows that this process reads before others would have begun.
_FEW = 1 << 17


@dataclass(frozen=True)
class PartWork:
    """What is done to each part of a table.

    Attributes:
        make: makes the function that works on a piece; a function of a module, as in :func:`map_chunks`. Its results
            are tables, or have a ``table`` and a ``report``.
        arguments: of ``make``.
        columns: read of each part.
        batch: rows read at a time.
        cut: makes pieces of what is read, by its content alone.
        gather: makes what is written at a time of the pieces' tables, likewise.
        schema: of the new table.
    """

    make: Make[Any, Any]
    arguments: tuple[Any, ...]
    columns: list[str]
    batch: int
    cut: Callable[[Iterable[pa.Table]], Iterator[pa.Table]]
    gather: Callable[[Iterable[pa.Table]], Iterable[pa.Table]]
    schema: TableSchema


@dataclass(frozen=True)
class Workforce:
    """Who works: so many processes, or a cluster; and where finished pieces are kept until the table stands."""

    workers: int = 1
    cluster: Cluster | None = None
    store: ChunkStore | None = None

    @property
    def several(self) -> bool:
        """Whether anybody else than this process works."""
        return self.workers > 1 or self.cluster is not None


def write_by_parts(source: Path, work: PartWork, writer: TableWriter, force: Workforce, what: str,
                   report: Callable[[Any], Any] = lambda one: None, unit: str = "text") -> None:
    """Write the new table of the table at ``source``.

    Args:
        source: table that is worked on.
        work: what is done.
        writer: of the new table; its layout leaves the cuts between parts to this function.
        force: who does it.
        what: name shown by the bar.
        report: takes the report of each piece, in order.
        unit: name of a row, for the bar.
    """
    with readable(source):
        parts = parts_of(source)
    total = sum(part.rows for part in parts)
    if force.several and len(parts) > 1 and all(is_url(part.place) for part in parts) and writer.url is not None:
        found = map_chunks(_part_maker, (_Named.of(work), writer.url), parts, force.workers, what,
                           cluster=force.cluster, store=PartStore(force.store.folder) if force.store else None,
                           total=total, unit=unit, measure=lambda one: one.rows)
        for part, reports in found:
            writer.take(part)
            for one in reports:
                report(one)
        return
    drawn: deque[int] = deque()

    def pieces() -> Iterator[pa.Table]:
        for number, part in enumerate(parts):
            with readable(Path(part.place)):
                for piece in work.cut(part.batches(work.columns, work.batch)):
                    drawn.append(number)
                    yield piece

    results = map_chunks(work.make, work.arguments, pieces(), force.workers, what, cluster=force.cluster,
                       store=force.store, total=total, unit=unit, measure=lambda piece: piece.num_rows)
    for _, group in groupby(results, lambda result: drawn.popleft()):
        writer.next_part()
        for table in work.gather(_tables(group, report)):
            writer.write(table)


@dataclass(frozen=True)
class _Named:
    """A work whose maker goes by its name: what runs as ``python -m`` is called otherwise in other processes."""

    maker: str
    work: PartWork

    @classmethod
    def of(cls, work: PartWork) -> "_Named":
        return cls(maker_name(work.make), PartWork(_nothing, work.arguments, work.columns, work.batch, work.cut,
                                                   work.gather, work.schema))


def _nothing() -> Callable[[Any], Any]:
    raise NotImplementedError("stands where a maker goes by its name")


def _part_maker(named: _Named, url: str) -> Callable[[Part], tuple[Part, list[Any]]]:
    """Return what works on a whole part, and keeps the new one at ``url``."""
    module, _, name = named.maker.partition(":")
    function, work = getattr(import_module(module), name)(*named.work.arguments), named.work

    def one(part: Part) -> tuple[Part, list[Any]]:
        reports: list[Any] = []
        with readable(Path(part.place)):
            tables = work.gather(_tables(map(function, work.cut(part.batches(work.columns, work.batch))),
                                         reports.append))
            return write_part(tables, work.schema, url), reports

    return one


class PartStore:
    """Which parts are finished, in a stage's scratch folder, so that it goes on where it was; for ``map_chunks``.

    What has reports is not kept: it is worked on anew.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, part: Part) -> Path | None:
        """Return the file that names the new part of ``part``; None if it has none yet."""
        path = self._path(part)
        return path if path.exists() else None

    def read(self, path: Path) -> tuple[Part, list[Any]]:
        """Return what ``path`` names."""
        fields = json.loads(path.read_text(encoding="utf-8"))
        ends = fields.pop("ends")
        return Part(**fields, ends=tuple(map(tuple, ends)) if ends else None), []  # type: ignore[arg-type]

    def keep(self, part: Part, made: tuple[Part, list[Any]]) -> None:
        """Note the new part of ``part``."""
        if not made[1]:
            with atomic_file(self._path(part)) as temporary:
                temporary.write_text(json.dumps(asdict(made[0])), encoding="utf-8")

    def _path(self, part: Part) -> Path:
        return self._folder / f"{part.sha256}.json"


def _tables(results: Iterable[Any], report: Callable[[Any], Any]) -> Iterator[pa.Table]:
    for result in results:
        if isinstance(result, pa.Table):
            yield result
        else:
            report(result.report)
            yield result.table


def each_part(source: Path, make: Make[Part, Any], arguments: tuple[Any, ...], force: Workforce,
              what: str) -> Iterator[Any]:
    """Yield what ``make(*arguments)`` returns for each part of the table at ``source``, in order.

    Parts that lie here are worked on here or by processes of this machine, those elsewhere by the cluster too.
    """
    with readable(source):
        parts = parts_of(source)
    total = sum(part.rows for part in parts)
    if total < _FEW:
        yield from map(make(*arguments), parts)
        return
    reachable = all(is_url(part.place) for part in parts)
    yield from map_chunks(make, arguments, parts, force.workers, what, cluster=force.cluster if reachable else None,
                          total=total, unit="text", measure=lambda one: one.rows)
