"""``keycontrast export``: a graph as GraphML, a data set as Parquet files, or a trained model, for other programs.

An edge of HCL's graph points the way that messages go: its target receives from its source. Data sets and models have a
card in the form of the Hugging Face hub.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from huggingface_hub import DatasetCardData, EvalResult, ModelCardData
from rich.console import Console
from rich.text import Text

from keycontrast.cells import printable
from keycontrast.errors import InputError
from keycontrast.files import atomic_file, atomic_folder, sha256_of
from keycontrast.picture import xml_text
from pipeline.datasets import dataset_with
from pipeline.markdown import escaped, table
from pipeline.neighbourhood import Graph, neighbourhood, node_of
from stages.common.examples import structure_of
from stages.common.paths import DatasetPaths, ModelPaths, RunPaths
from stages.common.schemas import SPLITS, TableSchema
from stages.common.settings import Params
from stages.common.tables import ROW_GROUP, WRITTEN, check_pages, column_names, dataset_of, read_batches, read_metadata
from stages.common.training import DIGESTS_FILE, seal
from stages.ingest.files import data_files
from stages.tracks.common.track import Track
from stages.tracks.registry import seed_of, track_of_model

_PAIRS = """
    WITH refs AS (SELECT example_id, list(text ORDER BY place) AS "references" FROM (
        SELECT example_id, unnest(reference_ids) AS text_id, generate_subscripts(reference_ids, 1) AS place
        FROM examples WHERE split = $split) JOIN texts USING (text_id) GROUP BY example_id)
    SELECT e.example_id, s.text AS source, t.text AS target, n.text AS negative, r."references"
    FROM (SELECT * FROM examples WHERE split = $split) AS e
    JOIN texts AS s ON s.text_id = e.source_id JOIN texts AS t ON t.text_id = e.target_id
    LEFT JOIN texts AS n ON n.text_id = e.negative_id LEFT JOIN refs AS r ON r.example_id = e.example_id
    ORDER BY e.example_id"""
_SINGLE = """
    SELECT e.example_id, t.text{label} FROM examples AS e JOIN texts AS t ON t.text_id = e.text_id
    WHERE split = $split ORDER BY e.example_id"""
_MEANING = {"example_id": "number of the item; stable for the same files and params", "source": "the input",
            "target": "the output", "negative": "a text that is no output; null where there is none",
            "references": "all outputs, the target first", "text": "the text", "label": "its class"}
_TASKS = {"labelled": ["text-classification"], "texts": [], "stories": ["text-generation"],
          "dialogue": ["text-generation"]}
_MARK = "---\n"
_BUNDLED = "sentence-transformers/all-MiniLM-L6-v2"


# Graphs

def export_graph(file: Path, dataset: str | None, signed: bool, keyword: str | None, hops: int,
                 console: Console) -> None:
    """Write one of a data set's graphs, or the part around ``keyword``, to ``file``."""
    if file.suffix.lower() != ".graphml":
        raise InputError(f"{file}: a graph is written as GraphML. Name a file that ends in .graphml.")
    graph, ids = Graph.of(dataset, signed), None
    if keyword is not None:
        ids = pa.array(neighbourhood(graph, node_of(graph, keyword), None, hops).nodes.index, pa.int32())
    with atomic_file(file) as temporary:
        nodes, edges, replaced = _write_graphml(temporary, graph, ids)
    console.print(Text(f"{file}: {nodes:,} keywords, {edges:,} edges of {graph.paths.name}"), soft_wrap=True)
    if replaced:
        console.print(Text(f"{replaced:,} keywords have control characters that XML forbids; U+FFFD replaces them."),
                      soft_wrap=True)


