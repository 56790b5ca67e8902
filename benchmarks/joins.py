"""The join behind the clusters: DuckDB on one machine beside Dask DataFrame on a cluster.

    python -m benchmarks.scale --texts 1000000 --folder corpora
    python -m benchmarks.joins corpora/1000000 --workers 2

Both read the same parts of ``examples`` and ``keywords`` and count the rows of every cluster. The cluster is of this
machine, so that both have the same processors; on N machines Dask can be at most N times as fast as it is here.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from benchmarks.harness import Disagreement
from benchmarks.scale import DATASET
from stages.common.parts import parts_of
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD
from stages.graph.joins import TRIPLES, JoinLimits, joining

_COUNTED = "SELECT keyword, count(*) AS rows, count(negative_keyword) AS negatives FROM ({}) GROUP BY keyword"


def in_duckdb(paths: DatasetPaths, threads: int, memory_gib: float) -> pd.DataFrame:
    """Return rows and negatives of each cluster, (keyword, rows, negatives), by the stage's own join."""
    with joining({name: paths.table(name) for name in ("examples", "keywords")},
                 JoinLimits(memory_gib, threads=threads)) as connection:
        return connection.sql(_COUNTED.format(TRIPLES.format(condition="<>"))).to_arrow_table().to_pandas()


def in_dask(paths: DatasetPaths) -> pd.DataFrame:
    """Return the same by Dask DataFrame, on the cluster that is in force."""
    import dask.dataframe as dd

    examples, keywords = (dd.read_parquet([part.place for part in parts_of(paths.table(name))], columns=columns)
                          for name, columns in (("examples", ["split", "source_id", "target_id", "negative_id"]),
                                                ("keywords", ["text_id", "keyword"])))
    train = examples[examples["split"] == "train"]
    heads = keywords[keywords["keyword"] != NO_KEYWORD].rename(columns={"text_id": "source_id"})
    outputs = keywords.rename(columns={"text_id": "target_id", "keyword": "output"})
    negatives = keywords.rename(columns={"text_id": "negative_id", "keyword": "negative"})
    joined = train.merge(heads, on="source_id").merge(outputs, on="target_id").merge(negatives, on="negative_id",
                                                                                    how="left")
    found = joined.groupby("keyword").agg({"output": "count", "negative": "count"}, split_out=4).compute()
    return found.reset_index().rename(columns={"output": "rows", "negative": "negatives"})


def main(argv: list[str] | None = None) -> int:
    """Time both on the corpora named in ``argv`` and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.joins", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+", help="that python -m benchmarks.scale --folder has left")
    parser.add_argument("--workers", type=int, default=2, help="threads of DuckDB, and processes of the cluster (2)")
    parser.add_argument("--memory-gib", type=float, default=1.0, help="of DuckDB, and of each process (1)")
    parser.add_argument("--json", type=Path, help="file to which rows are added, one per line")
    given = parser.parse_args(argv)
    target = given.json and given.json.absolute()
    rows, before = [], Path.cwd()
    for folder in given.folder:
        os.chdir(before / folder)
        rows.append(_compared(DatasetPaths(DATASET), given.workers, given.memory_gib))
        os.chdir(before)
        sys.stderr.write(json.dumps(rows[-1]) + "\n")
        if target:
            with target.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    sys.stdout.write(pd.DataFrame(rows).to_string(index=False) + "\n")
    return 0


def _compared(paths: DatasetPaths, workers: int, memory_gib: float) -> dict[str, float]:
    from distributed import Client, LocalCluster

    found, row = [], {}
    contenders: dict[str, Callable[[], pd.DataFrame]] = {
        "DuckDB, 1 thread": lambda: in_duckdb(paths, 1, memory_gib),
        f"DuckDB, {workers} threads": lambda: in_duckdb(paths, workers, memory_gib),
        f"Dask DataFrame, {workers} processes": lambda: in_dask(paths)}
    with (LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0",
                       memory_limit=f"{max(memory_gib, 2)}GiB") as cluster, Client(cluster)):
        for name, work in contenders.items():
            started = time.perf_counter()
            made = work()
            row[f"{name}, s"] = round(time.perf_counter() - started, 1)
            found.append(made.astype({"keyword": "object", "rows": "int64", "negatives": "int64"}).sort_values(
                "keyword", ignore_index=True)[["keyword", "rows", "negatives"]])
    if not all(found[0].equals(other) for other in found[1:]):
        raise Disagreement("joins: the clusters differ")
    return {"examples": int(found[0]["rows"].sum()), "clusters": len(found[0]), **row}


if __name__ == "__main__":
    sys.exit(main())
