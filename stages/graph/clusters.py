"""Training examples by the keyword of their input, or by the keywords that it contains (`graph.cluster_by`).

The join keeps to runtime.memory_gib and goes to disk beyond that.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.network import Containment, contained
from stages.common.columns.clusters import CLUSTERS
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import ROW_GROUP, Provenance
from stages.common.writing import table_writer
from stages.graph.joins import DEFAULT_LIMITS, TRIPLES, JoinLimits, Rows, joining
from stages.run.process import StageProcess

_NOTHING = pa.table({"text_id": pa.array([], pa.int64()), "keyword": pa.array([], pa.string())})
_LOST = """
    SELECT example_id, text_id FROM (
        SELECT example_id, unnest([source_id, target_id, negative_id]) AS text_id FROM examples WHERE split = 'train')
    ANTI JOIN keywords USING (text_id) WHERE text_id IS NOT NULL ORDER BY example_id, text_id LIMIT 1"""


# Training inputs, each once, with what is searched for keywords.
_INPUTS = """
    SELECT t.text_id, t.text, a.start, a."end", a.lemma FROM texts AS t JOIN tokens AS a USING (text_id)
    WHERE t.text_id IN (SELECT source_id FROM examples WHERE split = 'train') ORDER BY t.text_id"""
_CONTAINING = """
    SELECT DISTINCT c.keyword AS keyword, e.example_id AS example_id, y.keyword AS output_keyword,
        n.keyword AS negative_keyword
    FROM (SELECT * FROM examples WHERE split = 'train') AS e
    JOIN (SELECT text_id, keyword FROM contained UNION SELECT text_id, keyword FROM named) AS c
        ON c.text_id = e.source_id
    JOIN keywords AS y ON y.text_id = e.target_id
    LEFT JOIN keywords AS n ON n.text_id = e.negative_id"""
_NAMED = f"""
    CREATE TEMP VIEW named AS SELECT text_id, keyword FROM keywords
    WHERE keyword <> '{NO_KEYWORD}' AND text_id IN (SELECT source_id FROM examples WHERE split = 'train')"""


@dataclass(frozen=True)
class Searched:
    """What inputs are searched in: tables ``texts`` and ``tokens``, and whether keywords end with a lemma."""

    texts: Rows
    tokens: Rows
    lemmas: bool = False


def run(examples: Rows, keywords: Rows, limits: JoinLimits = DEFAULT_LIMITS,
        searched: Searched | None = None) -> Iterator[pa.Table]:
    """Yield table ``clusters`` (HCL section 3.2.2) in its order, in pieces of a fixed number of rows.

    There is one row per training example whose input has a keyword; or, if inputs are searched, one for each of all
    inputs' keywords that its input contains, its own among them.

    Args:
        examples: table ``examples``, or its file.
        keywords: table ``keywords``, or its file.
        limits: memory of the join, which never decides a row.
        searched: where inputs are searched for keywords; None groups by the input's own.

    Raises:
        InputError: a text of the training examples has no keyword row.
    """
    further = {} if searched is None else {"texts": searched.texts, "tokens": searched.tokens}
    with joining({"examples": examples, "keywords": keywords, **further}, limits) as connection:
        for example, text in connection.sql(_LOST).fetchall():
            raise InputError(f"table keywords: no keyword for text {text} of example {example}. The tables are out "
                             f"of step: run `keycontrast run`, or the stage keywords and those after it, again.")
        members = f"SELECT * FROM ({TRIPLES.format(condition='<>')})"
        if searched is not None:
            connection.execute(_NAMED)
            known = connection.sql("SELECT DISTINCT keyword FROM named").fetchall()
            pieces = (pa.Table.from_batches([batch]) for batch in
                      connection.sql(_INPUTS).to_arrow_reader(ROW_GROUP))
            found = contained(pieces, Containment((keyword for keyword, in known), searched.lemmas))
            connection.register("contained", pa.concat_tables([_NOTHING, *found]))
            members = _CONTAINING
        yield from _pieces(connection.sql(f"{members} ORDER BY keyword, example_id"))


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


def write_clusters(process: StageProcess) -> None:
    """Write table ``clusters`` of the stage's data set, as rows come."""
    params, paths = process.params, DatasetPaths(process.instance)
    provenance = Provenance(process.name, process.params_hash, counts={"clusters": 0})
    searched = None
    if params.graph.cluster_by == "contains":
        searched = Searched(paths.table("texts"), paths.table("tokens"), params.keywords.kw_lemma)
    rows = run(paths.table("examples"), paths.table("keywords"), JoinLimits.of(process), searched)
    last = None
    with table_writer(paths.table("clusters"), CLUSTERS, provenance) as writer:
        for table in rows:
            writer.write(table)
            heads = table["keyword"].unique().to_pylist()
            provenance.counts["clusters"] += len(heads) - (heads[0] == last)
            last = heads[-1]
