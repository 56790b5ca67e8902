"""Put the keywords of every method beside each other and measure how far they agree.

Reads tokens, examples and the table of each method of a data set; writes side_by_side.parquet, the agreement of every
two methods, and the picture of keywords by part of speech (PGKPR Figures 3 and 4).
"""

import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import (
    Provenance,
    atomic_folder,
    read_metadata,
    read_table,
    write_json,
    write_table,
)
from stages.data.example_texts import training_text_ids
from stages.data.schemas.items import EXAMPLES
from stages.data.schemas.tokens import TOKENS
from stages.keywords.agreement.figure import pos_plot
from stages.keywords.agreement.keywords import keywords_by_method
from stages.keywords.agreement.measures import agreements
from stages.keywords.agreement.pos_frequency import frequency_table, pos_counts
from stages.keywords.methods import COMPARED_NAMING
from stages.keywords.schemas.methods import METHOD_TABLES
from stages.keywords.schemas.side_by_side import SIDE_BY_SIDE
from stages.ranking.selection import InverseFrequency
from stages.runtime.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.params.data import SideBySide


@dataclass(frozen=True)
class Compared:
    """What the stage makes: the table, its counts, the frequencies by part of speech and where they were counted."""

    table: pa.Table
    counts: dict[str, Any]
    frequencies: pd.DataFrame
    counted_split: str
    counted_texts: int


def run(tables: dict[str, pa.Table], examples: pa.Table, params: "SideBySide", language: str,
        seed: int) -> Compared:
    """Compare the keywords of every method.

    Args:
        tables: ``tokens``, and that of each method.
        examples: table ``examples``: IDF counts its training texts; parts of speech are counted over test sources,
            once per example.
        params: how many keywords per text and method.
        language: of the texts, which says the kind of tags.
        seed: of the coin flips.
    """
    tables = {**tables, "tokens": tables["tokens"].sort_by("text_id")}
    idf = InverseFrequency.over_tables([tables["tokens"]], training_text_ids(examples))
    columns = keywords_by_method(tables, idf, params.top)
    table = pa.table({"text_id": tables["tokens"]["text_id"], **columns}, schema=SIDE_BY_SIDE.arrow())
    split, sources = _counted_sources(examples)
    frequencies = frequency_table(pos_counts(tables, sources, language, seed))
    return Compared(table, _counts(columns, split, len(sources)), frequencies, split, len(sources))


def _counted_sources(examples: pa.Table) -> tuple[str, dict[int, int]]:
    """Return the split that is counted, test as in the paper or train if there is no test; and text by example."""
    split = "test" if "test" in examples["split"].to_pylist() else "train"
    chosen = examples.filter(pc.equal(examples["split"], split)).sort_by("example_id")
    return split, dict(zip(chosen["example_id"].to_pylist(), chosen["source_id"].to_pylist(), strict=True))


def _counts(columns: dict[str, list[Any]], split: str, sources: int) -> dict[str, Any]:
    named = Counter({method: sum(bool(item) for item in keywords) for method, keywords in columns.items()})
    pairs = {name: asdict(agreement) for name, agreement in agreements(columns).items()}
    return {"texts": len(columns["textrank"]), "texts_with_keywords": dict(named), "agreement": pairs,
            "pos_frequency": {"split": split, "sources": sources}}


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    schemas = (TOKENS, *(METHOD_TABLES[name] for name in COMPARED_NAMING))
    tables = {schema.name: read_table(paths.table(schema.name), schema) for schema in schemas}
    made = run(tables, read_table(paths.table("examples"), EXAMPLES), params.side_by_side,
               params.datasets[process.instance].language, params.seed)
    models: dict[str, Any] = {}
    for kind in COMPARED_NAMING:
        models |= read_metadata(paths.table(kind)).get("models", {})
    with atomic_folder(paths.pos_frequency) as folder:
        _write_picture(made, folder)
    write_table(paths.table("side_by_side"), SIDE_BY_SIDE, made.table, Provenance(
        process.name, process.params_hash, models=models,
        counts=made.counts))
    write_json(paths.metrics("side_by_side"), made.counts)


def _write_picture(made: Compared, folder: Path) -> None:
    plot = pos_plot(made.frequencies, made.counted_texts, made.counted_split)
    (folder / "pos_frequency.svg").write_text(plot.svg, encoding="utf-8")
    (folder / "pos_frequency.png").write_bytes(plot.png)
    made.frequencies.to_csv(folder / "pos_frequency.csv", index=False, lineterminator="\n")


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("side_by_side", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
