"""Data of the map and the explorer: the largest keywords, where they stand, their neighbours, and their examples.

A graph of a million nodes must not make a huge page. Nodes are kept in order of their clusters and degrees,
neighbours in order of their counts, and all of it is held to a number of bytes; what was left out is counted.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from stages.common.columns.clusters import CLUSTERS
from stages.common.columns.graph import EDGES, NODES
from stages.common.columns.items import EXAMPLES
from stages.common.columns.texts import TEXTS
from stages.common.example_texts import examples_schema
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD, TableSchema
from stages.common.tables import read_batches, read_frame
from stages.results.page import layout

KEYWORDS = 10_000       # keywords that can be opened, at most; bytes may allow fewer
NEIGHBOURS = 24         # of each sign
EXAMPLES_EACH = 4       # of each keyword
LETTERS = 400           # of one text
_OF_TEXTS = 0.45        # share of the bytes that is for examples
_ROWS = 131_072
# A row of table nodes, its neighbours with their counts by sign, and rows of its examples.
Shown = tuple[Any, list[list[tuple[int, int]]], list[int]]
_ROLES = ("keyword", "output_keyword", "negative_keyword")
# What could end a script element, begin a comment, or end a line of older scripts.
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def json_markup(data: Any) -> Markup:
    """Return ``data`` as the content of an element ``<script type="application/json">``; NaN and infinities are null.
    """
    text = json.dumps(_known(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_ESCAPES))     # nothing in it can be read as markup


def size(data: Any) -> int:
    """Return the bytes that ``data`` takes in the page."""
    return len(json_markup(data).encode())


def _known(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _known(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_known(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


@dataclass(frozen=True)
class GraphMaterial:
    """What the explorer may show of a graph: kept nodes, edges to them, and examples; ``total`` counts all."""

    nodes: pd.DataFrame
    edges: pd.DataFrame
    names: dict[int, str]
    examples: pd.DataFrame
    total: int


def read_graph(paths: DatasetPaths, limit: int = KEYWORDS) -> GraphMaterial | None:
    """Read the part of a data set's graph that the page may show; None where there is no graph.

    Edges, clusters and texts are read in pieces, so that only what is kept lies in memory.
    """
    if not (paths.table("nodes").exists() and paths.table("edges").exists()):
        return None
    nodes = read_frame(paths.table("nodes"), NODES)
    kept = largest(nodes, limit)
    edges = _selected(paths, EDGES, "target", kept["node_id"])
    edges = edges[edges["target"] != edges["source"]]
    wanted = np.union1d(kept["node_id"].to_numpy(), edges["source"].to_numpy())
    named = nodes[nodes["node_id"].isin(wanted)]
    names = {int(number): str(word) for number, word in zip(named["node_id"], named["keyword"], strict=True)}
    total = int((nodes["keyword"] != NO_KEYWORD).sum())
    return GraphMaterial(kept, edges, names, _examples(paths, kept["keyword"]), total)


def largest(nodes: pd.DataFrame, limit: int) -> pd.DataFrame:
    """Return at most ``limit`` nodes: the largest clusters first, then the most neighbours, then by number."""
    degree = nodes["in_positive"] + nodes["in_negative"] + nodes["out_positive"] + nodes["out_negative"]
    ranked = nodes.assign(degree=degree)[nodes["keyword"] != NO_KEYWORD]
    ranked = ranked.sort_values(["cluster_size", "degree", "node_id"], ascending=[False, False, True])
    return ranked.drop(columns="degree").head(limit).reset_index(drop=True)


def explorer_data(graph: GraphMaterial, budget: int) -> dict[str, Any]:
    """Return what the page embeds of ``graph``, within ``budget`` bytes.

    Returns:
        ``names``: keywords, those that can be opened first; ``nodes``: for each of these
        [cluster size, positive neighbours, negative neighbours, receivers by sign, kept neighbours by sign as
        [place, count, place, count, …], places of examples, x, y, community]; the last keywords may be without
        examples for want of room; ``examples``: [example_id, keyword, output keyword,
        negative keyword, source, target, negative]; ``total``: keywords of the whole graph.
    """
    keywords = [str(word) for word in graph.nodes["keyword"]]
    places = {int(number): place for place, number in enumerate(graph.nodes["node_id"])}
    neighbours = neighbours_of(graph.edges)
    examples = _examples_of(keywords, graph.examples)
    rows = list(graph.examples.itertuples(index=False))
    shown, used, extra = [], 200.0, {}
    room = budget * _OF_TEXTS
    taken: dict[int, int] = {}
    for place, node in enumerate(graph.nodes.itertuples()):
        lists = [neighbours.get((int(node.node_id), sign), []) for sign in (1, -1)]
        news = [source for pairs in lists for source, _ in pairs if source not in places and source not in extra]
        texts = [row for row in examples[place] if row not in taken]
        # Places are counted as six digits: they are known only when all keywords are.
        used += (size(keywords[place]) + 58 + 10 * sum(map(len, lists)) + 7 * len(examples[place])
                 + sum(size(graph.names[source]) + 1 for source in news))
        if used > budget * (1 - _OF_TEXTS):
            break
        extra.update(dict.fromkeys(news))
        room -= sum(size(_texts(rows[row])) + 1 for row in texts)
        if room >= 0:
            taken.update({row: number for number, row in enumerate(texts, len(taken))})
        shown.append((node, lists, [row for row in examples[place] if row in taken]))
    return _assembled(graph, shown, [_texts(rows[row]) for row in taken], taken)


def _assembled(graph: GraphMaterial, shown: Sequence[Shown], texts: list[list[Any]],
               taken: dict[int, int]) -> dict[str, Any]:
    """Number the shown keywords and, after them, neighbours that cannot be opened."""
    places = {int(node.node_id): place for place, (node, _, _) in enumerate(shown)}
    for _, lists, _ in shown:
        for pairs in lists:
            for source, _ in pairs:
                places.setdefault(source, len(places))
    stand = _places(shown, places)
    nodes = [[int(node.cluster_size), int(node.in_positive), int(node.in_negative), int(node.out_positive),
              int(node.out_negative), *([value for source, count in pairs for value in (places[source], count)]
                                        for pairs in lists), [taken[row] for row in rows],
              int(stand[place][0]), int(stand[place][1]), int(node.community)]
             for place, (node, lists, rows) in enumerate(shown)]
    return {"names": [graph.names[number] for number in places], "nodes": nodes, "examples": texts,
            "total": graph.total}


def _places(shown: Sequence[Shown], places: Mapping[int, int]) -> np.ndarray:
    """Return where the shown keywords stand on the map (n, 2)."""
    edges = [(places[source], target, sign) for target, (_, lists, _) in enumerate(shown)
             for pairs, sign in zip(lists, (1, -1), strict=True) for source, _ in pairs if places[source] < len(shown)]
    source, target, sign = np.array(edges, dtype=np.int64).reshape(-1, 3).T
    return layout.places(len(shown), source, target, sign)


def neighbours_of(edges: pd.DataFrame) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return the strongest sources and their counts by target and sign."""
    ordered = edges.sort_values(["target", "sign", "count", "source"], ascending=[True, False, False, True])
    ordered = ordered.groupby(["target", "sign"], sort=False).head(NEIGHBOURS)
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for target, source, sign, count in zip(ordered["target"].tolist(), ordered["source"].tolist(),
                                           ordered["sign"].tolist(), ordered["count"].tolist(), strict=True):
        found.setdefault((target, sign), []).append((source, count))
    return found


