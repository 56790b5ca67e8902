"""A data set on the page: its size, its top keywords by method, and the part of its phrase graph that is embedded."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from stages.common.methods import KEYWORD_COMPARISON, KEYWORDS, METHODS
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD, PHRASE_EDGES, PHRASE_NODES, PHRASE_TEXTS, TEXTS, TableSchema
from stages.common.tables import read_batches, read_frame, read_metadata
from stages.results.page.graph_map import GraphMap, graph_maps
from stages.results.page.tables import number

_METHODS = {name: method.title for name, method in METHODS.items()}
_TOP = 10           # keywords of each method
PHRASES = 10_000        # phrases that can be opened, at most; bytes may allow fewer
NEIGHBOURS = 24
TEXTS_EACH = 4          # of each phrase
LETTERS = 400           # of one text
_OF_TEXTS = 0.45        # share of the bytes that is for texts
_ROWS = 131_072
# Characters that could end a script element, begin a comment, or end a line of older scripts.
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


@dataclass(frozen=True)
class GraphMaterial:
    """The part of a phrase graph that the page may show; mappings are by node number."""

    nodes: pd.DataFrame                                 # of table phrase_nodes, the largest first
    neighbours: Mapping[int, list[tuple[int, int]]]     # the strongest of each node, with the number of shared texts
    names: Mapping[int, str]                            # of the nodes and their neighbours
    texts: Mapping[int, list[tuple[int, str]]]          # a few of each node: text id and text
    total: int                                          # nodes of the whole graph

    def maps(self, count: int) -> list[GraphMap]:
        """Return drawings of the largest components of the ``count`` largest phrases."""
        nodes = self.nodes.head(count)
        places = {node: place for place, node in enumerate(nodes["node_id"].tolist())}
        edges = {(*sorted((places[node], places[other])), weight) for node in places
                 for other, weight in self.neighbours.get(node, []) if other in places}
        return graph_maps(nodes, pd.DataFrame(sorted(edges), columns=["source", "target", "weight"]))


@dataclass(frozen=True)
class Dataset:
    """One data set: its block of the params, size in one line, and tables of keywords and of its graph as texts."""

    name: str
    settings: Mapping[str, Any]
    size: str = ""
    top_methods: Sequence[str] = ()
    tops: Sequence[Sequence[str]] = ()
    graph: GraphMaterial | None = None


def read_dataset(name: str, settings: Mapping[str, Any], first: bool = False) -> Dataset:
    """Return a data set as the page shows it; ``first`` uses only artifacts that exist before any training."""
    paths = DatasetPaths(name)
    path, nodes, graph = paths.table(KEYWORDS.name), paths.table("phrase_nodes"), read_graph(paths)
    keywords = read_frame(path, KEYWORDS) if path.exists() else None
    counts = read_metadata(nodes)["counts"] if graph else {}
    size = [] if keywords is None or keywords.empty else [f"{number(len(keywords))} texts"]
    size += [f"{number(counts[kind])} {label}" for kind, label in (
        ("nodes", "phrases"), ("edges", "edges between them"), ("communities", "communities")) if kind in counts]
    tops = read_tops(paths, keywords, not first)
    lists = [[f"{word} ({number(count)})" for word, count in words] for words in tops.values()]
    return Dataset(name, settings, " · ".join(size), [_METHODS.get(method, "keyword") for method in tops],
                   [list(row) for row in zip_longest(*lists, fillvalue="")], graph)


def read_tops(paths: DatasetPaths, keywords: pd.DataFrame | None, compared: bool) -> dict[str, list[tuple[str, int]]]:
    """Return by method, or under ``chosen``, the keywords that rank first in most texts, with the number of texts."""
    path = paths.table(KEYWORD_COMPARISON.name)
    if compared and path.exists():
        counts: dict[str, Counter[str]] = {name: Counter() for name in METHODS}
        for batch in read_batches(path, KEYWORD_COMPARISON):
            for name, counted in counts.items():
                if name in batch.column_names:
                    counted.update(_best(batch[name]))
    else:
        counts = {"chosen": Counter([] if keywords is None else keywords["keyword"].tolist())}
    for counted in counts.values():
        counted.pop(NO_KEYWORD, None)
    return {name: sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:_TOP]
            for name, counted in counts.items() if counted}


def _best(lists: Any) -> Iterator[str]:
    """Yield the first of each list that has one."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    filled = lists.filter(pc.greater(pc.list_value_length(lists), 0))
    yield from pc.list_element(filled, 0).to_pylist()


