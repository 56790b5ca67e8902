"""``keycontrast graph``: a phrase of the phrase graph, or a keyword of HCL's graph, with its neighbours and texts."""

import re
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from keycontrast.cells import print_rows, printable
from keycontrast.errors import InputError
from keycontrast.files import atomic_file
from keycontrast.picture import svg_of
from keycontrast.reading import is_unicode
from keycontrast.text.normal_form import normal_form
from pipeline.datasets import dataset_with
from stages.common import schemas
from stages.common.paths import DatasetPaths
from stages.common.tables import read_table

DRAWINGS = Path(".keycontrast") / "graphs"
_EXAMPLES = 3


@dataclass(frozen=True)
class Graph:
    """The phrase graph of a data set or, if signed, HCL's keyword graph."""

    paths: DatasetPaths
    signed: bool = False

    @classmethod
    def of(cls, dataset: str | None, signed: bool) -> "Graph":
        """Return the graph of the data set of that name, or of the only one."""
        return cls(dataset_with((schemas.NODES if signed else schemas.PHRASE_NODES).name, dataset), signed)

    @property
    def schemas(self) -> tuple[schemas.TableSchema, schemas.TableSchema]:
        """Schemas of its nodes and of its edges."""
        return (schemas.NODES, schemas.EDGES) if self.signed else (schemas.PHRASE_NODES, schemas.PHRASE_EDGES)

    def nodes(self, where: pc.Expression) -> pd.DataFrame:
        """Return the nodes that pass ``where``."""
        return _rows(self.paths, self.schemas[0], where)

    def edges(self, where: pc.Expression) -> pd.DataFrame:
        """Return the edges that pass ``where``, an expression over ``target`` and ``source``."""
        edges = _rows(self.paths, self.schemas[1], where)
        return edges if self.signed else edges.rename(columns={"weight": "count"}).assign(sign=1)


@dataclass(frozen=True)
class Neighbourhood:
    """Part of a graph: nodes by id, the centre first, with ``hops`` and the ``sign`` of the edge that reached them."""

    nodes: pd.DataFrame
    edges: pd.DataFrame     # no self loops
    left_out: dict[int, int]    # number of neighbours of the centre beyond the limit, by sign


def node_of(graph: Graph, keyword: str) -> int:
    """Return the node id of ``keyword``, as written or in normal form; an error names the nearest keywords."""
    if not is_unicode(keyword):
        raise InputError(f"{keyword}: not valid in the encoding of this terminal.")
    for name in dict.fromkeys((keyword, normal_form(keyword))):
        nodes = graph.nodes(pc.field("keyword") == name)
        if len(nodes):
            return int(nodes["node_id"].iloc[0])
    similar = near_keywords(graph.paths.table(graph.schemas[0].name), keyword)
    hint = f"similar keywords: {', '.join(map(repr, similar))}" if similar else "it has no similar keyword"
    nodes_are = "keywords of training texts" if graph.signed else "best phrases of each text"
    raise InputError(f"the graph of {graph.paths.name} has no {printable(keyword)!r}; {hint}. Its nodes are the "
                     f"{nodes_are}.")


def near_keywords(nodes: Path, keyword: str) -> list[str]:
    """Return keywords that contain ``keyword``, are contained in it, or are spelt like it, the best first."""
    wanted = normal_form(keyword)
    if not wanted:
        return []
    query = """
        SELECT keyword FROM (
            SELECT keyword, jaro_winkler_similarity(keyword, $wanted) AS alike,
                   (contains(keyword, $wanted) OR contains(' ' || $wanted || ' ', ' ' || keyword || ' ')) AS part
            FROM nodes WHERE keyword <> $none)
        WHERE part OR alike > 0.8 ORDER BY part DESC, alike DESC, keyword LIMIT 6"""
    with duckdb.connect(":memory:") as connection:
        connection.register("nodes", read_table(nodes, columns=["keyword"]))
        rows = connection.execute(query, {"wanted": wanted, "none": schemas.NO_KEYWORD}).fetchall()
    return [printable(keyword) for keyword, in rows]


def neighbourhood(graph: Graph, centre: int, limit: int | None, hops: int) -> Neighbourhood:
    """Return the nodes within ``hops`` edges of node ``centre``, in either direction.

    Per node and sign, the ``limit`` neighbours of the largest count are followed, or all if it is None.
    """
    reached = frontier = pd.DataFrame({"node_id": [centre], "sign": [0], "hops": [0]})
    left_out: dict[int, int] = {}
    for hop in range(1, hops + 1):
        neighbours = _neighbours(graph, frontier["node_id"])
        neighbours = neighbours[~neighbours["node_id"].isin(reached["node_id"])]
        kept = neighbours if limit is None else neighbours[neighbours.groupby(["parent", "sign"]).cumcount() < limit]
        if hop == 1:
            all_signs, kept_signs = neighbours["sign"].value_counts(), kept["sign"].value_counts()
            left_out = all_signs.sub(kept_signs, fill_value=0).astype(int).to_dict()
        frontier = kept.drop_duplicates("node_id").assign(hops=hop)[list(reached.columns)]
        if frontier.empty:
            break
        reached = pd.concat([reached, frontier], ignore_index=True)
    ids = pa.array(reached["node_id"], pa.int32())
    nodes = graph.nodes(pc.field("node_id").isin(ids)).set_index("node_id")
    edges = graph.edges(pc.field("target").isin(ids) & pc.field("source").isin(ids))
    return Neighbourhood(reached.set_index("node_id").join(nodes), edges[edges["target"] != edges["source"]], left_out)