def _examples_of(keywords: Sequence[str], examples: pd.DataFrame) -> list[list[int]]:
    """Return the rows of a few examples for each keyword: of its cluster, else with it as output or negative."""
    rows: dict[tuple[str, str], list[int]] = {}
    for column in _ROLES:
        for row, word in enumerate(examples[column].tolist()):
            if len(rows.setdefault((column, word), [])) < EXAMPLES_EACH:
                rows[column, word].append(row)
    return [next((rows[column, word] for column in _ROLES if rows.get((column, word))), []) for word in keywords]


def _texts(row: Any) -> list[Any]:
    texts = [None if text is None else text if len(text) <= LETTERS else text[:LETTERS - 1] + "…"
             for text in (row.source, row.target, row.negative)]
    return [int(row.example_id), row.keyword, row.output_keyword, row.negative_keyword, *texts]


def _examples(paths: DatasetPaths, keywords: pd.Series) -> pd.DataFrame:
    """Return training examples that have the keywords, a few for each, with their texts."""
    columns = ["example_id", *_ROLES, "source", "target", "negative"]
    if not all(paths.table(kind).exists() for kind in ("clusters", "examples", "texts")):
        return pd.DataFrame(columns=columns)
    chosen = _clusters(paths, keywords)
    found = _members(paths, chosen["example_id"])
    found = chosen.merge(found, on="example_id").sort_values("example_id")
    roles = {"source": "source_id", "target": "target_id", "negative": "negative_id"}
    wanted = pd.concat([found[column] for column in roles.values()]).dropna().astype("int64").drop_duplicates()
    texts = _selected(paths, TEXTS, "text_id", wanted, ["text_id", "text"]).set_index("text_id")["text"]
    found = found.assign(**{role: found[column].map(texts) for role, column in roles.items()})[columns]
    return found.astype(object).where(found.notna(), None).reset_index(drop=True)


