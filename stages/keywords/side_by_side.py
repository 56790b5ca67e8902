"""Put the keywords of TextRank, attribution, PSI, YAKE and IDF beside each other and measure how far they agree.

Reads textrank, attribution, psi, tokens, texts and examples of a data set; writes side_by_side.parquet, the
agreement of every two methods, and the picture of keywords by part of speech (PGKPR Figures 3 and 4).
"""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.artifacts.example_texts import training_text_ids
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.schemas import SCHEMAS
from stages.artifacts.tables import (
    Provenance,
    atomic_folder,
    read_metadata,
    read_table,
    write_json,
    write_table,
)
from stages.keywords.agreement.figure import pos_plot
from stages.keywords.agreement.keywords import METHODS, idf_keywords, scored_keywords, textrank_keywords, yake_extractor
from stages.keywords.agreement.measures import agreements
from stages.keywords.agreement.pos_frequency import PosCounts, flips, frequency_table
from stages.ranking.selection import InverseFrequency
from stages.runtime.errors import InputError
from stages.runtime.pool import map_chunks
from stages.runtime.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.params.data import SideBySide

_CHUNK = 512
_RANKINGS = ("textrank", "attribution", "psi")


@dataclass(frozen=True)
class Compared:
    """What the stage makes: the table, its counts, the frequencies by part of speech and where they were counted."""

    table: pa.Table
    counts: dict[str, Any]
    frequencies: pd.DataFrame
    counted_split: str
    counted_texts: int


def run(tables: dict[str, pa.Table], examples: pa.Table, params: "SideBySide", language: str, seed: int,
        workers: int = 1) -> Compared:
    """Compare the keywords of every method.

    Args:
        tables: ``tokens``, ``texts``, ``textrank``, ``attribution`` and ``psi``.
        examples: table ``examples``: IDF counts its training texts; parts of speech are counted over test sources,
            once per example.
        params: how many keywords per text and method.
        language: of the texts, for YAKE's stop words and the kind of tags.
        seed: of the coin flips.
        workers: processes; any number gives the same.
    """
    tokens = tables["tokens"].sort_by("text_id")
    ids = tokens["text_id"].to_pylist()
    words = dict(zip(ids, tokens["token"].to_pylist(), strict=True))
    stops = dict(zip(ids, tokens["is_stop"].to_pylist(), strict=True))
    idf = InverseFrequency.over_tables([tokens], training_text_ids(examples))
    by_method = {"textrank": textrank_keywords(tables["textrank"], params.top),
                 "attribution": scored_keywords(tables["attribution"], stops, params.top),
                 "psi": scored_keywords(tables["psi"], stops, params.top),
                 "yake": _by_yake(tables["texts"], language, params.top, workers),
                 "idf": idf_keywords(words, stops, idf, params.top)}
    columns: dict[str, list[Any]] = {method: [by_method[method].get(text) for text in ids] for method in METHODS}
    table = pa.table({"text_id": ids, **columns}, schema=SCHEMAS["side_by_side"].arrow())
    split, sources = _counted_sources(examples)
    frequencies = frequency_table(pos_counts(tables, sources, language, seed))
    return Compared(table, _counts(columns, split, len(sources)), frequencies, split, len(sources))


def _by_yake(texts: pa.Table, language: str, top: int, workers: int) -> dict[int, list[str]]:
    ordered = texts.sort_by("text_id")
    surfaces = ordered["text"].to_pylist()
    chunks = [surfaces[start:start + _CHUNK] for start in range(0, len(surfaces), _CHUNK)]
    found = [phrases for chunk in map_chunks(yake_extractor, (language, top), chunks, workers, "yake")
             for phrases in chunk]
    return dict(zip(ordered["text_id"].to_pylist(), found, strict=True))


def _counted_sources(examples: pa.Table) -> tuple[str, dict[int, int]]:
    """Return the split that is counted, test as in the paper or train if there is no test; and text by example."""
    split = "test" if "test" in examples["split"].to_pylist() else "train"
    chosen = examples.filter(pc.equal(examples["split"], split)).sort_by("example_id")
    return split, dict(zip(chosen["example_id"].to_pylist(), chosen["source_id"].to_pylist(), strict=True))


def pos_counts(tables: Mapping[str, pa.Table], sources: Mapping[int, int], language: str,
               seed: int) -> dict[str, PosCounts]:
    """Count keyword tokens by part of speech: flipped and expected by attribution, primary by PSI.

    A source counts once per example, as each example has coins of its own; those are PGKPR's (METHODS C.6), but over
    whole sources, since how many words models read is none of this stage's settings.

    Args:
        tables: ``tokens``, ``attribution`` and ``psi``.
        sources: text by example.
        language: of the texts, which says the kind of tags.
        seed: the project's.
    """
    wanted = pa.array(sorted(set(sources.values())), pa.int64())
    tokens = tables["tokens"].filter(pc.is_in(tables["tokens"]["text_id"], wanted)).to_pylist()
    tags = {row["text_id"]: (row["tag"], row["pos"]) for row in tokens}
    counts = {name: PosCounts() for name in ("attribution", "attribution_expected", "psi")}
    penn = language == "en"
    for name, column in (("attribution", "score"), ("psi", "primary")):
        table = tables[name].filter(pc.equal(tables[name]["mode"], "xx"))
        table = table.filter(pc.is_in(table["text_id"], wanted))
        found = dict(zip(table["text_id"].to_pylist(), table[column].to_pylist(), strict=True))
        for example, text in sources.items():
            values = found.get(text)
            if values is None:
                continue
            if name == "attribution":
                counts["attribution_expected"].add(*tags[text], values, penn)
                values = flips(values, seed, example).tolist()
            counts[name].add(*tags[text], values, penn)
    return counts


def _counts(columns: dict[str, list[Any]], split: str, sources: int) -> dict[str, Any]:
    named = Counter({method: sum(bool(item) for item in keywords) for method, keywords in columns.items()})
    pairs = {name: asdict(agreement) for name, agreement in agreements(columns).items()}
    return {"texts": len(columns["textrank"]), "texts_with_keywords": dict(named), "agreement": pairs,
            "pos_frequency": {"split": split, "sources": sources}}


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    tables = {kind: read_table(paths.table(kind), kind) for kind in ("tokens", "texts", *_RANKINGS)}
    missing = set(tables["texts"]["text_id"].to_pylist()) ^ set(tables["tokens"]["text_id"].to_pylist())
    if missing:
        raise InputError(f"tokens.parquet: {len(missing)} texts, the first of them {min(missing)}, are not in both it "
                         f"and texts.parquet. Run `keycontrast run`.")
    made = run(tables, read_table(paths.table("examples"), "examples"), params.side_by_side,
               params.datasets[process.instance].language, params.seed, params.runtime.workers)
    models = {"yake": version("yake")}
    for kind in _RANKINGS:
        models |= read_metadata(paths.table(kind)).get("models", {})
    with atomic_folder(paths.pos_frequency) as folder:
        _write_picture(made, folder)
    write_table(paths.table("side_by_side"), "side_by_side", made.table, Provenance(
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
