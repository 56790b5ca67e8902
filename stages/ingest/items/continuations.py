"""Stories and dialogues: rows that are kept together by what they tell or answer, and their items (METHODS A.1).

Unlike paraphrases they are not connected by their outputs: many stories end alike and many contexts have the
same short answer, and yet have nothing to do with each other.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from stages.ingest.deduplication.taken_rows import Taken
from stages.ingest.items.items import Items, components, grouped, plain_items

_HASHES = np.iinfo(np.uint64).max


def continuation_inputs(taken: Taken) -> Iterator[np.ndarray]:
    """Yield the text numbers of inputs, (n_rows,) at a time, aligned with the rows."""
    yield taken.first
    if taken.structure == "stories":
        yield from _beginnings(taken)[:, ::2].T


def continuation_components(taken: Taken) -> np.ndarray:
    """Return the (n_texts,) component of each text: inputs of one story, or of one context, are connected.

    Stories that begin with the same sentence are one, whatever ``roc_mode`` makes of them. A text that is an
    output alone is a component of its own, which nothing asks for.
    """
    _, first, number = np.unique(taken.opening, return_index=True, return_inverse=True)
    heads = taken.first[first][number]
    return components(taken.n_texts, [np.stack([heads, inputs], axis=1) for inputs in continuation_inputs(taken)])


def opening_marks(taken: Taken, group: np.ndarray) -> np.ndarray:
    """Return the smallest hash of the stories or contexts of each component, (n_components,) uint64."""
    marks = np.full(int(group.max(initial=-1)) + 1, _HASHES, dtype=np.uint64)
    np.minimum.at(marks, group[taken.first], taken.opening)
    return marks


def with_references(items: Items) -> Items:
    """Return dialogues whose contexts of published evaluated splits are one item each, all right responses of which
    are its references, the first one its target."""
    first = np.unique(np.stack([items.source, items.rank]), axis=1, return_index=True, return_inverse=True)
    one = np.arange(len(items))
    evaluated = items.rank > 0
    one[evaluated] = first[1][first[2].reshape(-1)][evaluated]
    if (one == np.arange(len(items))).all():
        return items
    lists = grouped(one, items.target, len(items))
    return replace(items, group=np.arange(len(items), dtype=np.int32), captions=lists).at(np.unique(one))


def story_items(taken: Taken, mode: str) -> Items:
    """Return the items of each story; each input with its output once."""
    if mode != "next_sentence":
        return plain_items(taken.first, taken.second, rank=taken.rank)
    texts = np.concatenate([_beginnings(taken), taken.pairs], axis=1).reshape(-1, 2)
    rank = np.repeat(taken.rank, len(texts) // max(1, len(taken.rank)))
    # Stories that begin alike share their first items.
    first = np.sort(np.unique(texts[:, 0].astype(np.int64) * taken.n_texts + texts[:, 1], return_index=True)[1])
    return plain_items(texts[first, 0], texts[first, 1], rank=rank[first])


def _beginnings(taken: Taken) -> np.ndarray:
    """Return inputs and outputs in turn of the shorter beginnings of each story, (n_rows, 6) or (n_rows, 0)."""
    width = len(taken.further.texts) // max(1, len(taken))
    return taken.further.texts.reshape(len(taken), width)
