"""What is done to a table piece by piece, part by part: a part of the new table for every part of the old one.

Pieces are worked on in this process, in others or on a cluster, and pass through this process, which writes.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages.common.chunk_store import ChunkStore
from stages.common.parts import parts_of
from stages.common.schemas import TableSchema
from stages.common.tables import readable
from stages.common.writing import TableWriter
from stages.run.cluster_map import Cluster
from stages.run.pool import Make, map_chunks


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


def write_by_parts(source: Path, work: PartWork, writer: TableWriter, force: Workforce, what: str,
                   report: Callable[[Any], Any] = lambda one: None, unit: str = "text") -> None:
    """Write the new table of the table at ``source``.

    Args:
        source: table that is worked on.
        work: what is done.
        writer: of the new table; it leaves the cuts between parts to this function.
        force: who does it.
        what: name shown by the bar.
        report: takes the report of each piece, in order.
        unit: name of a row, for the bar.
    """
    with readable(source):
        parts = parts_of(source)
    total = sum(part.rows for part in parts)
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


def _tables(results: Iterable[Any], report: Callable[[Any], Any]) -> Iterator[pa.Table]:
    for result in results:
        if isinstance(result, pa.Table):
            yield result
        else:
            report(result.report)
            yield result.table
