"""Artifacts of a data set of four training examples, written by hand: texts, keywords and their graph."""

from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, write_table

PROVENANCE = Provenance("graph@small", "0123")
KEYWORDS = ["<script>", "belly fat", "diet & rest", "sleep", "减肥 \x1b[31m", "zzz"]
# target, source, sign, count: belly fat receives from sleep 3 and from diet & rest 1, and not from <script>;
# sleep receives from belly fat; 减肥 is two edges away; zzz has no edge.
EDGES = [(1, 3, 1, 3), (1, 2, 1, 1), (1, 0, -1, 2), (3, 1, 1, 3), (4, 3, -1, 1), (3, 0, 1, 1)]


def write_graph(name: str = "small") -> DatasetPaths:
    """Write texts, examples and both graphs of data set ``name`` into the working folder."""
    paths = DatasetPaths(name)
    texts = ["How do I lose belly fat?", "What melts [bold]belly fat[/bold]?", "Why is sleep good?",
             "A <script> & more"]
    tables = {
        "texts": {"text_id": range(4), "text": texts, "language": ["en"] * 4},
        "examples": {"example_id": range(4), "split": ["train", "train", "train", "test"], "source_id": [0, 1, 2, 3],
                     "target_id": [1, 0, 0, 0], "negative_id": [3, None, 3, None],
                     "reference_ids": [[1], [0], [0], [0]], "group": range(4),
                     "negative_origin": ["given", None, "given", None]},
        "clusters": {"keyword": ["belly fat", "belly fat", "diet & rest"], "example_id": [0, 1, 2],
                     "output_keyword": ["belly fat", "sleep", "sleep"], "negative_keyword": ["<script>", None, None]},
        "nodes": nodes(),
        "edges": dict(zip(("target", "source", "sign", "count"), zip(*EDGES, strict=True), strict=True)),
        "phrase_nodes": {"node_id": range(6), "keyword": KEYWORDS, "texts": [1, 3, 2, 3, 1, 1],
                         "degree": [1, 2, 2, 1, 0, 0], "centrality": [0.1, 0.3, 0.2, 0.2, 0.1, 0.1],
                         "component": [0, 0, 0, 0, 4, 5], "community": [0, 0, 0, 0, 4, 5]},
        "phrase_edges": {"source": [0, 1, 1], "target": [2, 2, 3], "weight": [1, 1, 2]},
        "phrase_texts": {"text_id": [0, 0, 1, 1, 2], "node_id": [1, 3, 1, 2, 3]},
    }
    for kind, rows in tables.items():
        write_table(paths.table(kind), SCHEMAS[kind], {column: list(values) for column, values in rows.items()},
                    PROVENANCE)
    return paths


def nodes() -> dict[str, list]:
    """Rows of table ``nodes``, degrees counted from ``EDGES``."""
    ids = range(len(KEYWORDS))

    def degree(end: int, sign: int) -> list[int]:
        return [sum(edge[end] == node and edge[2] == sign for edge in EDGES) for node in ids]

    return {"node_id": list(ids), "keyword": KEYWORDS, "cluster_size": [0, 2, 1, 0, 0, 0],
            "in_positive": degree(0, 1), "in_negative": degree(0, -1), "out_positive": degree(1, 1),
            "out_negative": degree(1, -1), "centrality": [0.05, 0.3, 0.2, 0.35, 0.06, 0.04],
            "component": [0, 0, 0, 0, 0, 5], "community": [0, 0, 0, 0, 4, 5]}

