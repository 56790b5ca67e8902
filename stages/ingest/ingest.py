"""Read raw rows, de-duplicate texts, build training items and split them without leakage."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import duckdb

from keycontrast.errors import InputError, nearest
from stages.common.encoders import resolve_encoder
from stages.common.layouts import is_paired, structure_of
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, write_json
from stages.common.writing import table_writer
from stages.ingest.counts import summary
from stages.ingest.deduplicate import deduplicate
from stages.ingest.examples import Ingested, contrasted_examples, text_examples
from stages.ingest.exclusions import connected
from stages.ingest.files import read_rows
from stages.ingest.negatives import Embed, frozen
from stages.ingest.parsing import strip_post
from stages.ingest.rows import RawRow
from stages.ingest.sources import check_source
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.ingest.params import Dataset, Ingest


def run(rows: Iterable[RawRow], dataset: "Dataset", params: "Ingest", seed: int, scratch: Path,
        embed: Embed | None = None, memory_gib: float = 4.0) -> Ingested:
    """Turn raw rows into examples.

    Besides the database, memory holds some tens of bytes per distinct text and per item; retrieved negatives need
    some tens of bytes more per word of the texts of a split.

    Args:
        rows: those of one file one after another, numbers rising.
        dataset: names the structure, columns and language.
        params: rules, shares and limits.
        seed: the project's seed.
        scratch: an empty folder; it is needed until the pieces of the result have been written.
        embed: for mined negatives, for which 1.5 KB a text are needed besides.
        memory_gib: of the database that holds rows and texts; what is over goes to ``scratch``.

    Raises:
        InputError: too many rows are unusable, or they give no examples under ``params``.
    """
    check_source(dataset, params)
    labelled = structure_of(dataset.layout) == "labelled"
    rows = _stripped_posts(rows, params.ng_strip) if labelled and params.ng_strip != "none" else rows
    copies = labelled and params.labelled_copies == "keep"
    unique = deduplicate(rows, dataset, scratch, params.roc_mode, copies, memory_gib, params.text_identity)
    unique.tables.check_share(params.max_rejected)
    if not is_paired(dataset.layout):
        return text_examples(unique, dataset, params, seed)
    return contrasted_examples(connected(unique, params.split_by, params.captions), dataset, params, seed, embed)


def _stripped_posts(rows: Iterable[RawRow], how: str) -> Iterator[RawRow]:
    """Yield ``rows`` with their texts stripped; what is shown of a row that is not taken stays as it was read."""
    for row in rows:
        if not isinstance(row.content, str) and isinstance(row.content.get("text"), str):
            shown = (row.names, row.values) if row.names else (tuple(row.content), tuple(row.content.values()))
            content = {**row.content, "text": strip_post(row.content["text"], how)}
            row = row._replace(content=content, names=shown[0], values=shown[1])
        yield row


def _work(process: StageProcess) -> None:
    params = process.params
    key = process.instance
    if key not in params.datasets:
        raise InputError(f"no data set is called {key!r}; {nearest(key, params.datasets)}")
    dataset, spool = params.datasets[key], process.scratch / "spool"
    if spool.exists():
        rmtree(spool)  # left by an attempt that was killed
    spool.mkdir()
    try:
        settings = params.ingest_settings(key)
        asked = settings.neg_source == "mined" and is_paired(dataset.layout)
        embed = frozen(settings.neg_encoder) if asked else None
        made = run(read_rows(dataset), dataset, settings, params.seed, spool, embed,
                   params.runtime.memory_gib)
        models = {"neg_encoder": resolve_encoder(settings.neg_encoder).description} if asked else {}
        provenance = Provenance(process.name, process.params_hash, models, made.counts)
        paths = DatasetPaths(key)
        for name, pieces in made.pieces.items():
            with table_writer(paths.table(name), made.schemas[name], provenance) as writer:
                for piece in pieces():
                    writer.write(piece)
        write_json(paths.metrics("ingest"), made.counts)
    except duckdb.OutOfMemoryException as error:
        raise InputError(f"runtime.memory_gib: {params.runtime.memory_gib:g} GiB, and the disk beside it, are too "
                         f"little for the rows of {key}. Raise it, or free space under {process.scratch}.") from error
    finally:
        rmtree(spool)
    sys.stderr.write(summary(made.counts))


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("ingest", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
