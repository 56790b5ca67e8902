"""Queries over a whole corpus in DuckDB, which spill to disk where they need more than their memory."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TypeAlias

import duckdb
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from stages.common.methods import KEYWORDS
from stages.common.schemas import EXAMPLES, TEXTS
from stages.common.tables import check_columns, check_pages, dataset_of, open_database
from stages.common.text_tables import PHRASES, TOKENS
from stages.run.process import StageProcess

# A table by its file (never in memory as a whole), or in memory.
Rows: TypeAlias = Path | pa.Table | pd.DataFrame
_SCHEMAS = {schema.name: schema for schema in (EXAMPLES, KEYWORDS, TEXTS, TOKENS, PHRASES)}


@dataclass(frozen=True)
class JoinLimits:
    """Resources of a join, which do not affect its result. Data beyond ``memory_gib`` spill to ``folder``, which is
    emptied before and after; None is a temporary folder of the system."""

    memory_gib: float = 4.0
    folder: Path | None = None
    threads: int = 1

    @classmethod
    def of(cls, process: StageProcess) -> "JoinLimits":
        """Return the limits in the params of a stage."""
        runtime = process.params.runtime
        return cls(runtime.memory_gib, process.scratch / "joins", runtime.workers)


DEFAULT_LIMITS = JoinLimits()


@contextmanager
def joining(tables: Mapping[str, Rows], limits: JoinLimits) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database in which each of ``tables`` is a view of its name; files are checked against their schemas."""
    for name, rows in tables.items():
        if isinstance(rows, Path):
            check_columns(rows, _SCHEMAS[name])
    with ExitStack() as stack:
        folder = limits.folder or Path(stack.enter_context(TemporaryDirectory())) / "joins"
        rmtree(folder, ignore_errors=True)
        stack.callback(rmtree, folder, ignore_errors=True)
        connection = stack.enter_context(open_database(folder, limits.memory_gib, limits.threads))
        for name, rows in tables.items():
            if isinstance(rows, Path):
                connection.from_arrow(dataset_of(rows)).create_view(name)
            else:
                connection.register(name, rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows))
        try:
            yield connection
        except duckdb.OutOfMemoryException as error:
            raise InputError(f"runtime.memory_gib: {limits.memory_gib:g} GiB and the free disk space are too little "
                             f"to join {', '.join(tables)}. Raise it, or free space under {folder.parent}.") from error
        except (duckdb.Error, pa.ArrowException):
            for rows in tables.values():
                if isinstance(rows, Path):
                    check_pages(rows)
            raise
