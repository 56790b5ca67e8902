"""What other programs read: a graph of a data set, and a trained model in a form that its track has.

The graph is GraphML, which networkx, Gephi, igraph and Cytoscape read. Nodes are named by their keyword. An
edge of HCL's graph points the way that messages go: its target receives from its source.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

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
    with atomic_file(file) as temporary:
        nodes, edges, replaced = write_graphml(temporary, graph, ids)
    console.print(Text(f"{file}: {nodes:,} keywords, {edges:,} edges of {graph.paths.name}"), soft_wrap=True)
    if replaced:
        console.print(Text(f"{replaced:,} keywords hold control characters that XML forbids; U+FFFD stands in "
                           f"their place."), soft_wrap=True)


def _check_format(file: Path, form: str | None) -> None:
    form = file.suffix[1:].lower() if form is None else form.lower()
    if form not in FORMATS:
        raise InputError(f"{file}: no export to {form or 'a file without ending'!r}; {nearest(form, FORMATS)} Name the "
                         f"file so, or give --format.")


def write_graphml(file: Path, graph: Graph, ids: pa.Array | None = None) -> tuple[int, int, int]:
    """Write nodes and edges of ``graph``, only those among ``ids`` if given, in the order of the tables.

    A node is named by its keyword; all other columns become attributes. A pair of keywords has one edge in a
    direction, so that no two are parallel.

    Returns:
        Numbers of nodes, of edges, and of keywords in which characters were replaced.
    """
    import networkx as nx

    made: nx.Graph = nx.DiGraph() if graph.signed else nx.Graph()
    nodes, edges = graph.schemas
    names: dict[int, str] = {}
    replaced = 0
    for row in _rows(graph, nodes, ids, ("node_id",)):
        node, keyword = row.pop("node_id"), row.pop("keyword")
        name = xml_text(keyword)
        replaced += name != keyword
        names[node] = f"{name} ({node})" if name in made else name     # two may differ in what was replaced alone
        made.add_node(names[node], **row)
    made.add_edges_from((names[row.pop("source")], names[row.pop("target")], row)
                        for row in _rows(graph, edges, ids, ("target", "source")))
    nx.write_graphml(made, file)
    return len(names), made.number_of_edges(), replaced


def _rows(graph: Graph, schema: TableSchema, ids: pa.Array | None, ends: Sequence[str]) -> Iterator[dict[str, Any]]:
    for batch in read_batches(graph.paths.table(schema.name), schema):
        for name in ends if ids is not None else ():
            batch = batch.filter(pc.is_in(batch[name], value_set=ids))
        yield from batch.to_pylist()
