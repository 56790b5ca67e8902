"""The keyword triples of the training examples, and of those of the graph alone (HCL section 3.2.2), as node ids.

Node ids are positions among the sorted keywords: DuckDB compares strings by their UTF-8 bytes, as Python's ``sorted``
does. Memory holds four bytes per text and some twenty per example.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.containment import SEARCHED, Containment, contained
from keycontrast.errors import InputError
from stages.common.schemas import CLUSTERS, NO_KEYWORD
from stages.common.tables import ROW_GROUP, as_table
from stages.graph.joins import DEFAULT_LIMITS, JoinLimits, Rows, joining

_NUMBERED = """
    CREATE TEMP TABLE numbered AS
    SELECT keyword, CAST(row_number() OVER (ORDER BY keyword) - 1 AS INTEGER) AS node
    FROM (SELECT DISTINCT keyword FROM keywords)"""
_OF_TEXTS = "SELECT k.text_id, n.node FROM keywords AS k JOIN numbered AS n USING (keyword)"
_EXAMPLES = """
    SELECT example_id, source_id, target_id, coalesce(negative_id, -1) AS negative_id FROM examples
    WHERE split IN ('train', 'graph')"""
# Training inputs, each once, with what is searched for keywords.
_INPUTS = f"""
    SELECT {", ".join(f'"{name}"' for name in SEARCHED)} FROM tokens
    WHERE text_id IN (SELECT source_id FROM examples WHERE split IN ('train', 'graph')) ORDER BY text_id"""


@dataclass(frozen=True)
class NodeTriples:
    """The keyword triples of the training examples as node ids; a row per example and cluster, sorted by both."""

    names: pa.StringArray  # the sorted distinct keywords; position is node id
    example: np.ndarray    # (n,) int64, ids of the examples
    input: np.ndarray      # (n,) int32, the cluster's keyword
    output: np.ndarray     # (n,) int32, k_y+
    negative: np.ndarray   # (n,) int32, k_y-; -1 where there is no negative
    own: np.ndarray        # (n,) whether the cluster's keyword is the example's k_x: once for each example
    none: int              # node id of the mark for "no keyword", which is no cluster; -1 if every text has one

    def __len__(self) -> int:
        return len(self.input)

    def at(self, rows: np.ndarray | slice) -> "NodeTriples":
        """Return these rows, by their numbers, a mask or a range."""
        return replace(self, **{name: getattr(self, name)[rows]
                                for name in ("example", "input", "output", "negative", "own")})

    def of_examples(self) -> "NodeTriples":
        """Return the triples under their own keywords, one of each example."""
        return self.at(self.own)

    def clusters(self) -> Iterator[pa.Table]:
        """Yield table ``clusters``: the rows whose input has a keyword, in pieces of ``ROW_GROUP`` rows."""
        rows = self.at(self.input != self.none)
        for start in range(0, len(rows), ROW_GROUP):
            piece = rows.at(slice(start, start + ROW_GROUP))
            yield as_table(CLUSTERS, {
                "keyword": self.names.take(piece.input), "example_id": piece.example,
                "output_keyword": self.names.take(piece.output),
                "negative_keyword": self.names.take(pa.array(piece.negative, mask=piece.negative < 0))})


def node_triples(examples: Rows, keywords: Rows, limits: JoinLimits = DEFAULT_LIMITS,
                 searched: Rows | None = None, lemmas: bool = False) -> NodeTriples:
    """Return the triples of all training examples.

    An example is in the cluster of its input's keyword; if ``searched`` is given (table ``tokens``), in the clusters of
    all input keywords that its input contains, its own included. With ``lemmas``, keywords end with a lemma.
    """
    further = {} if searched is None else {"tokens": searched}
    with joining({"examples": examples, "keywords": keywords, **further}, limits) as connection:
        connection.execute(_NUMBERED)
        names = connection.sql("SELECT keyword FROM numbered ORDER BY node").to_arrow_table()["keyword"]
        names = names.combine_chunks()
        none = pc.index(names, NO_KEYWORD).as_py()
        triples, sources = _of_examples(connection, names, none)
        if searched is not None:
            triples = _in_each_cluster(connection, triples, sources, lemmas)
    return _of_used_nodes(triples.at(np.lexsort((triples.example, triples.input))))


def _of_examples(connection: duckdb.DuckDBPyConnection, names: pa.StringArray,
                 none: int) -> tuple[NodeTriples, np.ndarray]:
    """Return a triple per example, and the text ids of their inputs (n,)."""
    node = _by_text(connection)
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("example", "source", "input", "output", "negative")}
    for batch in connection.sql(_EXAMPLES).to_arrow_reader(ROW_GROUP):
        example, *texts = (batch.column(name).to_numpy() for name in (
            "example_id", "source_id", "target_id", "negative_id"))
        nodes = [node[np.minimum(ids, len(node) - 1)] for ids in texts]
        for ids, text_nodes in zip(texts, nodes, strict=True):
            if len(lost := np.flatnonzero((text_nodes < 0) & (ids >= 0))):
                raise InputError(f"table keywords: no keyword for text {ids[lost[0]]} of example {example[lost[0]]}. "
                                 f"The tables are out of step: run `keycontrast run`, or the stage keywords and those "
                                 f"after it, again.")
        for name, values in zip(columns, (example, texts[0], *nodes), strict=True):
            columns[name].append(values)
    joined = {name: np.concatenate([np.zeros(0, np.int64 if name in ("example", "source") else np.int32), *parts])
              for name, parts in columns.items()}
    source = joined.pop("source")
    return NodeTriples(names=names, own=np.ones(len(source), dtype=bool), none=none, **joined), source


def _by_text(connection: duckdb.DuckDBPyConnection) -> np.ndarray:
    """Return the node of each text (number of texts + 1,) int32; -1 for a text without a keyword row and at the end."""
    texts, = connection.sql("SELECT coalesce(max(text_id), -1) + 1 FROM keywords").fetchall()[0]
    node = np.full(texts + 1, -1, dtype=np.int32)
    for batch in connection.sql(_OF_TEXTS).to_arrow_reader(ROW_GROUP):
        node[batch.column("text_id").to_numpy()] = batch.column("node").to_numpy()
    return node


def _in_each_cluster(connection: duckdb.DuckDBPyConnection, own: NodeTriples, sources: np.ndarray,
                     lemmas: bool) -> NodeTriples:
    """Return the triples of ``own`` in each cluster whose keyword the input contains; inputs without one as before."""
    nodes = max(len(own.names), 1)
    heads = own.names.take(np.unique(own.input[own.input != own.none]))
    pieces = (pa.Table.from_batches([batch]) for batch in connection.sql(_INPUTS).to_arrow_reader(ROW_GROUP))
    pairs = [np.unique(sources * nodes + own.input)]
    for piece in contained(pieces, Containment(heads.to_pylist(), lemmas)):
        pairs.append(piece["text_id"].to_numpy() * nodes + pc.index_in(piece["keyword"], own.names).to_numpy())
    text, node = np.divmod(np.unique(np.concatenate(pairs)), nodes)
    # The contained keywords of an input lie in a row, from its first on.
    first, last = (np.searchsorted(text, sources, side) for side in ("left", "right"))
    count = last - first
    row = np.repeat(np.arange(len(sources)), count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    repeated = own.at(row)
    return replace(repeated, input=node[place].astype(np.int32), own=node[place] == repeated.input)


def _of_used_nodes(triples: NodeTriples) -> NodeTriples:
    """Return the triples with ids of their own keywords alone, without those of other texts."""
    used = np.zeros(len(triples.names) + 1, dtype=bool)
    for nodes in (triples.input, triples.output, triples.negative):
        used[nodes] = True
    used[-1] = False
    number = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
    names = triples.names.filter(pa.array(used[:-1]))
    return replace(triples, names=names, none=int(number[triples.none]), **{
        name: number[getattr(triples, name)] for name in ("input", "output", "negative")})
