"""A data set as others read it: its items with their texts, a Parquet file per split, and a card as the hub has cards.

    keycontrast export my-pairs --dataset mine --texts
    datasets.load_dataset("my-pairs")                  # or pandas.read_parquet("my-pairs/train.parquet")
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub import DatasetCardData
from rich.console import Console
from rich.text import Text

from keycontrast.cells import printable
from keycontrast.errors import InputError
from keycontrast.files import atomic_folder, sha256_of
from pipeline.datasets import dataset_with
from pipeline.markdown import escaped, table
from stages.common.examples import structure_of
from stages.common.paths import DatasetPaths
from stages.common.schemas import SPLITS
from stages.common.settings import Params, stage_hash
from stages.common.tables import ROW_GROUP, WRITTEN, check_pages, column_names, dataset_of
from stages.ingest.files import data_files

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
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"),
          (10_000_000, "1M<n<10M"))


def export_data_set(params: Params, folder: Path, dataset: str | None, licence: str | None, console: Console) -> None:
    """Write a data set into ``folder``, whole or not at all, and say what it is.

    Args:
        params: in force.
        folder: to be made; one that is there must be empty.
        dataset: its name; None if only one has items.
        licence: stated in its card, as the hub abbreviates it.
        console: where to print.

    Raises:
        InputError: no such data set, or its params are no longer in force; or a folder with something in it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already. Name a folder that is not, or empty this one.")
    paths = dataset_with("examples", dataset)
    if paths.name not in params.datasets:
        raise InputError(f"--dataset {paths.name}: params.yaml does not name it any more, so nothing is known of where "
                         f"it came from. Go back to its recipe with `keycontrast use`.")
    with atomic_folder(folder) as unfinished:
        rows = {split: count for split in SPLITS if (count := _write(paths, split, unfinished / f"{split}.parquet"))}
        (unfinished / "README.md").write_text(card(params, paths, rows, licence), encoding="utf-8")
    counts = ", ".join(f"{name} {count:,}" for name, count in rows.items())
    console.print(Text(printable(f"{folder}: {paths.name}, items: {counts}\nRead it by "
                                 f"datasets.load_dataset({str(folder)!r}).", keep="\n")), soft_wrap=True)


def _write(paths: DatasetPaths, split: str, file: Path) -> int:
    """Write the items of a split with their texts, batch by batch; return how many they are; of none, no file."""
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


def card(params: Params, paths: DatasetPaths, rows: Mapping[str, int], licence: str | None = None) -> str:
    """Return the card of a data set: what it holds, what was not taken and why, and where it comes from.

    Args:
        params: in force.
        paths: of the data set.
        rows: items of each split that has some.
        licence: as the hub abbreviates it; None states none.
    """
    asked, name = params.datasets[paths.name], paths.name
    counts: dict[str, Any] = json.loads(paths.metrics("ingest").read_text(encoding="utf-8"))
    total = sum(rows.values())
    size = next((label for bound, label in _SIZES if total < bound), "n>10M")
    structure = structure_of(asked.layout)
    data = DatasetCardData(
        language=asked.language, license=licence, pretty_name=name, size_categories=size,
        task_categories=_TASKS.get(structure, ["sentence-similarity", "text-generation"]) or None,
        configs=[{"config_name": "default", "data_files": [
            {"split": split, "path": f"{split}.parquet"} for split in rows]}])
    lines = [f"# {escaped(name)}", "", f"Items of layout `{asked.layout}`, as stage `ingest` of Keycontrast took them.",
             "", *table(("split", "items"), [(split, f"{count:,}") for split, count in rows.items()]), "",
             *_columns(paths), "", "## Rows that were not taken", "", *_refused(counts), "",
             "## Where it comes from", "",
             *(f"- {escaped(file)}, SHA-256 `{sha256_of(path)}`" for file, path in data_files(asked)),
             f"- Seed {params.seed}; hash of the params: `{stage_hash(params.plain(), 'ingest', name)}` (recipe "
             f"`{params.recipe}`)"]
    lines += [] if licence else ["- No licence is stated: it depends on the files above. `keycontrast export --license "
                                 "ID` states one."]
    return f"---\n{data.to_yaml()}\n---\n\n" + "\n".join(lines) + "\n"


def _columns(paths: DatasetPaths) -> list[str]:
    names = column_names(paths.table("examples"))
    shown = ["example_id", "source", "target", "negative", "references"] if "source_id" in names else [
        "example_id", "text", *(["label"] if "label" in names else [])]
    return table(("column", "meaning"), [(f"`{name}`", _MEANING[name]) for name in shown], left=2)


def _refused(counts: Mapping[str, Any]) -> Iterator[str]:
    rows = counts["rows"]
    yield f"{rows['read']:,} rows were read and {rows['taken']:,} taken."
    if rows["not_taken_by_reason"]:
        yield ""
        yield from table(("reason", "rows"), [(escaped(reason), f"{count:,}")
                                              for reason, count in sorted(rows["not_taken_by_reason"].items())])
