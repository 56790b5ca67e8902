"""Read raw rows, de-duplicate texts, build training items and split them without leakage."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from keycontrast.errors import InputError
from stages.common.encoders import resolve_encoder
from stages.common.examples import is_paired, structure_of
from stages.common.paths import DatasetPaths
from stages.common.schemas import (
    ALL_SPLITS,
    EXAMPLES,
    LABELLED_EXAMPLES,
    PLAIN_EXAMPLES,
    REJECTED,
    SPLITS,
    TEXTS,
    TableSchema,
)
from stages.common.tables import Provenance, table_writer, write_json
from stages.ingest.counts import (
    account,
    by_split,
    hashed_counts,
    labelled_counts,
    leak_report,
    row_counts,
    same_letters,
    source_counts,
    summary,
    triple_lines,
)
from stages.ingest.deduplicate import CONTINUATIONS, UniqueRows, deduplicate
from stages.ingest.files import read_rows
from stages.ingest.items import Items
from stages.ingest.negatives import Embed, frozen
from stages.ingest.params import Dataset, Ingest
from stages.ingest.rows import RawRow
from stages.ingest.sources import (
    Connected,
    check_source,
    connected,
    in_items,
    make_items,
    negative_origin,
    split_of_items,
    with_negatives,
)
from stages.ingest.splits import TRAIN, sample_items, split_classes
from stages.ingest.texts import NO_TEXT, TextFile, text_mask
from stages.run.process import StageProcess, run_stage

_BATCH = 2**13
_BEYOND = "left out: beyond ingest.max_train, max_validation or max_test, or outside ingest.train_part"


@dataclass(frozen=True)
class Ingested:
    """Schema of the examples, metrics, and functions that yield the pieces of the tables ``examples``, ``texts`` and
    ``rejected`` as long as the scratch folder exists."""

    examples: TableSchema
    counts: dict[str, Any]
    pieces: Mapping[str, Callable[[], Iterable[Any]]]

    @property
    def schemas(self) -> dict[str, TableSchema]:
        """The schema of each of ``pieces``."""
        return {"examples": self.examples, "texts": TEXTS, "rejected": REJECTED}


def run(rows: Iterable[RawRow], dataset: Dataset, params: Ingest, seed: int, scratch: Path,
        embed: Embed | None = None, memory_gib: float = 4.0) -> Ingested:
    """Turn raw rows, file by file with rising numbers, into examples.

    Besides the database of at most ``memory_gib`` GiB, memory holds some tens of bytes per distinct text and per item;
    retrieved negatives need some tens of bytes more per word of the texts of a split, mined ones 1.5 KB per text.
    ``scratch`` is an empty folder that must exist until the result is written; ``embed`` is for mined negatives.
    """
    check_source(dataset, params)
    copies = structure_of(dataset.layout) == "labelled" and params.labelled_copies == "keep"
    unique = deduplicate(rows, dataset, scratch, params.roc_mode, copies, memory_gib, params.text_identity)
    unique.tables.check_share(params.max_rejected)
    try:
        if lost := dataset.splits.keys() - {"train", *(ALL_SPLITS[which] for which in unique.published)}:
            raise InputError(f"splits.{min(lost)}: no row of its files can be used. Correct them, or leave this split "
                             f"out, so that it is drawn.")
        if not is_paired(dataset.layout):
            return text_examples(unique, dataset, params, seed)
        return contrasted_examples(connected(unique, params.split_by, params.captions), dataset, params, seed, embed)
    except InputError as error:
        rejected = ", ".join(f"{reason} {count}" for reason, count in unique.tables.rejections().items())
        raise InputError(f"{error}\nrows: {unique.tables.total}; rejected: {rejected or 'none'}") from error


def contrasted_examples(related: Connected, dataset: Dataset, params: Ingest, seed: int,
                        embed: Embed | None = None) -> Ingested:
    """Make items of source, target and negative."""
    counts = source_counts(related, params)
    try:
        every = make_items(related, dataset, params, seed)
        split, of_group, outside = split_of_items(every, related, params, seed)
        kept = sample_items(split, _limits(params), seed, outside)
        items, split = with_negatives(every, split, kept, of_group, related, dataset, params, seed, embed)
        _check_filled(split, params)
    except InputError as error:
        raise InputError("\n".join([str(error), *triple_lines(counts)])) from error
    group = related.group
    counts["rows"] |= account(related.rows, _steps(related.rows, every, kept, items, params))
    used = text_mask(len(group), items.source, items.negative[items.negative != NO_TEXT], items.outputs[0])
    counts |= {
        "texts": {"distinct": len(group), "used": int(np.count_nonzero(used))},
        "examples": by_split(split), "leak": leak_report(items, split, group, same_letters(related.rows.texts))}
    if params.neg_source in ("retrieved", "mined") and related.rows.structure in CONTINUATIONS:
        counts |= {"training_items_left_out_without_a_negative": len(kept) - len(items),
                   "evaluated_items_without_a_negative": int(np.count_nonzero(items.negative == NO_TEXT))}
    if of_group is not None and params.split_by == "hashed":
        counts["hashed"] = hashed_counts(related, of_group, params)
    origin = negative_origin(dataset, params)
    return Ingested(EXAMPLES, counts, {
        "examples": lambda: _example_batches(items, split, group, np.cumsum(used, dtype=np.int32) - 1, origin),
        "texts": lambda: _text_batches(related.rows.texts, used, dataset.language),
        "rejected": related.rows.tables.rejected})


def text_examples(rows: UniqueRows, dataset: Dataset, params: Ingest, seed: int) -> Ingested:
    """Make an item of each labelled or plain text; plain ones are of training unless their split is published."""
    labelled = rows.structure == "labelled"
    if params.train_part is not None:
        raise InputError(f"ingest.train_part is for data sets of related texts; {'labelled' if labelled else 'plain'} "
                         f"ones have no components. Set it to null in this data set's ingest block.")
    split = rows.rank
    if labelled:
        single = np.bincount(rows.first, minlength=rows.n_texts)[rows.first] == 1
        split = split_classes(rows.label, rows.labels, split, rows.published, params.validation, params.test, seed,
                              single)
    kept = sample_items(split, _limits(params), seed)
    in_sample = np.isin(np.arange(len(rows)), kept)
    texts, split = rows.first[kept], split[kept]
    if not (split == TRAIN).any():
        raise InputError("no text is left for train: keywords are counted in these. Correct the rows, or the data "
                         "set's `splits`.")
    used = text_mask(rows.n_texts, texts)
    counts = {"rows": row_counts(rows) | account(rows, [(in_sample, _BEYOND)]),
              "texts": {"distinct": rows.n_texts, "used": int(np.count_nonzero(used))},
              "examples": by_split(split), "published_splits": [SPLITS[which] for which in rows.published]}
    labels = None
    if labelled:
        counts |= labelled_counts(rows, kept, split)
        labels = np.array(rows.labels, dtype=object)[rows.label[kept]]
    return Ingested(LABELLED_EXAMPLES if labelled else PLAIN_EXAMPLES, counts, {
        "examples": lambda: _text_example_batches((np.cumsum(used, dtype=np.int32) - 1)[texts], labels, split),
        "texts": lambda: _text_batches(rows.texts, used, dataset.language),
        "rejected": rows.tables.rejected})


def _steps(rows: UniqueRows, every: Items, kept: np.ndarray, items: Items,
           params: Ingest) -> list[tuple[np.ndarray, str]]:
    """Return which ``rows`` are in an item after each step of making them, and why others are not."""
    rule = f" and ingest.qqp_rule: {params.qqp_rule}" if params.neg_source == "labelled" else ""
    unused = f"unused: in no item under ingest.neg_source: {params.neg_source}{rule}"
    if params.neg_source == "given":  # an item of each row
        return [(np.isin(np.arange(len(rows)), kept), _BEYOND)]
    return [(in_items(rows, every), unused), (in_items(rows, every.at(kept)), _BEYOND),
            (in_items(rows, items), "no negative: none can be found for its items")]


def _limits(params: Ingest) -> dict[str, int | None]:
    return {"train": params.max_train, "validation": params.max_validation, "test": params.max_test}


def _check_filled(split: np.ndarray, params: Ingest) -> None:
    empty = [name for name, count in by_split(split).items() if not count]
    if empty and params.split_by == "hashed":
        widen = "widen ingest.train_part, " if params.train_part else ""
        raise InputError(f"no example is left for {empty[0]}: under ingest.split_by hashed no component with an "
                         f"example was drawn for it. Give more data, change the shares or the seed, {widen}or set "
                         f"ingest.split_by to component.")
    if empty:
        raise InputError(f"no example is left for {empty[0]}: the rows that the data set publishes under this split "
                         f"make none. Correct `splits` or columns.split, set ingest.neg_source to retrieved or none, "
                         f"or set ingest.split_by to pair, which leaves rows where they were published.")


def _example_batches(items: Items, split: np.ndarray, group: np.ndarray, ids: np.ndarray,
                     origin: str) -> Iterator[pa.Table]:
    """Yield the table ``examples``, given split (n_items,), component (n_texts,) and text id (n_texts,)."""
    outputs, owner = items.outputs
    bounds = np.searchsorted(owner, np.arange(len(items) + 1))
    for start in range(0, len(items), _BATCH):
        end = min(start + _BATCH, len(items))
        source, target, negative = (part[start:end] for part in (items.source, items.target, items.negative))
        without = negative == NO_TEXT
        references = ids[outputs[bounds[start]:bounds[end]]].astype(np.int64)
        yield pa.table({
            "example_id": np.arange(start, end), "split": np.array(ALL_SPLITS)[split[start:end]],
            "source_id": ids[source], "target_id": ids[target], "negative_id": pa.array(ids[negative], mask=without),
            "reference_ids": pa.ListArray.from_arrays(bounds[start:end + 1] - bounds[start], references),
            "group": group[source],
            "negative_origin": pa.array(np.full(end - start, origin), pa.string(), mask=without)})


def _text_example_batches(ids: np.ndarray, labels: np.ndarray | None, split: np.ndarray) -> Iterator[pa.Table]:
    """Yield the table ``labelled_examples``, or ``plain_examples`` without labels, given columns (n_examples,)."""
    for start in range(0, len(ids), _BATCH):
        piece = slice(start, start + _BATCH)
        table = pa.table({"example_id": np.arange(start, start + len(ids[piece])),
                          "split": np.array(SPLITS)[split[piece]], "text_id": ids[piece]})
        yield table if labels is None else table.append_column("label", pa.array(labels[piece], pa.string()))


def _text_batches(texts: TextFile, used: np.ndarray, language: str) -> Iterator[pa.Table]:
    """Yield the table ``texts``: those that are ``used`` (n_texts,), numbered anew."""
    start = 0
    for batch in texts.batches(used, _BATCH):
        yield pa.table({"text_id": np.arange(start, start + len(batch)), "text": pa.array(batch, pa.string()),
                        "language": pa.array([language] * len(batch), pa.string())})
        start += len(batch)


def _work(process: StageProcess) -> None:
    params = process.params
    key = process.instance
    dataset, spool = params.datasets[key], process.scratch / "spool"
    rmtree(spool, ignore_errors=True)  # left by an attempt that was killed
    spool.mkdir()
    try:
        settings = params.ingest_settings(key)
        mines = settings.neg_source == "mined" and is_paired(dataset.layout)
        embed = frozen(settings.neg_encoder) if mines else None
        ingested = run(read_rows(dataset), dataset, settings, params.seed, spool, embed, params.runtime.memory_gib)
        models = {"neg_encoder": resolve_encoder(settings.neg_encoder).description} if mines else {}
        provenance = Provenance(process.name, process.params_hash, models, ingested.counts)
        paths = DatasetPaths(key)
        for name, pieces in ingested.pieces.items():
            with table_writer(paths.table(name), ingested.schemas[name], provenance) as writer:
                for piece in pieces():
                    writer.write(piece)
        write_json(paths.metrics("ingest"), ingested.counts)
    except duckdb.OutOfMemoryException as error:
        raise InputError(f"runtime.memory_gib: {params.runtime.memory_gib:g} GiB and the free disk space are too "
                         f"little for the rows of {key}. Raise it, or free space under {process.scratch}.") from error
    finally:
        rmtree(spool)
    sys.stderr.write(summary(ingested.counts))


main = partial(run_stage, "ingest", _work)
