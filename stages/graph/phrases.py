"""The phrase graph of a data set: phrases of its texts, joined where they share a text.

Nodes are the phrases that are ranked in the most texts, at most ``NODES``. A text counts for each node that it
contains, word by word; an edge counts the texts that contain both. :func:`keycontrast.graph.keyword_graph` makes such
graphs too; HCL's keyword graph is another one, with signs (:mod:`stages.graph.graph`).
"""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.containment import SEARCHED, Containment, contained
from keycontrast.errors import InputError
from keycontrast.files import hash_values
from keycontrast.network import phrase_graph
from stages.common.lookup import Following
from stages.common.methods import METHODS
from stages.common.paths import DatasetPaths
from stages.common.schemas import PHRASE_EDGES, PHRASE_NODES, PHRASE_TEXTS
from stages.common.settings import code_of, hash_code, hash_files
from stages.common.tables import Provenance, as_table, read_batches, read_table, table_writer, write_part, write_table
from stages.common.text_tables import PHRASES, TOKENS, ranked_by
from stages.graph.joins import JoinLimits, joining
from stages.run.executor import Executor, MakePart
from stages.run.process import StageProcess

# Limits the memory of the stage.
NODES = 100_000
_BATCH = 1024
_RANKED = ["text_id", "keyword", "score"]
_MOST_FREQUENT = """
    SELECT keyword FROM phrases WHERE score > 0 GROUP BY keyword ORDER BY count(*) DESC, keyword LIMIT $limit"""


def most_frequent(ranking: Path, limits: JoinLimits) -> list[str]:
    """Return at most :data:`NODES` phrases of table ``ranking`` with a positive score, those of most texts, sorted."""
    with joining({"phrases": ranking}, limits) as connection:
        return sorted(keyword for keyword, in connection.execute(_MOST_FREQUENT, {"limit": NODES}).fetchall())


def part_searcher(names: list[str], method: str, ranking: Path, provenance: Provenance) -> MakePart:
    """Return a function that finds the phrases ``names`` in the texts of a part of table ``tokens``.

    The position of a phrase in ``names``, which are sorted, is its node id. The parts of table ``ranking`` (of
    ``method``) have the same texts as those of ``tokens``.
    """
    containment, known = Containment(names, lemmas=False), pa.array(names, pa.string())

    def make(part: Path, result: Path) -> dict[str, int]:
        write_part(result, PHRASE_TEXTS, pieces(part), provenance.of_part())
        return {}

    def pieces(part: Path) -> Iterator[pa.Table]:
        phrases = Following(read_batches(ranking / part.name, ranked_by(method), _RANKED, _BATCH),
                            PHRASES.arrow().empty_table().select(_RANKED))
        for tokens in read_batches(part, TOKENS, SEARCHED, _BATCH):
            named = phrases.up_to(tokens["text_id"][-1].as_py())
            if pc.unique(named["text_id"]).to_pylist() != tokens["text_id"].to_pylist():
                raise InputError(f"{ranking} and {part.parent}: not of the same texts in {part.name}. The tables are "
                                 f"out of step: run `keycontrast run`, or annotate and the stages after it, again.")
            pairs = pa.concat_tables([named.filter(pc.greater(named["score"], 0)).select(["text_id", "keyword"]),
                                      *contained([tokens], containment)])
            nodes = pa.table({"text_id": pairs["text_id"], "node_id": pc.index_in(pairs["keyword"], known)})
            yield as_table(PHRASE_TEXTS, nodes.drop_null().group_by(["text_id", "node_id"]).aggregate([]))

    return make


def write_phrases(process: StageProcess) -> dict[str, int]:
    """Write the phrase graph of the stage's data set, and return its size and shape."""
    params, paths = process.params, DatasetPaths(process.instance)
    method = params.keywords.method if METHODS[params.keywords.method].ranks_phrases else "textrank"
    tokens, ranking = paths.table("tokens"), paths.table(method)
    names = most_frequent(ranking, JoinLimits.of(process))
    executor = Executor.of(process, hash_values({
        **process.declared_values, "code": hash_code(code_of(process.stage)),
        "data": hash_files([tokens, ranking])}))
    provenance = Provenance(process.name, process.params_hash)
    with table_writer(paths.table("phrase_texts"), PHRASE_TEXTS, provenance) as writer:
        executor.make(tokens, part_searcher, (names, method, ranking, provenance), writer)
    held = read_table(paths.table("phrase_texts"), PHRASE_TEXTS)
    nodes, edges = phrase_graph(pa.array(names, pa.string()), held["node_id"].to_numpy(), held["text_id"].to_numpy())
    component, community = (nodes[name].to_numpy() for name in ("component", "community"))
    sizes = {"nodes": nodes.num_rows, "edges": edges.num_rows,
             "components": int(component.max(initial=-1)) + 1,
             "largest_component": int(np.bincount(component).max(initial=0)),
             "communities": int(community.max(initial=-1)) + 1}
    provenance = Provenance(process.name, process.params_hash, counts=sizes,
                            models={"communities": {"igraph": version("igraph")}})
    write_table(paths.table("phrase_nodes"), PHRASE_NODES, nodes, provenance)
    write_table(paths.table("phrase_edges"), PHRASE_EDGES, edges, provenance)
    executor.clear()
    return sizes