def _write_graphml(file: Path, graph: Graph, ids: pa.Array | None) -> tuple[int, int, int]:
    """Write the nodes ``ids``, or all, and their edges; return the numbers of nodes, edges and replaced keywords."""
    import networkx as nx

    result: nx.Graph = nx.DiGraph() if graph.signed else nx.Graph()
    nodes, edges = graph.schemas
    names: dict[int, str] = {}
    replaced = 0
    for row in _rows(graph, nodes, ids, ("node_id",)):
        node, keyword = row.pop("node_id"), row.pop("keyword")
        name = xml_text(keyword)
        replaced += name != keyword
        names[node] = f"{name} ({node})" if name in result else name     # two may differ only where it was replaced
        result.add_node(names[node], **row)
    result.add_edges_from((names[row.pop("source")], names[row.pop("target")], row)
                          for row in _rows(graph, edges, ids, ("target", "source")))
    nx.write_graphml(result, file)
    return len(names), result.number_of_edges(), replaced


def _rows(graph: Graph, schema: TableSchema, ids: pa.Array | None, ends: Sequence[str]) -> Iterator[dict[str, Any]]:
    for batch in read_batches(graph.paths.table(schema.name), schema):
        for name in ends if ids is not None else ():
            batch = batch.filter(pc.is_in(batch[name], value_set=ids))
        yield from batch.to_pylist()


# Data sets

def export_data_set(params: Params, folder: Path, dataset: str | None, licence: str | None, console: Console) -> None:
    """Write the items of a data set with their texts, and a card, into a new or empty ``folder``."""
    paths = dataset_with("examples", dataset)
    if paths.name not in params.datasets:
        raise InputError(f"--dataset {paths.name}: not in params.yaml, so its source is unknown. Go back to its recipe "
                         f"with `keycontrast use`.")
    with _empty_folder(folder) as unfinished:
        rows = {split: count for split in SPLITS if (count := _write(paths, split, unfinished / f"{split}.parquet"))}
        (unfinished / "README.md").write_text(_data_card(params, paths, rows, licence), encoding="utf-8")
    counts = ", ".join(f"{name} {count:,}" for name, count in rows.items())
    console.print(Text(printable(f"{folder}: {paths.name}, items: {counts}\nRead it by "
                                 f"datasets.load_dataset({str(folder)!r}).", keep="\n")), soft_wrap=True)


def _empty_folder(folder: Path) -> AbstractContextManager[Path]:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already. Name another folder, or empty this one.")
    return atomic_folder(folder)


def _write(paths: DatasetPaths, split: str, file: Path) -> int:
    """Write the items of a split with their texts, batch by batch, unless there are none; return their number."""
    names = column_names(paths.table("examples"))
    query = _PAIRS if "source_id" in names else _SINGLE.format(label=", e.label" if "label" in names else "")
    count = 0
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET enable_progress_bar = false")
        for name in ("examples", "texts"):
            connection.from_arrow(dataset_of(paths.table(name))).create_view(name)
        try:
            reader: pa.RecordBatchReader = connection.sql(query, params={"split": split}).to_arrow_reader(ROW_GROUP)
            with pq.ParquetWriter(file, reader.schema, **WRITTEN) as writer:
                for batch in reader:
                    writer.write_table(pa.Table.from_batches([batch]))
                    count += batch.num_rows
        except (duckdb.Error, pa.ArrowException, OSError):
            for name in ("examples", "texts"):
                check_pages(paths.table(name))
            raise
    if not count:
        file.unlink()
    return count


def _data_card(params: Params, paths: DatasetPaths, rows: Mapping[str, int], licence: str | None) -> str:
    """Return the card of a data set: splits, columns, rejected rows with the reasons, and source files."""
    settings, name = params.datasets[paths.name], paths.name
    if not (file := paths.metrics("ingest")).exists():
        raise InputError(f"{file}: not found. Make it with `keycontrast run ingest@{name}`.")
    counts = json.loads(file.read_text(encoding="utf-8"))["rows"]
    data = DatasetCardData(
        language=settings.language, license=licence, pretty_name=name,
        task_categories=_TASKS.get(structure_of(settings.layout), ["sentence-similarity", "text-generation"]) or None,
        configs=[{"config_name": "default", "data_files": [
            {"split": split, "path": f"{split}.parquet"} for split in rows]}])
    names = column_names(paths.table("examples"))
    written = ("example_id", "source", "target", "negative", "references") if "source_id" in names else (
        "example_id", "text", *(["label"] if "label" in names else []))
    refused = [(escaped(reason), f"{count:,}") for reason, count in sorted(counts["not_taken_by_reason"].items())]
    lines = [f"# {escaped(name)}", "", f"Items of layout `{settings.layout}`, by stage `ingest` of Keycontrast.",
             "", *table(("split", "items"), [(split, f"{count:,}") for split, count in rows.items()]), "",
             *table(("column", "meaning"), [(f"`{column}`", _MEANING[column]) for column in written], left=2), "",
             "## Rejected rows", "", f"{counts['read']:,} rows were read and {counts['taken']:,} taken.",
             *(["", *table(("reason", "rows"), refused)] if refused else []), "", "## Source", "",
             *(f"- {escaped(file.name)}, SHA-256 `{sha256_of(file.path)}`" for file in data_files(settings)),
             f"- Hash of the params: `{read_metadata(paths.table('examples'))['params_hash']}`",
             *_no_licence(licence, "the files above")]
    return f"{_MARK}{data.to_yaml()}\n{_MARK}\n" + "\n".join(lines) + "\n"