def _rows(paths: DatasetPaths, schema: schemas.TableSchema, where: pc.Expression) -> pd.DataFrame:
    """Return the rows of a table that pass ``where``."""
    return read_table(paths.table(schema.name), schema, filters=where).to_pandas()


def _neighbours(graph: Graph, parents: pd.Series) -> pd.DataFrame:
    """Return the neighbours of nodes, the strongest first; of two edges the incoming one decides the sign."""
    wanted = pa.array(parents, pa.int32())
    edges = graph.edges(pc.field("target").isin(wanted) | pc.field("source").isin(wanted))
    both = pd.concat([edges.rename(columns={"target": "parent", "source": "node_id"}),
                      edges.rename(columns={"source": "parent", "target": "node_id"})])    # incoming edges first
    both = both[both["parent"].isin(parents) & (both["parent"] != both["node_id"])]
    pairs = both.groupby(["parent", "node_id"], as_index=False).agg(sign=("sign", "first"), count=("count", "sum"))
    return pairs.sort_values(["parent", "count", "node_id"], ascending=[True, False, True])


def direct_neighbours(part: Neighbourhood) -> pd.DataFrame:
    """Return the centre's neighbours, positive ones first, the strongest first.

    ``receives`` and ``gives`` are the signed counts of the edges to and from the centre, ``strength`` is the sum of
    their absolute values.
    """
    centre = part.nodes.index[0]
    neighbours = part.nodes[part.nodes["hops"] == 1]
    signed = part.edges.assign(value=part.edges["sign"].astype("int64") * part.edges["count"])
    incoming = signed[signed["target"] == centre].set_index("source")["value"]
    outgoing = signed[signed["source"] == centre].set_index("target")["value"]
    table = neighbours.assign(receives=incoming.reindex(neighbours.index, fill_value=0),
                              gives=outgoing.reindex(neighbours.index, fill_value=0)).reset_index()
    table["strength"] = table["receives"].abs() + table["gives"].abs()
    return table.sort_values(["sign", "strength", "node_id"], ascending=[False, False, True])


def example_texts(paths: DatasetPaths, keyword: str) -> pd.DataFrame:
    """Return the first training examples of a keyword's cluster, or else those with it in their output or negative.

    Column ``role`` says where they have it: input, output or negative.
    """
    columns = {"input": "keyword", "output": "output_keyword", "negative": "negative_keyword"}
    role, rows = "", pd.DataFrame()
    while columns and rows.empty:
        role = next(iter(columns))
        rows = _rows(paths, schemas.CLUSTERS, pc.field(columns.pop(role)) == keyword)
    ids = rows["example_id"].sort_values().head(_EXAMPLES)
    examples = _rows(paths, schemas.EXAMPLES, pc.field("example_id").isin(pa.array(ids, pa.int64())))
    roles = ["source", "target", "negative"]
    used = pa.array(pd.concat([examples[f"{name}_id"].dropna() for name in roles]), pa.int64())
    texts = _rows(paths, schemas.TEXTS, pc.field("text_id").isin(used)).set_index("text_id")["text"]
    return pd.DataFrame({"example_id": examples["example_id"], "role": role,
                         **{name: examples[f"{name}_id"].map(texts) for name in roles}})


def holding_texts(paths: DatasetPaths, node: int) -> pd.DataFrame:
    """Return the first texts with a phrase: columns ``text_id`` and ``text``."""
    ids = _rows(paths, schemas.PHRASE_TEXTS, pc.field("node_id") == node)["text_id"].head(_EXAMPLES)
    return _rows(paths, schemas.TEXTS, pc.field("text_id").isin(pa.array(ids, pa.int64())))[["text_id", "text"]]


def drawing_of(part: Neighbourhood) -> str:
    """Return the drawing of a part of a graph, the first node its centre; both directions of an edge are one line."""
    places = pd.Series(range(len(part.nodes)), part.nodes.index)
    shown = part.nodes if "texts" in part.nodes else part.nodes.rename(columns={"cluster_size": "texts"})
    nodes = pa.table({"node_id": places.to_numpy(), **{
        name: shown[name].to_numpy() for name in ("keyword", "texts", "centrality", "component", "community")}})
    ends = np.sort(np.stack([places[part.edges[end]].to_numpy() for end in ("source", "target")], axis=1), axis=1)
    edges = pd.DataFrame({"source": ends[:, 0], "target": ends[:, 1], "sign": part.edges["sign"].to_numpy(),
                          "weight": part.edges["count"].to_numpy()})
    summed = edges.groupby(["source", "target", "sign"], as_index=False)["weight"].sum()
    unit = "text" if "texts" in part.nodes else "training example"
    return svg_of(nodes, pa.Table.from_pandas(summed, preserve_index=False), len(places), centre=0, unit=unit)


