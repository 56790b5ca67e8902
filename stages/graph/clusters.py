"""Group the training examples by the keyword of their input.

Reads examples and keywords of a data set; writes clusters.parquet. The join keeps to runtime.memory_gib and goes to
disk beyond that; rows are written as they come.
"""

import sys
from collections.abc import Iterator

import pyarrow as pa

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import Provenance, table_writer
from stages.graph.joins import DEFAULT_LIMITS, JoinLimits, Rows, cluster_rows
from stages.graph.schemas.clusters import CLUSTERS
from stages.runtime.process import StageProcess, run_stage


def run(examples: Rows, keywords: Rows, limits: JoinLimits = DEFAULT_LIMITS) -> Iterator[pa.Table]:
    """Yield table ``clusters`` (HCL 3.1) in pieces: one row per training example whose input has a keyword.

    Args:
        examples: table ``examples``, or its file.
        keywords: table ``keywords``, or its file.
        limits: memory of the join, which never decides a row.

    Raises:
        InputError: a text of the training examples has no keyword row.
    """
    return cluster_rows(examples, keywords, limits)


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
