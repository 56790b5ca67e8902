"""What other programs read: a graph of a data set, and a trained model in a form that its track has.

The graph is GraphML, written as it is read: one of any size needs the memory of one batch. networkx, Gephi, igraph and
Cytoscape read it. Nodes are named by their keyword. An edge of HCL's graph points the way that messages go: its target
receives from its source.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from keycontrast.cells import printable
from keycontrast.errors import InputError, nearest
from keycontrast.files import atomic_file, atomic_folder
from pipeline.model_card import write_card
from pipeline.neighbourhood import Graph, neighbourhood, node_of
from stages.common.figures import xml_text
from stages.common.paths import ModelPaths
from stages.common.schemas import TableSchema
from stages.common.settings import Params
from stages.common.tables import read_batches
from stages.tracks.registry import seed_of, track_of_model

FORMATS = ("graphml",)
_OPENING = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""
_NAMES = ("node_id", "keyword", "target", "source")     # they name nodes and the ends of edges


@dataclass(frozen=True)
class Written:
    """What an export holds: numbers of nodes and edges, and of keywords in which characters were replaced."""

    nodes: int
    edges: int
    replaced: int


def export_model(params: Params, name: str, folder: Path, console: Console, seed: int | None = None,
                 licence: str | None = None) -> None:
    """Write model ``name`` into ``folder``, whole or not at all, and say what it is.

    Args:
        params: in force.
        name: of a model.
        folder: to be made; one that is there must be empty.
        console: where to print.
        seed: of the model; None takes the first that it has.
        licence: stated in its card, as the hub abbreviates it.

    Raises:
        InputError: no such model or seed, one that no class of the library can express, or a folder with something in
            it.
    """
    track = track_of_model(params, name)
    paths = ModelPaths(name, seed_of(name, params.model_seeds(name), seed))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already. Name a folder that is not, or empty this one.")
    with atomic_folder(folder) as unfinished:
        said = import_module(f"stages.tracks.{track.name}.export").exported(params, paths, unfinished, folder)
        write_card(params, track, paths, unfinished, licence)
        for file in filter(Path.is_file, unfinished.rglob("*")):
            file.chmod(0o644)   # the libraries that write weights differ in it
    console.print(Text(printable(f"{folder}: {said}", keep="\n")), soft_wrap=True)


def export_graph(file: Path, dataset: str | None, signed: bool, keyword: str | None, hops: int, form: str | None,
                 console: Console) -> None:
    """Write one of a data set's graphs, or the part around ``keyword``, to ``file``, whole or not at all.

    Raises:
        InputError: artifacts are missing, there is no such keyword, or the format is not known.
    """
    _check_format(file, form)
    graph, ids = Graph.of(dataset, signed), None
    if keyword is not None:
        ids = pa.array(neighbourhood(graph, node_of(graph, keyword), None, hops).nodes.index, pa.int32())
    with atomic_file(file) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        written = write_graphml(stream, graph, ids)
    console.print(Text(f"{file}: {written.nodes:,} keywords, {written.edges:,} edges of {graph.paths.name}"),
                  soft_wrap=True)
    if written.replaced:
        console.print(Text(f"{written.replaced:,} keywords hold control characters that XML forbids; U+FFFD stands in "
                           f"their place."), soft_wrap=True)


def _check_format(file: Path, form: str | None) -> None:
    form = file.suffix[1:].lower() if form is None else form.lower()
    if form not in FORMATS:
        raise InputError(f"{file}: no export to {form or 'a file without ending'!r}; {nearest(form, FORMATS)} Name the "
                         f"file so, or give --format.")


def write_graphml(stream: TextIO, graph: Graph, ids: pa.Array | None = None) -> Written:
    """Write nodes and edges of ``graph``, only those among ``ids`` if given, in the order of the tables.

    A node is named by its keyword; all other columns become attributes, described as in the schemas. A pair of
    keywords has one edge in a direction, so that no two are parallel.
    """
    nodes, edges = graph.schemas
    stream.write(_OPENING)
    for kind, schema in (("node", nodes), ("edge", edges)):
        stream.writelines(_keys(kind, schema))
    direction = "directed" if graph.signed else "undirected"
    stream.write(f'<graph id={quoteattr(xml_text(graph.paths.name))} edgedefault="{direction}">\n')
    names: dict[int, str] = {}
    taken: set[str] = set()
    replaced = written = 0
    for batch in _batches(graph, nodes, ids, ("node_id",)):
        for node, keyword in zip(batch["node_id"].to_pylist(), batch["keyword"].to_pylist(), strict=True):
            name = xml_text(keyword)
            replaced += name != keyword
            names[node] = f"{name} ({node})" if name in taken else name     # two may differ in what was replaced alone
            taken.add(names[node])
        stream.writelines(_elements("node", nodes, [
            f"id={quoteattr(names[node])}" for node in batch["node_id"].to_pylist()], batch))
    for batch in _batches(graph, edges, ids, ("target", "source")):
        written += batch.num_rows
        ends = zip(batch["source"].to_pylist(), batch["target"].to_pylist(), strict=True)
        stream.writelines(_elements("edge", edges, [
            f"source={quoteattr(names[one])} target={quoteattr(names[other])}" for one, other in ends], batch))
    stream.write("</graph>\n</graphml>\n")
    return Written(len(names), written, replaced)


def _attributes(schema: TableSchema) -> Iterator[tuple[str, pa.DataType, str]]:
    """Yield name, type and meaning of the columns of ``schema`` that are attributes of a node or an edge."""
    return (column for column in schema.fields if column[0] not in _NAMES)


def _keys(kind: str, schema: TableSchema) -> Iterator[str]:
    for name, data, meaning in _attributes(schema):
        form = "double" if pa.types.is_floating(data) else "long"
        yield (f'<key id="{kind}_{name}" for="{kind}" attr.name="{name}" attr.type="{form}">'
               f"<desc>{escape(meaning)}</desc></key>\n")


def _batches(graph: Graph, schema: TableSchema, ids: pa.Array | None, ends: Sequence[str]) -> Iterator[pa.Table]:
    for batch in read_batches(graph.paths.table(schema.name), schema):
        for name in ends if ids is not None else ():
            batch = batch.filter(pc.is_in(batch[name], value_set=ids))
        yield batch


def _elements(kind: str, schema: TableSchema, openings: Sequence[str], batch: pa.Table) -> Iterator[str]:
    names = [name for name, _, _ in _attributes(schema)]
    columns = [batch[name].to_pylist() for name in names]
    for opening, values in zip(openings, zip(*columns, strict=True), strict=True):
        data = "".join(f'<data key="{kind}_{name}">{value}</data>' for name, value in zip(names, values, strict=True))
        yield f"<{kind} {opening}>{data}</{kind}>\n"
