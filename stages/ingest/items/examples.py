"""The examples of a data set, in its splits and with their negatives, and the tables that hold them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stages.common.columns.items import EXAMPLES, LABELLED_EXAMPLES, PLAIN_EXAMPLES
from stages.common.columns.texts import REJECTED, TEXTS
from stages.common.schemas import SPLITS, TableSchema
from stages.ingest.deduplication.taken_rows import CONTINUATIONS, Taken
from stages.ingest.items.continuations import opening_marks
from stages.ingest.items.counts import (
    by_split,
    hashed_counts,
    labelled_counts,
    negative_counts,
    row_counts,
    source_counts,
)
from stages.ingest.items.items import Items
from stages.ingest.items.tables import example_batches, text_batches, text_example_batches, text_numbers, used_texts
from stages.ingest.negatives import Embed
from stages.ingest.sources import left_out, made_items, negative_origin, no_items, with_negatives
from stages.ingest.splitting.by_hash import component_marks, inside_part, split_by_hash
from stages.ingest.splitting.exclusions import Connected
from stages.ingest.splitting.leaks import leak_report
from stages.ingest.splitting.splits import TRAIN, sample_items, split_classes, split_groups, split_items
from stages.run.errors import InputError

if TYPE_CHECKING:
    from stages.ingest.params import Dataset, Ingest


@dataclass(frozen=True)
class Ingested:
    """What the stage makes; good as long as the scratch folder stands.

    Attributes:
        examples: schema of the examples.
        counts: the stage's metrics.
        pieces: makes the pieces of a table, by its file: ``examples``, ``texts``, ``rejected``.
    """

    examples: TableSchema
    counts: dict[str, Any]
    pieces: Mapping[str, Callable[[], Iterable[Any]]]

    @property
    def schemas(self) -> dict[str, TableSchema]:
        """Of each of ``pieces``."""
        return {"examples": self.examples, "texts": TEXTS, "rejected": REJECTED}


def contrasted_examples(found: Connected, dataset: "Dataset", params: "Ingest", seed: int,
                        embed: Embed | None = None) -> Ingested:
    """Make items of source, target and negative.

    Args:
        found: what was read.
        dataset: names the structure and language.
        params: rules and shares.
        seed: the project's seed.
        embed: for mined negatives.

    Raises:
        InputError: a split would have none.
    """
    counts = source_counts(found, params)
    whole = made_items(found, params, seed)
    if not len(whole):
        raise no_items(dataset, params, len(found.taken))
    split, of_group, outside = _split(whole, found, params, seed)
    kept = sample_items(split, _limits(params), seed, outside)
    items, split = with_negatives(whole, split, kept, of_group, found, dataset, params, seed, embed)
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
    return Ingested(EXAMPLES, counts, {
        "examples": lambda: example_batches(items, split, group, text_numbers(used), origin),
        "texts": lambda: text_batches(found.taken.texts, used, dataset.language),
        "rejected": found.taken.rows.rejected})


def text_examples(taken: Taken, dataset: "Dataset", params: "Ingest", seed: int) -> Ingested:
    """Make an item of each labelled or plain text.

    Plain texts are of training, but for splits that the data set publishes.

    Raises:
        InputError: a part of training is asked for, or a split would be empty.
    """
    labelled = taken.structure == "labelled"
    if params.train_part is not None:
        raise InputError(f"ingest.train_part is for data sets of related texts; {'labelled' if labelled else 'plain'} "
                         f"ones have no components. Set it to null in this data set's ingest block.")
    split = taken.rank
    if labelled:
        single = np.bincount(taken.first, minlength=taken.n_texts)[taken.first] == 1
        split = split_classes(taken.label, taken.labels, split, taken.published, params.validation, params.test, seed,
                              single)
    kept = sample_items(split, _limits(params), seed)
    texts, split = taken.first[kept], split[kept]
    if not (split == TRAIN).any():
        raise InputError("no text is left for train: keywords are counted in these. Correct the rows, or the data "
                         "set's `splits`.")
    used = np.zeros(taken.n_texts, dtype=bool)
    used[texts] = True
    counts = {"rows": row_counts(taken), "texts": {"distinct": taken.n_texts, "used": int(np.count_nonzero(used))},
              "examples": by_split(split), "published_splits": [SPLITS[which] for which in taken.published]}
    labels = None
    if labelled:
        counts |= labelled_counts(taken, kept, split)
        labels = np.array(taken.labels, dtype=object)[taken.label[kept]]
    return Ingested(LABELLED_EXAMPLES if labelled else PLAIN_EXAMPLES, counts, {
        "examples": lambda: text_example_batches(texts, labels, split, text_numbers(used)),
        "texts": lambda: text_batches(taken.texts, used, dataset.language),
        "rejected": taken.rows.rejected})


def _limits(params: "Ingest") -> dict[str, int | None]:
    return {"train": params.max_train, "validation": params.max_validation, "test": params.max_test}


def _split(items: Items, found: Connected, params: "Ingest", seed: int) -> tuple[
        np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return the split of each item, of each component if they are kept together, and the items to leave out if any."""
    taken, group = found.taken, found.group
    outside = None
    if params.split_by == "pair":
        return split_items(items.rank, taken.published, params.validation, params.test, seed), None, outside
    if params.split_by == "hashed":
        marks = opening_marks(taken, group) if taken.structure in CONTINUATIONS else component_marks(taken.texts, group)
        of_group = split_by_hash(marks, found.sizes, params.validation, params.test, seed, found.highest)
        if params.train_part is not None:
            outside = ((of_group == TRAIN) & ~inside_part(marks, params.train_part, seed))[group[items.source]]
    else:
        of_group = split_groups(group[items.source], int(group.max()) + 1, params.validation, params.test, seed,
                                found.highest)
    return of_group[group[items.source]], of_group, outside


def _check_filled(split: np.ndarray, params: "Ingest") -> None:
    empty = [name for name, count in by_split(split).items() if not count]
    if empty and params.split_by == "hashed":
        raise InputError(f"no example is left for {empty[0]}: under ingest.split_by hashed each component of texts is "
                         f"drawn for itself, and none with an example fell to it. Give more data, change the shares "
                         f"or the seed, {'widen ingest.train_part, ' if params.train_part else ''}or set "
                         f"ingest.split_by to component.")
    if empty:
        raise InputError(f"no example is left for {empty[0]}: the rows that the data set publishes under this split "
                         f"make none. Correct `splits` or columns.split, set ingest.neg_source to retrieved or none, "
                         f"or set ingest.split_by to pair, which leaves rows where they were published.")
