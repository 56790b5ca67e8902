"""Tables in pieces, from arrays of numbers and texts on disk."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from stages.common.schemas import SPLITS
from stages.ingest.deduplication.on_disk import TextFile
from stages.ingest.items.items import NO_TEXT, Items

_BATCH = 2**13


def text_numbers(used: np.ndarray) -> np.ndarray:
    """Return the number of each text among those that are ``used`` (n_texts,), in order of first appearance."""
    numbers = np.cumsum(used, dtype=np.int32)
    numbers -= 1
    return numbers


def used_texts(items: Items, n_texts: int) -> np.ndarray:
    """Return which texts the items use, (n_texts,) bool."""
    used = np.zeros(n_texts, dtype=bool)
    used[items.source] = True
    for negative in items.negatives():
        used[negative[negative != NO_TEXT]] = True
    for texts, _ in items.outputs():
        used[texts] = True
    return used


def example_batches(items: Items, split: np.ndarray, group: np.ndarray, numbers: np.ndarray,
                    origin: str) -> Iterator[pa.Table]:
    """Yield the table ``examples``.

    Args:
        items: the examples.
        split: (n_items,) index into ``SPLITS``.
        group: (n_texts,) connected component of each text.
        numbers: (n_texts,) text ids.
        origin: where negatives are from.
    """
    names = np.array(SPLITS)
    for start in range(0, len(items), _BATCH):
        end = min(start + _BATCH, len(items))
        source, target, negative = (part[start:end] for part in (items.source, items.target, items.negative))
        without = negative == NO_TEXT
        references = [numbers[texts].tolist() for texts in items.references(start, end)]
        further = [numbers[texts[texts != NO_TEXT]].tolist() for texts in items.further[start:end]]
        yield pa.table({
            "example_id": np.arange(start, end), "split": names[split[start:end]], "source_id": numbers[source],
            "target_id": numbers[target], "negative_id": pa.array(numbers[negative], mask=without),
            "further_negative_ids": pa.array(further, pa.list_(pa.int64())),
            "reference_ids": pa.array(references, pa.list_(pa.int64())), "group": group[source],
            "negative_origin": pa.array(np.full(end - start, origin), pa.string(), mask=without)})


def text_example_batches(texts: np.ndarray, labels: np.ndarray | None, split: np.ndarray,
                         numbers: np.ndarray) -> Iterator[pa.Table]:
    """Yield the table ``labelled_examples``, or ``plain_examples`` if there are no labels.

    Args:
        texts: (n,) text number of each example.
        labels: (n,) name of its class.
        split: (n,) index into ``SPLITS``.
        numbers: (n_texts,) text ids.
    """
    names = np.array(SPLITS)
    for start in range(0, len(texts), _BATCH):
        piece = slice(start, start + _BATCH)
        table = pa.table({"example_id": np.arange(start, start + len(texts[piece])), "split": names[split[piece]],
                          "text_id": numbers[texts[piece]]})
        yield table if labels is None else table.append_column("label", pa.array(labels[piece], pa.string()))


def text_batches(texts: TextFile, used: np.ndarray, language: str) -> Iterator[pa.Table]:
    """Yield the table ``texts``: those that are ``used`` (n_texts,), numbered anew."""
    start = 0
    for batch in texts.batches(used, _BATCH):
        yield pa.table({"text_id": np.arange(start, start + len(batch)), "text": pa.array(batch, pa.string()),
                        "language": pa.array([language] * len(batch), pa.string())})
        start += len(batch)
