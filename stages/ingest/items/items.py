"""Examples before they are written: arrays of text numbers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

NO_TEXT = -1
_PIECE = 2**13


@dataclass(frozen=True)
class TextLists:
    """Texts of each group of captions, or further texts of each row, one list after another.

    Attributes:
        bounds: (n_lists + 1,) where each list begins, and the end of the last.
        texts: text numbers, in the order of the input within a list.
    """

    bounds: np.ndarray
    texts: np.ndarray

    def of(self, number: int) -> list[int]:
        """Return the texts of one list."""
        return self.texts[self.bounds[number]:self.bounds[number + 1]].tolist()

    def at(self, places: np.ndarray) -> "TextLists":
        """Return the lists at ``places``."""
        first, lengths = self.bounds[places], self.bounds[places + 1] - self.bounds[places]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return text_lists(lengths, self.texts[np.repeat(first, lengths) + within])


def text_lists(lengths: np.ndarray, texts: np.ndarray) -> TextLists:
    """Return the lists of the given ``lengths`` that stand one after another in ``texts``."""
    return TextLists(np.append(0, np.cumsum(lengths, dtype=np.int64)), texts)


def grouped(group: np.ndarray, texts: np.ndarray, count: int) -> TextLists:
    """Return the ``texts`` (n,) of each of ``count`` groups, in their order, given the (n,) ``group`` of each."""
    return text_lists(np.bincount(group, minlength=count), texts[np.argsort(group, kind="stable")])


def components(n_texts: int, pair_arrays: Iterable[np.ndarray]) -> np.ndarray:
    """Return the (n_texts,) connected component of each text, numbered by first text, given arrays (n, 2) of pairs."""
    pairs = np.concatenate([np.empty((0, 2), np.int32), *pair_arrays])
    edges = coo_array((np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), shape=(n_texts, n_texts))
    return connected_components(edges, directed=False)[1] if n_texts else np.empty(0, dtype=np.int32)


@dataclass(frozen=True)
class Items:
    """Examples as arrays of text numbers, four bytes each.

    Attributes:
        source: (n,) the input.
        target: (n,) the output.
        negative: (n,) the negative; ``NO_TEXT`` where there is none, or none yet.
        further: (n, K - 1) further negatives, best first; ``NO_TEXT`` behind the last of each row.
        rank: (n,) published split as index into ``SPLITS``; 0 also where none is published.
        group: (n,) group of captions that the item is made from; (0,) if it has no reference but its target.
        captions: the groups, if there are any.
    """

    source: np.ndarray
    target: np.ndarray
    negative: np.ndarray
    rank: np.ndarray
    group: np.ndarray
    further: np.ndarray
    captions: TextLists | None = None

    def __len__(self) -> int:
        return len(self.source)

    def at(self, places: np.ndarray) -> "Items":
        """Return the items at ``places``."""
        return Items(self.source[places], self.target[places], self.negative[places], self.rank[places],
                     self.group[places] if self.captions else self.group, self.further[places], self.captions)

    def with_negatives(self, found: np.ndarray) -> "Items":
        """Return the items with negatives ``found``, (n, K), best first."""
        return replace(self, negative=found[:, 0], further=found[:, 1:])

    def negatives(self) -> Iterator[np.ndarray]:
        """Yield the (n,) first, second, ... negative of each item; ``NO_TEXT`` where there is none."""
        yield self.negative
        yield from self.further.T

    def references(self, start: int, end: int) -> list[list[int]]:
        """Return the references of items ``start`` to ``end``: the target, then every other caption but the source."""
        if self.captions is None:
            return self.target[start:end, None].tolist()
        columns = (column[start:end].tolist() for column in (self.group, self.source, self.target))
        return [[target, *(text for text in self.captions.of(group) if text not in (source, target))]
                for group, source, target in zip(*columns, strict=True)]

    def outputs(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield, piece by piece, the texts of all references, and the place of the item of each."""
        for start in range(0, len(self), _PIECE):
            places = np.arange(start, min(start + _PIECE, len(self)))
            if self.captions is None:
                yield self.target[places], places
                continue
            lists = self.captions.at(self.group[places])
            texts, items = lists.texts, np.repeat(places, np.diff(lists.bounds))
            other = texts != self.source[items]
            yield texts[other], items[other]


def plain_items(source: np.ndarray, target: np.ndarray, negative: np.ndarray | None = None,
                rank: np.ndarray | None = None, further: np.ndarray | None = None) -> Items:
    """Return items with one reference each."""
    none = np.full(len(source), NO_TEXT, dtype=np.int32)
    return Items(source, target, none if negative is None else negative,
                 np.zeros(len(source), dtype=np.int8) if rank is None else rank, np.empty(0, dtype=np.int32),
                 no_further(len(source)) if further is None else further)


def no_further(count: int) -> np.ndarray:
    """Return the further negatives of ``count`` items that have but one, or none."""
    return np.empty((count, 0), dtype=np.int32)


def joined(parts: list[Items]) -> Items:
    """Return the items of all ``parts``, which share their captions."""
    if len(parts) == 1:
        return parts[0]
    source, target, negative, rank, group, further = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("source", "target", "negative", "rank", "group", "further"))
    return Items(source, target, negative, rank, group, further, parts[0].captions)