def _no_licence(licence: str | None, depends: str) -> list[str]:
    return [] if licence else [f"- No licence is stated: it depends on {depends}. `keycontrast export --license ID` "
                               f"states one."]


# Models

def export_model(params: Params, name: str, folder: Path, console: Console, seed: int | None = None,
                 licence: str | None = None) -> None:
    """Write model ``name``, of its first seed by default, with a card into a new or empty ``folder``."""
    track = track_of_model(params, name)
    paths = ModelPaths(name, seed_of(name, params.model_seeds(name), seed))
    with _empty_folder(folder) as unfinished:
        description = import_module(f"stages.tracks.{track.name}.export").exported(params, paths, unfinished, folder)
        _write_model_card(params, track, paths, unfinished, licence)
        for file in filter(Path.is_file, unfinished.rglob("*")):
            file.chmod(0o644)   # libraries write weights with different modes
    console.print(Text(printable(f"{folder}: {description}", keep="\n")), soft_wrap=True)


def _write_model_card(params: Params, track: Track, paths: ModelPaths, folder: Path, licence: str | None) -> None:
    """Complete the card from the export or the training: licence, base model, metrics of runs, hash of the params."""
    own = folder / "README.md"
    written = (own if own.exists() else paths.weights / "README.md").read_text(encoding="utf-8")
    head, body = written.removeprefix(_MARK).split(_MARK, 1) if written.startswith(_MARK) else ("", written)
    known = yaml.safe_load(head) or {}
    task = known.get("pipeline_tag", "text2text-generation")
    results = list(_results(params, track, paths, task))
    encoder = track.encoder(params, paths.name) or ""
    base = _BUNDLED if encoder == "bundled" else (
        encoder.removeprefix("hub:").partition("@")[0] if encoder.startswith("hub:") else None)
    data = ModelCardData(
        language=params.datasets[track.models(params)[paths.name].dataset].language, license=licence, base_model=base,
        library_name=known.get("library_name", "keycontrast"), pipeline_tag=task, tags=["keycontrast", track.name],
        model_name=paths.name if results else None, eval_results=results or None)
    fingerprint = read_metadata(paths.items)["params_hash"]
    lines = ["", "## Training", "", f"- Seed {paths.seed}; hash of its params: `{fingerprint}`"]
    lines += _no_licence(licence, "the training texts and on the model that it started from")
    own.write_text(f"{_MARK}{data.to_yaml()}\n{_MARK}{body.rstrip()}\n" + "\n".join(lines) + "\n", encoding="utf-8")
    if (folder / DIGESTS_FILE).exists():
        seal(folder)


def _results(params: Params, track: Track, paths: ModelPaths, task: str) -> Iterator[EvalResult]:
    name = track.models(params)[paths.name].dataset
    for run, entry in track.runs(params).items():
        file = RunPaths(run, paths.seed).metrics
        if entry.model == paths.name and file.exists():
            content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            for metric, value in content["run"].items():
                yield EvalResult(task_type=task, dataset_type=name, dataset_name=name, dataset_config=run,
                                 dataset_split=content["settings"].get("split", "test"), metric_type=metric,
                                 metric_value=value)