def show(keyword: str, dataset: str | None, signed: bool, limit: int, hops: int, svg: Path | None,
         console: Console) -> None:
    """Print a keyword's node, neighbours and texts in one of a data set's graphs, and draw its neighbourhood."""
    graph = Graph.of(dataset, signed)
    paths = graph.paths
    part = neighbourhood(graph, node_of(graph, keyword), limit, hops)
    name = str(part.nodes.iloc[0]["keyword"])
    _print_node(part, graph, console)
    _print_neighbours(part, signed, console)
    for far_hops, far in part.nodes[part.nodes["hops"] > 1].groupby("hops"):
        console.print(Text(f"\n{far_hops} edges away ({len(far)}): ", style="italic")
                      + Text(", ".join(map(printable, sorted(far["keyword"])))))
    console.print()
    if signed:
        examples = example_texts(paths, name)
        if len(examples):
            role, texts = examples["role"].iloc[0], examples.drop(columns="role").astype(object)
            print_rows(["example", "input", "output", "negative"], texts.where(texts.notna(), None).to_numpy().tolist(),
                       console, f"Training examples that have it as {role} keyword")
    else:
        texts = holding_texts(paths, part.nodes.index[0])
        print_rows(["text", ""], texts.to_numpy().tolist(), console, "Texts that hold it")
    slug = re.sub(r"[^\w.+#]+", "-", name).strip("-.")[:60] or "keyword"    # c, c++ and c# are three
    path = svg or DRAWINGS / f"{paths.name}-{slug}{'-signed' if signed else ''}.svg"
    with atomic_file(path) as temporary:
        temporary.write_text(drawing_of(part), encoding="utf-8")
    console.print(Text(f"Drawing: {path}"), soft_wrap=True)


def _print_node(part: Neighbourhood, graph: Graph, console: Console) -> None:
    node = part.nodes.iloc[0]
    columns = read_table(graph.paths.table(graph.schemas[0].name), columns=["centrality", "component", "community"])
    rank = pc.sum(pc.greater(columns["centrality"], node["centrality"])).as_py() + 1
    sizes = {name: pc.sum(pc.equal(columns[name], int(node[name]))).as_py() for name in ("component", "community")}
    name = printable(str(node["keyword"]))
    console.print(Text(f"{name}  (node {part.nodes.index[0]} of {graph.paths.name})", style="bold"))
    own = {"cluster": f"{node['cluster_size']:,} training examples whose input has this keyword",
           "receives from": f"{node['in_positive']:,} positive, {node['in_negative']:,} negative neighbours",
           "gives to": f"{node['out_positive']:,} positively, {node['out_negative']:,} negatively",
           } if graph.signed else {"texts": f"{node['texts']:,}", "neighbours": f"{node['degree']:,}"}
    for label, value in {
            **own, "centrality": f"{node['centrality']:.3g}, rank {rank:,} of {columns.num_rows:,}",
            "community": f"{node['community']}, {sizes['community']:,} keywords",
            "component": f"{node['component']}, {sizes['component']:,} keywords"}.items():
        console.print(Text(f"{label:13}", style="dim") + Text(f"  {value}"), soft_wrap=True)


def _print_neighbours(part: Neighbourhood, signed: bool, console: Console) -> None:
    neighbours = direct_neighbours(part)
    console.print()
    if neighbours.empty:
        console.print(Text("It has no neighbours."))
    elif signed:
        neighbours = neighbours.assign(sign=neighbours["sign"].map({1: "+", -1: "−"}),
                                       **{name: neighbours[name].map(_signed) for name in ("receives", "gives")})
        columns = ["sign", "keyword", "receives", "gives", "cluster_size", "community"]
        print_rows(["sign", "neighbour", "it receives", "it gives", "cluster", "community"],
                   neighbours[columns].to_numpy().tolist(),
                   console, "Neighbours")
    else:
        print_rows(["neighbour", "shared texts", "its texts", "community"],
                   neighbours[["keyword", "strength", "texts", "community"]].to_numpy().tolist(), console,
                   "Phrases that share texts with it")
    notes = [f"{count} more {name}neighbours" for sign, name in ((1, "positive " if signed else ""), (-1, "negative "))
             if (count := part.left_out.get(sign, 0))]
    if notes:
        console.print(Text(f"{' and '.join(notes)} with smaller counts are left out; --neighbours shows more."))


def _signed(count: int) -> str:
    return f"{count:+,}".replace("-", "−") if count else "·"
