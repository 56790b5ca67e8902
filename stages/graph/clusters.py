"""Group the training examples by the keyword of their input.

Reads examples and keywords of a data set; writes clusters.parquet. The join keeps to runtime.memory_gib and goes to
disk beyond that; rows are written as they come.
"""

import sys
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import ROW_GROUP, Provenance, table_writer
from stages.graph.joins import DEFAULT_LIMITS, TRIPLES, JoinLimits, Rows, joining
from stages.graph.schemas.clusters import CLUSTERS
from stages.runtime.errors import InputError
from stages.runtime.process import StageProcess, run_stage

_LOST = """
    SELECT example_id, text_id FROM (
        SELECT example_id, unnest([source_id, target_id, negative_id]) AS text_id FROM examples WHERE split = 'train')
    ANTI JOIN keywords USING (text_id) WHERE text_id IS NOT NULL ORDER BY example_id, text_id LIMIT 1"""


def run(examples: Rows, keywords: Rows, limits: JoinLimits = DEFAULT_LIMITS) -> Iterator[pa.Table]:
    """Yield table ``clusters`` (HCL 3.1) in its order, in pieces of a fixed number of rows.

    There is one row per training example whose input has a keyword.

    Args:
        examples: table ``examples``, or its file.
        keywords: table ``keywords``, or its file.
        limits: memory of the join, which never decides a row.

    Raises:
        InputError: a text of the training examples has no keyword row.
    """
    with joining({"examples": examples, "keywords": keywords}, limits) as connection:
        for example, text in connection.sql(_LOST).fetchall():
            raise InputError(f"keywords.parquet: no keyword for text {text} of example {example}. The tables are out "
                             f"of step: run `keycontrast run`, or the stage keywords and those after it, again.")
        members = TRIPLES.format(condition="<>")
        yield from _pieces(connection.sql(f"{members} ORDER BY x.keyword, e.example_id"))


def _pieces(result: duckdb.DuckDBPyRelation) -> Iterator[pa.Table]:
    """Yield the rows of a result in tables of ``ROW_GROUP`` rows, whatever the sizes in which they come."""
    waiting: list[pa.RecordBatch] = []
    for batch in result.to_arrow_reader(ROW_GROUP):
        waiting.append(batch)
        if sum(map(len, waiting)) >= ROW_GROUP:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, ROW_GROUP)
            waiting = table.slice(ROW_GROUP).to_batches()
    if any(map(len, waiting)):
        yield pa.Table.from_batches(waiting)


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    provenance = Provenance(process.name, process.params_hash, counts={"clusters": 0})
    rows = run(paths.table("examples"), paths.table("keywords"),
               JoinLimits(params.runtime.memory_gib, process.scratch / "joins"))
    last = None
    with table_writer(paths.table("clusters"), CLUSTERS, provenance) as writer:
        for table in rows:
            writer.write(table)
            heads = table["keyword"].unique().to_pylist()
            provenance.counts["clusters"] += len(heads) - (heads[0] == last)
            last = heads[-1]


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named on the command line."""
    return run_stage("clusters", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
