"""A data set on the page: its size, its top keywords by method, and its phrase graph."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.common.methods import KEYWORDS, METHODS, SIDE_BY_SIDE
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import read_batches, read_frame, read_metadata
from stages.results.page.explorer import GraphMaterial, read_graph
from stages.results.page.tables import number

_METHODS = {name: method.title for name, method in METHODS.items()}
_TOP = 10           # keywords of each method


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
    lists = [[f"{word} ({number(count)})" for word, count in found] for found in tops.values()]
    return Dataset(name, settings, " · ".join(size), [_METHODS.get(method, "keyword") for method in tops],
                   [list(row) for row in zip_longest(*lists, fillvalue="")], graph)


def read_tops(paths: DatasetPaths, keywords: pd.DataFrame | None, compared: bool) -> dict[str, list[tuple[str, int]]]:
    """Return by method, or under ``chosen``, the keywords that are the best of most texts, and the number of these."""
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
    return {name: sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:_TOP] for name, counted in counts.items()
            if counted}


def _best(lists: Any) -> Iterator[str]:
    """Yield the first of each list that has one."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    filled = lists.filter(pc.greater(pc.list_value_length(lists), 0))
    yield from pc.list_element(filled, 0).to_pylist()
