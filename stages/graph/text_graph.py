"""The keyword graph of plain texts: their phrases, joined where they share a text.

There are no inputs and outputs here, hence no contrast and no negative edge. A node is a phrase
that a training text was ranked to have (as many as `textrank.phrases` keeps); its cluster are the training texts that
contain it, word by word, whatever else is ranked above it there (HCL section 3.2.2: "texts
that contain the same keyword"); an edge counts the texts that contain both.
"""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.network import Containment, contained, relate_by_texts
from stages.common.columns.clusters import CLUSTERS
from stages.common.columns.methods import METHOD_TABLES
from stages.common.example_texts import read_examples
from stages.common.paths import DatasetPaths
from stages.common.tables import ROW_GROUP, Provenance, read_table
from stages.common.writing import table_writer
from stages.graph.graph_tables import GraphTables, graph_tables, write_graph
from stages.graph.joins import DEFAULT_LIMITS, JoinLimits, NodeTriples, Rows, joining
from stages.run.process import StageProcess

if TYPE_CHECKING:
    from stages.graph.params import Graph

_RANKED = ["text_id", "keyword", "score"]
_PAIR = ["text_id", "keyword"]
_TEXTS = """
    SELECT t.text_id, t.text, a.start, a."end", a.lemma FROM texts AS t JOIN tokens AS a USING (text_id)
    WHERE t.text_id IN (SELECT text_id FROM examples) ORDER BY t.text_id"""


def run(examples: pa.Table, ranking: pa.Table, texts: Rows, tokens: Rows, params: "Graph",
        limits: JoinLimits = DEFAULT_LIMITS) -> tuple[pa.Table, GraphTables]:
    """Return table ``clusters`` and the keyword graph of plain texts.

    Args:
        examples: table ``plain_examples``.
        ranking: table of a method that ranks phrases; only those with a positive score count.
        texts: table ``texts``, or its file.
        tokens: table ``tokens``, or its file.
        params: block ``graph``: ``max_nbr`` and ``resolution``; its other settings are about pairs.
        limits: memory of the join, which never decides a row.
    """
    training = examples.filter(pc.equal(examples["split"], "train")).select(["text_id", "example_id"])
    named = ranking.select(_RANKED).filter(pc.greater(ranking["score"], 0)).select(_PAIR)
    named = named.filter(pc.is_in(named["text_id"], value_set=training["text_id"].combine_chunks()))
    keywords = named["keyword"].unique().to_pylist()
    with joining({"examples": training, "texts": texts, "tokens": tokens}, limits) as connection:
        read = (pa.Table.from_batches([batch]) for batch in connection.sql(_TEXTS).to_arrow_reader(ROW_GROUP))
        held = pa.concat_tables([named, *contained(read, Containment(keywords, lemmas=False))])
    pairs = held.group_by(_PAIR).aggregate([]).join(training, "text_id", join_type="inner")
    pairs = pairs.select(["keyword", "example_id"]).sort_by([("keyword", "ascending"), ("example_id", "ascending")])
    encoded = pairs["keyword"].combine_chunks().dictionary_encode()  # by first appearance, so in their order
    keyword, names = encoded.indices.to_numpy().astype(np.int32), encoded.dictionary
    text = np.unique(pairs["example_id"].to_numpy(), return_inverse=True)[1]
    nothing = pa.nulls(pairs.num_rows, pa.string())
    clusters = pairs.append_column("output_keyword", nothing).append_column("negative_keyword", nothing)
    # Members of clusters without outputs, and no mark for "no keyword" among the names.
    absent = np.full(len(keyword), -1, dtype=np.int32)
    members = NodeTriples(names, keyword, absent, absent, np.zeros(len(keyword), dtype=bool), -1)
    return clusters, graph_tables(members, relate_by_texts(keyword, text, len(names), params.max_nbr),
                                  params.resolution)


def write_text_graph(process: StageProcess) -> None:
    """Write clusters and graph of the stage's data set of plain texts."""
    params, paths = process.params, DatasetPaths(process.instance)
    method = params.keywords.method
    clusters, made = run(read_examples(paths.table("examples")),
                         read_table(paths.table(method), METHOD_TABLES[method], _RANKED), paths.table("texts"),
                         paths.table("tokens"), params.graph, JoinLimits.of(process))
    counts = {"clusters": made.nodes.num_rows}
    with table_writer(paths.table("clusters"), CLUSTERS,
                      Provenance(process.name, process.params_hash, counts=counts)) as writer:
        writer.write(clusters)
    write_graph(process, made)
