"""What the page says of a data set: counts, keywords by method and their neighbours; what is not there is left out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.ticker import MaxNLocator

from stages.common.figures import PALETTE, Plot, drawing, file_name, finished
from stages.common.methods import KEYWORDS, METHODS, NAMING, SIDE_BY_SIDE
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD, NODES, TEXTS, TableSchema
from stages.common.tables import read_batches, read_frame, read_metadata, read_table
from stages.keywords.pos_frequency import pos_plot
from stages.results.gather import read_json
from stages.results.page.explorer import GraphMaterial, read_graph
from stages.results.page.labels import number, percentage, rows_of, stage_label

# In the order in which a data set passes through them.
_STAGES = ("ingest", "annotate", "textrank", "pair_classifier", "attribution", "word_vectors", "psi", "s_tagger",
           "side_by_side", "keywords", "graph", "node_vectors", "paraphrase_items", "linear_floor")
_TABLES = ("examples", "texts", "tokens", *NAMING, "word_vectors", "s_tags", "side_by_side", "keywords",
           "phrase_nodes", "clusters", "nodes", "edges", "node_vectors", "paraphrase_items", "linear_floor")
# What there is of a data set as soon as its graph is: tables, and those of them that tell what stages counted.
_FIRST_TABLES = ("examples", "texts", "tokens", "keywords", "phrase_nodes")
_FIRST_COUNTS = {"ingest": "examples", "keywords": "keywords", "graph": "phrase_nodes"}
_METHODS = {name: method.title for name, method in METHODS.items()}
_KEYWORD_METHODS = {**_METHODS, "idf": "IDF (fall-back)", "none": "no keyword"}
# They bound what a contrast over keywords can do.
_BOUNDS = {"share_input_equals_output": "input and output have the same keyword",
           "share_output_equals_negative": "output and negative have the same keyword",
           "share_with_negative_neighbour": "the output keyword has at least one negative neighbour"}
_TOP = 10           # keywords of each method
_LISTED = 12        # phrases whose neighbours are listed
_NEIGHBOURS = 5
_BESIDE = 8         # texts whose keywords are shown method by method


@dataclass(frozen=True)
class Dataset:
    """One data set: its block of the params, size in one line, and tables of keywords and of its graph as texts."""

    name: str
    settings: Mapping[str, Any]
    size: str = ""
    top_methods: Sequence[str] = ()
    tops: Sequence[Sequence[str]] = ()
    listed: Sequence[tuple[str, str, str]] = ()
    methods: Sequence[tuple[str, str]] = ()
    beside_methods: Sequence[str] = ()
    beside: Sequence[tuple[str, list[str]]] = ()
    agreement: Sequence[tuple[str, ...]] = ()
    parts_of_speech: Plot | None = None
    counts: Sequence[tuple[str, list[tuple[str, str]]]] = ()
    keyword_counts: Sequence[tuple[str, str]] = ()
    graph_counts: Sequence[tuple[str, str]] = ()
    bounds: Sequence[tuple[str, str]] = ()
    degrees: Plot | None = None
    graph: GraphMaterial | None = None
    fallbacks: Sequence[str] = ()
    encoders: Sequence[dict[str, Any]] = field(default_factory=list)

    @property
    def has_keywords(self) -> bool:
        """Whether there is anything to say of its keywords."""
        return bool(self.tops or self.keyword_counts or self.methods)

    @property
    def has_graph(self) -> bool:
        """Whether it has a keyword graph, of HCL."""
        return bool(self.graph_counts)


def read_dataset(name: str, settings: Mapping[str, Any], first: bool = False) -> Dataset:
    """Return what the page says of a data set; ``first``: of its keywords and its phrase graph alone."""
    paths = DatasetPaths(name)
    counts = ({stage: read_metadata(paths.table(kind))["counts"] for stage, kind in _FIRST_COUNTS.items()} if first
              else {stage: read_json(paths.metrics(stage), f"{stage}@{name}") for stage in _STAGES
                    if paths.metrics(stage).exists()})
    tables = [path for kind in (_FIRST_TABLES if first else _TABLES) if (path := paths.table(kind)).exists()]
    metadata = {path.stem: read_metadata(path) for path in tables}
    keywords, graph = _optional(paths, KEYWORDS), read_graph(paths)
    nodes = None if first else _optional(paths, NODES)
    of_graph = {} if first else dict(counts.get("graph", {}))
    of_phrases = counts.get("graph", {}) if first else of_graph.pop("phrases", {})
    tops = read_tops(paths, keywords, not first)
    found = Dataset(
        name, settings, size_of(0 if keywords is None else len(keywords), of_phrases), *top_table(tops),
        listed=neighbour_table(graph), methods=_methods(keywords),
        counts=[(stage_label(stage), list(rows_of(content))) for stage, content in counts.items()
                if stage not in ("keywords", "graph", "side_by_side")],
        keyword_counts=list(rows_of(counts.get("keywords", {}))),
        graph_counts=list(rows_of({key: value for key, value in of_graph.items() if key not in _BOUNDS})),
        bounds=[(text, percentage(of_graph[key])) for key, text in _BOUNDS.items() if key in of_graph],
        degrees=degree_plot(name, nodes), graph=graph,
        fallbacks=list(dict.fromkeys(f"{stem}: {text}" for stem, one in metadata.items()
                                     for text in one.get("fallbacks", []))),
        encoders=[one["models"]["encoder"] for one in metadata.values() if "encoder" in one.get("models", {})])
    return found if first else replace(found, **_by_method(paths, counts.get("side_by_side", {})))


def _by_method(paths: DatasetPaths, counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is told of the methods side by side: a few texts, agreement, and parts of speech."""
    pairs, counted = counts.get("agreement", {}), counts.get("pos_frequency")
    found: dict[str, Any] = {"agreement": [
        (" and ".join(_METHODS.get(name, name) for name in pair.split("~")), number(one["texts"]),
         *(percentage(one[share]) for share in ("same_best", "shared_word", "jaccard")))
        for pair, one in pairs.items()]}
    file = paths.pos_frequency / "pos_frequency.csv"
    if counted is not None and file.exists():
        plot = pos_plot(pd.read_csv(file), counted["sources"], counted["split"])
        found["parts_of_speech"] = replace(plot, name=f"{plot.name}-{paths.name}")
    table = _optional(paths, SIDE_BY_SIDE)
    if table is not None:
        methods = [name for name in table if name != "text_id"]
        named = table[[all(row[name] is not None and len(row[name]) for name in methods)
                       for _, row in table.iterrows()]].head(_BESIDE)
        texts = read_table(paths.table(TEXTS.name), TEXTS, ["text_id", "text"],
                           pc.is_in(pc.field("text_id"), pa.array(named["text_id"], pa.int64())))
        texts = dict(zip(*(column.to_pylist() for column in texts.columns), strict=True))
        found |= {"beside_methods": [_METHODS.get(name, name) for name in methods],
                  "beside": [(texts[row["text_id"]], [", ".join(row[name]) for name in methods])
                             for _, row in named.iterrows()]}
    return found


