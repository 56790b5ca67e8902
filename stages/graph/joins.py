"""Joins over a whole corpus in DuckDB: on disk where they outgrow their memory, no Python object per row.

Keywords become node ids here, and stay numbers from here on. DuckDB compares strings by their UTF-8 bytes, which is
the order of Python's ``sorted``: node ids are positions among the sorted keywords.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TypeAlias

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from stages.common.columns.clusters import CLUSTERS
from stages.common.columns.items import EXAMPLES
from stages.common.columns.keywords import KEYWORDS
from stages.common.columns.phrases import PHRASES
from stages.common.columns.texts import TEXTS
from stages.common.columns.tokens import TOKENS
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import ROW_GROUP, check_columns, check_pages, dataset_of
from stages.run.process import StageProcess

# A table by its file (never in memory as a whole), or in memory.
Rows: TypeAlias = Path | pa.Table | pd.DataFrame
_SCHEMAS = {schema.name: schema for schema in (EXAMPLES, KEYWORDS, CLUSTERS, TEXTS, TOKENS, PHRASES)}

# Keywords of the training examples whose input keyword is unequal or equal (``condition``) to the mark for none.
TRIPLES = f"""
    SELECT x.keyword AS keyword, e.example_id AS example_id, y.keyword AS output_keyword, n.keyword AS negative_keyword
    FROM (SELECT * FROM examples WHERE split = 'train') AS e
    JOIN (SELECT text_id, keyword FROM keywords WHERE keyword {{condition}} '{NO_KEYWORD}') AS x
        ON x.text_id = e.source_id
    JOIN keywords AS y ON y.text_id = e.target_id
    LEFT JOIN keywords AS n ON n.text_id = e.negative_id"""
_NODES = """
    CREATE TEMP TABLE numbered AS
    SELECT keyword, CAST(row_number() OVER (ORDER BY keyword) - 1 AS INTEGER) AS node_id
    FROM (SELECT input_keyword AS keyword FROM triples UNION SELECT output_keyword FROM triples
          UNION SELECT negative_keyword FROM triples)
    WHERE keyword IS NOT NULL"""
_NUMBERED = """
    SELECT x.node_id AS input, y.node_id AS output, coalesce(n.node_id, -1) AS negative, t.own FROM triples AS t
    JOIN numbered AS x ON x.keyword = t.input_keyword
    JOIN numbered AS y ON y.keyword = t.output_keyword
    LEFT JOIN numbered AS n ON n.keyword = t.negative_keyword"""


@dataclass(frozen=True)
class JoinLimits:
    """What a join may take; nothing of it decides any result.

    Attributes:
        memory_gib: memory of the join, in GiB; what is over goes to disk.
        folder: where it goes, emptied before and after; None takes the system's place for temporary files.
        threads: of the join.
    """

    memory_gib: float = 4.0
    folder: Path | None = None
    threads: int = 1

    @classmethod
    def of(cls, process: StageProcess) -> "JoinLimits":
        """Return what the params of a stage allow."""
        runtime = process.params.runtime
        return cls(runtime.memory_gib, process.scratch / "joins", runtime.workers)


DEFAULT_LIMITS = JoinLimits()


@dataclass(frozen=True)
class NodeTriples:
    """The keyword triples of the training examples as node ids, in no particular order; a row per cluster of each.

    Attributes:
        names: the sorted distinct keywords; position is node id.
        input, output, negative: node ids (n,) int32 of the cluster's keyword, k_y+ and k_y-; -1 where there is no
            negative.
        own: whether the cluster's keyword is the example's k_x (n,): once for each example.
        none: node id of the mark for "no keyword"; -1 if no text lacks one.
    """

    names: pa.StringArray
    input: np.ndarray
    output: np.ndarray
    negative: np.ndarray
    own: np.ndarray
    none: int

    def __len__(self) -> int:
        return len(self.input)

    def of_examples(self) -> "NodeTriples":
        """Return the triples under their own keywords, one of each example."""
        return replace(self, **{name: getattr(self, name)[self.own] for name in ("input", "output", "negative", "own")})


def node_triples(examples: Rows, keywords: Rows, clusters: Rows, limits: JoinLimits) -> NodeTriples:
    """Return the triples of all training examples: members of clusters, and those whose input has no keyword.

    Args:
        examples: table ``examples``.
        keywords: table ``keywords``.
        clusters: table ``clusters``, made from the two.
        limits: of the join.
    """
    with joining({"examples": examples, "keywords": keywords, "clusters": clusters}, limits) as connection:
        columns = "c.keyword AS input_keyword, c.output_keyword, c.negative_keyword"
        connection.execute(
            f"CREATE TEMP VIEW triples AS SELECT {columns}, c.keyword = x.keyword AS own FROM clusters AS c "
            f"JOIN examples AS e USING (example_id) JOIN keywords AS x ON x.text_id = e.source_id "
            f"UNION ALL SELECT {columns}, TRUE FROM ({TRIPLES.format(condition='=')}) AS c")
        return numbered_triples(connection)


@contextmanager
def joining(tables: Mapping[str, Rows], limits: JoinLimits) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database in which each of ``tables`` is a view of its name.

    Raises:
        InputError: a table is missing, is damaged, or lacks columns of the schema of its name; or memory and disk do
            not suffice.
    """
    for name, rows in tables.items():
        if isinstance(rows, Path):
            check_columns(rows, _SCHEMAS[name])
    with ExitStack() as stack:
        folder = limits.folder or Path(stack.enter_context(TemporaryDirectory())) / "joins"
        _remove(folder)
        stack.callback(_remove, folder)
        connection = stack.enter_context(duckdb.connect(config={
            "memory_limit": f"{max(1, round(limits.memory_gib * 1024))}MiB", "threads": limits.threads,
            "temp_directory": str(folder)}))
        # It would be drawn on standard output, over whatever a command prints there. In a notebook without widgets
        # there is none, and DuckDB refuses even to be told so.
        if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() != [(False,)]:
            connection.execute("SET enable_progress_bar = false")
        for name, rows in tables.items():
            if isinstance(rows, Path):
                connection.from_arrow(dataset_of(rows)).create_view(name)
            else:
                connection.register(name, _arrow(rows))
        try:
            yield connection
        except duckdb.OutOfMemoryException as error:
            raise InputError(f"runtime.memory_gib: {limits.memory_gib:g} GiB, and the disk beside it, are too little "
                             f"to join {', '.join(tables)}. Raise it, or free space under {folder.parent}.") from error
        except (duckdb.Error, pa.ArrowException):
            for rows in tables.values():
                if isinstance(rows, Path):
                    check_pages(rows)
            raise


def _remove(folder: Path) -> None:
    if folder.exists():
        rmtree(folder)


def _arrow(rows: pa.Table | pd.DataFrame) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)


def numbered_triples(connection: duckdb.DuckDBPyConnection) -> NodeTriples:
    """Return view ``triples`` (``input_keyword``, ``output_keyword``, ``negative_keyword``, ``own``) as node ids."""
    connection.execute(_NODES)
    names = connection.sql("SELECT keyword FROM numbered ORDER BY node_id").to_arrow_table()["keyword"]
    columns: dict[str, list[np.ndarray]] = {"input": [], "output": [], "negative": [], "own": []}
    for batch in connection.sql(_NUMBERED).to_arrow_reader(ROW_GROUP):
        for name, parts in columns.items():
            parts.append(batch.column(name).to_numpy(zero_copy_only=False))
    empty = {name: np.zeros(0, dtype=bool if name == "own" else np.int32) for name in columns}
    return NodeTriples(names=names.combine_chunks(), none=pc.index(names, NO_KEYWORD).as_py(),
                       **{name: np.concatenate([empty[name], *parts]) for name, parts in columns.items()})
