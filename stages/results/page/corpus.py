"""What the page says of a corpus first: its size, its most frequent keywords by method, and who stands beside them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.common.columns.side_by_side import SIDE_BY_SIDE
from stages.common.methods import METHODS
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import read_batches
from stages.results.page.explorer import GraphMaterial, neighbours_of
from stages.results.page.labels import number

TOP = 10            # keywords of each method
_LISTED = 12        # keywords whose neighbours are listed
_NEIGHBOURS = 5     # of each sign

Tops = Mapping[str, Sequence[tuple[str, int]]]


def read_tops(paths: DatasetPaths, keywords: pd.DataFrame | None, compared: bool) -> Tops:
    """Return by method the keywords that are the best of most texts, and of how many, ties by keyword.

    Where methods were not set side by side, or not yet (``compared``), the keywords that were chosen stand alone, under
    ``chosen``.
    """
    path = paths.table(SIDE_BY_SIDE.name)
    if compared and path.exists():
        counts: dict[str, Counter[str]] = {name: Counter() for name in METHODS}
        for batch in read_batches(path, SIDE_BY_SIDE):
            for name, counted in counts.items():
                if name in batch.column_names:
                    counted.update(_best(batch[name]))
    else:
        counts = {"chosen": Counter([] if keywords is None else keywords["keyword"].tolist())}
    for counted in counts.values():
        counted.pop(NO_KEYWORD, None)
    return {name: sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:TOP] for name, counted in counts.items()
            if counted}


def _best(lists: Any) -> Iterator[str]:
    """Yield the first of each list that has one."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    filled = lists.filter(pc.greater(pc.list_value_length(lists), 0))
    yield from pc.list_element(filled, 0).to_pylist()


def top_table(tops: Tops) -> tuple[list[str], list[list[str]]]:
    """Return the names of methods, and rows of their keywords from the most frequent down."""
    methods = {**{name: method.title for name, method in METHODS.items()}, "chosen": "keyword"}
    lists = [[f"{word} ({number(count)})" for word, count in found] for found in tops.values()]
    return [methods[name] for name in tops], [list(row) for row in zip_longest(*lists, fillvalue="")]


def neighbour_table(graph: GraphMaterial | None) -> list[tuple[str, str, str, str]]:
    """Return the largest keywords: each with its training examples and its strongest neighbours of each sign."""
    if graph is None:
        return []
    found = neighbours_of(graph.edges)

    def listed(node: int, sign: int) -> str:
        pairs = found.get((node, sign), [])[:_NEIGHBOURS]
        return ", ".join(f"{graph.names[source]} ({number(count)})" for source, count in pairs) or "–"

    return [(str(row.keyword), number(int(row.cluster_size)), listed(int(row.node_id), 1), listed(int(row.node_id), -1))
            for row in graph.nodes.head(_LISTED).itertuples()]


def size_of(texts: int, counts: Mapping[str, Any]) -> str:
    """Return how large a corpus and its graph are, in one line.

    Args:
        texts: that have a keyword, or may have one.
        counts: what stage ``graph`` reported; may be empty.
    """
    said = [f"{number(texts)} texts"] if texts else []
    said += [f"{number(int(counts['nodes']))} keywords"] if "nodes" in counts else []
    if "edges_positive" in counts:
        positive, negative = (number(int(counts[f"edges_{sign}"])) for sign in ("positive", "negative"))
        said.append(f"{positive} positive and {negative} negative edges between them" if counts["edges_negative"]
                    else f"{positive} edges between them")
    said += [f"{number(int(counts['communities']))} communities"] if "communities" in counts else []
    return " · ".join(said)
