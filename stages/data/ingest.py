"""Read raw rows, de-duplicate texts, build training items and split them without leakage."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import numpy as np

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import Provenance, table_writer, write_json
from stages.data.deduplication.row_log import KEPT
from stages.data.deduplication.taken_rows import CONTINUATIONS, Taken, check_share, take_rows
from stages.data.items.continuations import opening_marks
from stages.data.items.counts import by_split, hashed_counts, negative_counts, row_counts, source_counts, summary
from stages.data.items.items import Items
from stages.data.items.labelled import labelled_counts, labelled_examples
from stages.data.items.tables import example_batches, labelled_batches, text_batches, text_numbers, used_texts
from stages.data.layouts.newsgroups import stripped_posts
from stages.data.layouts.registry import structure_of
from stages.data.negatives.sources import (
    check_source,
    left_out,
    made_items,
    negative_origin,
    no_items,
    with_negatives,
)
from stages.data.reading.files import read_rows
from stages.data.reading.rows import RawRow
from stages.data.splitting.by_hash import component_marks, split_by_hash
from stages.data.splitting.exclusions import Connected, connected
from stages.data.splitting.leaks import leak_report
from stages.data.splitting.splits import sample_items, split_groups, split_items
from stages.runtime.errors import InputError, nearest
from stages.runtime.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.params.data import Dataset, Ingest


@dataclass(frozen=True)
class Ingested:
    """What the stage makes; good as long as the scratch folder stands.

    Attributes:
        examples: schema of the examples: ``examples``, or ``labelled_examples``.
        counts: the stage's metrics.
        pieces: makes the pieces of a table, by its file: ``examples``, ``texts``, ``rejected``.
    """

    examples: str
    counts: dict[str, Any]
    pieces: Mapping[str, Callable[[], Iterable[Any]]]


def run(rows: Iterable[RawRow], dataset: "Dataset", params: "Ingest", seed: int, scratch: Path) -> Ingested:
    """Turn raw rows into examples (METHODS A.1).

    Texts and rows lie on disk; memory holds some tens of bytes per distinct text and per item. Retrieved
    negatives are the exception: they need the texts of a split and their words.

    Args:
        rows: those of one file one after another, numbers rising.
        dataset: names the structure, columns and language.
        params: rules, shares and limits.
        seed: the project's seed.
        scratch: an empty folder; it is needed until the pieces of the result have been written.

    Raises:
        InputError: too many rows are unusable, or they give no examples under ``params``.
    """
    check_source(dataset, params)
    labelled = structure_of(dataset.layout) == "labelled"
    rows = stripped_posts(rows, params.ng_strip) if labelled else rows
    taken = take_rows(rows, dataset, scratch, params.roc_mode, labelled and params.labelled_copies == "keep")
    check_share(taken, params.max_rejected)
    if labelled:
        return _labelled(taken, dataset, params, seed)
    return _contrasted(connected(taken, params.split_by, params.captions), dataset, params, seed)


def _contrasted(found: Connected, dataset: "Dataset", params: "Ingest", seed: int) -> Ingested:
    """Make items of source, target and negative."""
    counts = source_counts(found, params)
    whole = made_items(found, params, seed)
    found.taken.texts.close()
    if not len(whole):
        raise no_items(dataset, params, len(found.taken.pairs))
    split, of_group = _split(whole, found, params, seed)
    limits = {"train": params.max_train, "validation": params.max_validation, "test": params.max_test}
    kept = sample_items(split, limits, seed)
    items, split = with_negatives(whole, split, kept, of_group, found, dataset, params, seed)
    _check_filled(split, params)
    group, used = found.group, used_texts(items, len(found.group))
    counts |= {
        "texts": {"distinct": len(group), "used": int(np.count_nonzero(used))},
        "examples": by_split(split), "leak": leak_report(items, split, group)}
    counts |= left_out(len(kept), items, dataset, params)
    if of_group is not None and params.split_by == "hashed":
        counts["hashed"] = hashed_counts(found, of_group, params)
    if params.negatives > 1:
        counts["negatives_per_item"] = negative_counts(items, params.negatives)
    origin = negative_origin(dataset, params)
    return Ingested("examples", counts, {
        "examples": lambda: example_batches(items, split, group, text_numbers(used), origin),
        "texts": lambda: text_batches(found.taken.texts, used, dataset.language),
        "rejected": lambda: _rejected(found.taken, found.exclusions.of_takeable)})


def _labelled(taken: Taken, dataset: "Dataset", params: "Ingest", seed: int) -> Ingested:
    """Make items of text and class."""
    kept, split = labelled_examples(taken, params, seed)
    texts, label = taken.first[kept], taken.label[kept]
    used = np.zeros(taken.n_texts, dtype=bool)
    used[texts] = True
    counts = {"rows": row_counts(taken), "texts": {"distinct": taken.n_texts, "used": int(np.count_nonzero(used))},
              "examples": by_split(split), **labelled_counts(taken, kept, split)}
    return Ingested("labelled_examples", counts, {
        "examples": lambda: labelled_batches(texts, label, taken.labels, split, text_numbers(used)),
        "texts": lambda: text_batches(taken.texts, used, dataset.language),
        "rejected": lambda: _rejected(taken, lambda records: np.full(len(records), KEPT))})


def _rejected(taken: Taken, later: Callable[[np.ndarray], np.ndarray]) -> Iterator[Mapping[str, Any]]:
    return taken.log.rejected(taken.verdicts, taken.takeable, later, taken.labels)


def _split(items: Items, found: Connected, params: "Ingest", seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the split of each item and, if components are kept together, of each component."""
    taken, group = found.taken, found.group
    if params.split_by == "pair":
        return split_items(items.rank, taken.published, params.validation, params.test, seed), None
    if params.split_by == "hashed":
        marks = opening_marks(taken, group) if taken.structure in CONTINUATIONS else component_marks(taken.texts, group)
        of_group = split_by_hash(marks, found.sizes, params.validation, params.test, seed, found.highest)
    else:
        of_group = split_groups(group[items.source], int(group.max()) + 1, params.validation, params.test, seed,
                                found.highest)
    return of_group[group[items.source]], of_group


def _check_filled(split: np.ndarray, params: "Ingest") -> None:
    empty = [name for name, count in by_split(split).items() if not count]
    if empty and params.split_by == "hashed":
        raise InputError(f"no example is left for {empty[0]}: under ingest.split_by hashed each component of texts is "
                         f"drawn for itself, and none with an example fell to it. Give more data, change the shares "
                         f"or the seed, or set ingest.split_by to component.")
    if empty:
        raise InputError(f"no example is left for {empty[0]}: the rows that the data set publishes under this split "
                         f"make none. Correct `splits` or columns.split, set ingest.neg_source to retrieved or none, "
                         f"or set ingest.split_by to pair, which leaves rows where they were published.")


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
        made = run(read_rows(dataset), dataset, params.ingest_settings(key), params.seed, spool)
        provenance = Provenance(process.name, process.params_hash, counts=made.counts)
        paths = DatasetPaths(key)
        for name, pieces in made.pieces.items():
            kind = made.examples if name == "examples" else name
            with table_writer(paths.table(name), kind, provenance) as writer:
                for piece in pieces():
                    writer.write(piece)
        write_json(paths.metrics("ingest"), made.counts)
    finally:
        rmtree(spool)
    sys.stderr.write(summary(made.counts))


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("ingest", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