def _optional(paths: DatasetPaths, schema: TableSchema) -> pd.DataFrame | None:
    path = paths.table(schema.name)
    return read_frame(path, schema) if path.exists() else None


def _methods(keywords: pd.DataFrame | None) -> list[tuple[str, str]]:
    counts = {} if keywords is None else keywords["method"].value_counts().to_dict()
    return [(_KEYWORD_METHODS.get(method, method), f"{number(count)} text{'' if count == 1 else 's'}, "
             f"{percentage(count / sum(counts.values()))}") for method, count in sorted(counts.items())]


def degree_plot(dataset: str, nodes: pd.DataFrame | None) -> Plot | None:
    """Return how many nodes receive from how many positive and negative neighbours; None without a graph."""
    if nodes is None or nodes.empty:
        return None
    top = int(nodes[["in_positive", "in_negative"]].to_numpy().max())
    with drawing(5.6, 2.4) as figure:
        axes = figure.add_subplot()
        for column, colour, shift, name in (("in_positive", PALETTE["good"], -0.2, "positive"),
                                            ("in_negative", PALETTE["bad"], 0.2, "negative")):
            if not nodes[column].any() and column == "in_negative":
                continue    # plain texts have no negative edges
            counts = np.bincount(nodes[column], minlength=top + 1)
            axes.bar(np.arange(top + 1) + shift, counts, width=0.4, color=colour, label=f"{name} neighbours")
        axes.set_xlabel("neighbours that a keyword receives from")
        axes.set_ylabel("keywords")
        axes.grid(axis="x", visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend()
        means = nodes[["in_positive", "in_negative"]].mean()
        return finished(figure, file_name("degrees", dataset), "Neighbours per keyword",
                        f"on average {means['in_positive']:.2f} positive and {means['in_negative']:.2f} negative, "
                        f"at most {top} of one sign")


def read_tops(paths: DatasetPaths, keywords: pd.DataFrame | None, compared: bool) -> dict[str, list[tuple[str, int]]]:
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
    return {name: sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:_TOP] for name, counted in counts.items()
            if counted}


def _best(lists: Any) -> Iterator[str]:
    """Yield the first of each list that has one."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    filled = lists.filter(pc.greater(pc.list_value_length(lists), 0))
    yield from pc.list_element(filled, 0).to_pylist()


def top_table(tops: Mapping[str, Sequence[tuple[str, int]]]) -> tuple[list[str], list[list[str]]]:
    """Return the names of methods, and rows of their keywords from the most frequent down."""
    lists = [[f"{word} ({number(count)})" for word, count in found] for found in tops.values()]
    return [_METHODS.get(name, "keyword") for name in tops], [list(row) for row in zip_longest(*lists, fillvalue="")]


def neighbour_table(graph: GraphMaterial | None) -> list[tuple[str, str, str]]:
    """Return the largest phrases, each with its texts and its strongest neighbours."""
    return [] if graph is None else [
        (row.keyword, number(row.texts), ", ".join(f"{graph.names[other]} ({number(weight)})" for other, weight in
                                                   graph.neighbours.get(row.node_id, [])[:_NEIGHBOURS]) or "–")
        for row in graph.nodes.head(_LISTED).itertuples()]


def size_of(texts: int, counts: Mapping[str, Any]) -> str:
    """Return how large a corpus of so many texts and its phrase graph (``counts`` of its stage) are, in one line."""
    said = [f"{number(texts)} texts"] if texts else []
    said += [f"{number(counts[name])} {label}" for name, label in (
        ("nodes", "phrases"), ("edges", "edges between them"), ("communities", "communities")) if name in counts]
    return " · ".join(said)