def _members(paths: DatasetPaths, wanted: Iterable[int]) -> pd.DataFrame:
    """Return the text ids of examples; those of plain texts have a source alone."""
    schema = examples_schema(paths.table("examples"))
    if schema is EXAMPLES:
        return _selected(paths, schema, "example_id", wanted, ["example_id", "source_id", "target_id", "negative_id"])
    found = _selected(paths, schema, "example_id", wanted, ["example_id", "text_id"], "examples")
    return found.rename(columns={"text_id": "source_id"}).assign(target_id=None, negative_id=None)


def _clusters(paths: DatasetPaths, keywords: pd.Series) -> pd.DataFrame:
    """Return the first rows of table ``clusters`` for each keyword, in each of its roles."""
    words = pa.array(keywords.astype(str), pa.string())
    pieces: dict[str, list[pd.DataFrame]] = {role: [] for role in _ROLES}
    for batch in read_batches(paths.table("clusters"), CLUSTERS, rows=_ROWS):
        for role, found in pieces.items():
            rows = batch.filter(pc.is_in(batch[role], value_set=words)).to_pandas()
            found.append(rows.groupby(role, sort=False).head(EXAMPLES_EACH))
    heads = [pd.concat(found).groupby(role, sort=False).head(EXAMPLES_EACH) for role, found in pieces.items() if found]
    return pd.concat(heads).drop_duplicates() if heads else pd.DataFrame(columns=["example_id", *_ROLES])


def _selected(paths: DatasetPaths, schema: TableSchema, column: str, values: Iterable[int],
              columns: list[str] | None = None, table: str | None = None) -> pd.DataFrame:
    """Return the rows of a table whose ``column`` is among ``values``, read in pieces; its file may have another name.

    ``table`` is that name.
    """
    wanted, path = pa.array(sorted(set(values)), pa.int64()), paths.table(table or schema.name)
    pieces = [batch.filter(pc.is_in(batch[column].cast(pa.int64()), value_set=wanted))
              for batch in read_batches(path, schema, columns, _ROWS)]
    return pa.concat_tables(pieces).to_pandas() if pieces else read_frame(path, schema, columns)