def json_markup(data: Any) -> Markup:
    """Return ``data`` as the content of an element ``<script type="application/json">``."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_ESCAPES))     # nothing in it can be read as markup


def size(data: Any) -> int:
    """Return the bytes that ``data`` takes in the page."""
    return len(json_markup(data).encode())


def read_graph(paths: DatasetPaths, limit: int = PHRASES) -> GraphMaterial | None:
    """Return the part of a data set's phrase graph that the page may show, read in pieces; None without a graph."""
    if not paths.table("phrase_nodes").exists():
        return None
    nodes = read_frame(paths.table("phrase_nodes"), PHRASE_NODES)
    # Those of most texts first, then the most neighbours, then by number.
    ranked = nodes.sort_values(["texts", "degree", "node_id"], ascending=[False, False, True])
    kept = ranked.head(limit).reset_index(drop=True)
    neighbours = _neighbours(paths, kept["node_id"])
    wanted = {*kept["node_id"].tolist(), *(other for pairs in neighbours.values() for other, _ in pairs)}
    named = nodes[nodes["node_id"].isin(wanted)]
    return GraphMaterial(kept, neighbours, dict(zip(named["node_id"].tolist(), named["keyword"], strict=True)),
                         _texts(paths, kept["node_id"]), len(nodes))


def _neighbours(paths: DatasetPaths, nodes: pd.Series) -> dict[int, list[tuple[int, int]]]:
    """Return the strongest neighbours of each of ``nodes`` and the texts they share."""
    edges = pd.concat([_selected(paths, PHRASE_EDGES, node, nodes).rename(columns={node: "node", other: "other"})
                       for node, other in (("source", "target"), ("target", "source"))])
    ordered = edges.sort_values(["node", "weight", "other"], ascending=[True, False, True])
    neighbours: dict[int, list[tuple[int, int]]] = {}
    for node, other, weight in ordered.groupby("node").head(NEIGHBOURS)[["node", "other", "weight"]].itertuples(
            index=False):
        neighbours.setdefault(node, []).append((other, weight))
    return neighbours


def _texts(paths: DatasetPaths, nodes: pd.Series) -> dict[int, list[tuple[int, str]]]:
    """Return the first texts that hold each of ``nodes``."""
    held = _selected(paths, PHRASE_TEXTS, "node_id", nodes, TEXTS_EACH)
    rows = _selected(paths, TEXTS, "text_id", held["text_id"])
    texts = dict(zip(rows["text_id"], rows["text"], strict=True))
    texts_of: dict[int, list[tuple[int, str]]] = {}
    for text, node in held[["text_id", "node_id"]].itertuples(index=False):
        texts_of.setdefault(node, []).append((text, texts[text]))
    return texts_of


def _selected(paths: DatasetPaths, schema: TableSchema, column: str, values: Iterable[int],
              limit: int | None = None) -> pd.DataFrame:
    """Return the rows of a table whose ``column`` is among ``values``, the first ``limit`` of each, read in pieces."""
    wanted = pa.array(sorted(set(values)), schema.arrow().field(column).type)
    pieces = [schema.arrow().empty_table().to_pandas()]
    for batch in read_batches(paths.table(schema.name), schema, rows=_ROWS):
        piece = batch.filter(pc.is_in(batch[column], value_set=wanted)).to_pandas()
        pieces.append(piece if limit is None else piece.groupby(column).head(limit))
    selected = pd.concat(pieces)
    return selected if limit is None else selected.groupby(column).head(limit)


def explorer_data(graph: GraphMaterial, budget: int) -> dict[str, Any]:
    """Return the data of ``graph`` that the page embeds, within ``budget`` bytes.

    ``names`` lists the phrases, those that can be opened first. ``nodes`` has for each of these [texts, neighbours,
    shown neighbours as [place, weight, …], places of texts], ``texts`` [text_id, text]. ``total`` counts all phrases.
    """
    texts: dict[int, list[Any]] = {}
    used = 0
    for row in graph.nodes.itertuples():
        cut = {text: [text, written if len(written) <= LETTERS else written[:LETTERS - 1] + "…"]
               for text, written in graph.texts.get(row.node_id, []) if text not in texts}
        used += sum(size(table) + 1 for table in cut.values())
        if used > budget * _OF_TEXTS:
            break
        texts |= cut
    count = len(graph.nodes)
    while (bytes_used := size(data := _with_largest(graph, count, texts))) > budget and count:
        count = int(count * 0.95 * budget / bytes_used)
    return data


def _with_largest(graph: GraphMaterial, count: int, texts: Mapping[int, list[Any]]) -> dict[str, Any]:
    """Return the data of the ``count`` largest phrases; neighbours that cannot be opened are numbered after them."""
    shown = graph.nodes.head(count)
    places = {node: place for place, node in enumerate(shown["node_id"].tolist())}
    of_texts = {text: place for place, text in enumerate(texts)}
    nodes = [[int(row.texts), int(row.degree),
              [value for other, weight in graph.neighbours.get(row.node_id, [])
               for value in (places.setdefault(other, len(places)), weight)],
              [of_texts[text] for text, _ in graph.texts.get(row.node_id, []) if text in of_texts]]
             for row in shown.itertuples()]
    return {"names": [graph.names[node] for node in places], "nodes": nodes, "texts": list(texts.values()),
            "total": graph.total}
