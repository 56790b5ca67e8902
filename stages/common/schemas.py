"""What a table is. The tables stand in the rooms that write them, in modules called ``schemas``."""

from dataclasses import dataclass

import pyarrow as pa

SCHEMA_VERSION = 3
SPLITS = ("train", "validation", "test")
# Items of split "graph" are read by clusters, graph and node vectors, as training items are, and by nothing else.
GRAPH_ONLY = "graph"
IN_GRAPH = (SPLITS[0], GRAPH_ONLY)
ALL_SPLITS = (*SPLITS, GRAPH_ONLY)
NO_KEYWORD = "<nokw>"
STRINGS = pa.list_(pa.string())
INTS = pa.list_(pa.int32())


@dataclass(frozen=True)
class TableSchema:
    """A table: what it is, its sort key, its columns and what they mean."""

    name: str
    description: str
    key: tuple[str, ...]
    fields: tuple[tuple[str, pa.DataType, str], ...]
    unique: bool = True

    @classmethod
    def of(cls, schema: pa.Schema, name: str, description: str, key: tuple[str, ...]) -> "TableSchema":
        """Return the table whose columns the library describes."""
        return cls(name, description, key, tuple((field.name, field.type, field.metadata[b"description"].decode())
                                                 for field in schema))

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema, each field carrying its description as metadata."""
        return pa.schema([pa.field(name, kind, metadata={"description": text})
                          for name, kind, text in self.fields])
