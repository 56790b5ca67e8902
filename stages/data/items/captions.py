"""Groups of texts that say the same: one item per group, one text the source and the others its references."""

from array import array
from collections.abc import Iterator

import numpy as np

from stages.data.deduplication.on_disk import TextFile
from stages.data.deduplication.taken_rows import Taken
from stages.data.deduplication.text_keys import text_key
from stages.data.items.items import NO_TEXT, Items, TextLists, no_further
from stages.data.splitting.components import components
from stages.runtime.progress import progress
from stages.runtime.seeds import derived_seed

_CHUNK = 2**16


def caption_groups(taken: Taken, n_groups: int) -> TextLists:
    """Return the captions of each group, groups by number: a counting sort, so that nothing but the result is large."""
    ends = np.cumsum(np.bincount(taken.second, minlength=n_groups), dtype=np.int64)
    bounds = np.append(0, ends)
    texts, free = np.empty(len(taken.pairs), dtype=np.int32), bounds[:-1].copy()
    for start in range(0, len(texts), _CHUNK):
        group = taken.second[start:start + _CHUNK]
        order = np.argsort(group, kind="stable")
        names, first, count = np.unique(group[order], return_index=True, return_counts=True)
        within = np.arange(len(group)) - np.repeat(first, count)
        texts[np.repeat(free[names], count) + within] = taken.first[start:start + _CHUNK][order]
        free[names] += count
    return TextLists(bounds, texts)


def caption_components(captions: TextLists, n_texts: int) -> np.ndarray:
    """Return the (n_texts,) component of each text: a group connects its texts, a text its groups."""
    return components(n_texts, _stars(captions))


def _stars(captions: TextLists) -> Iterator[np.ndarray]:
    """Yield each caption beside the first of its group."""
    for start in range(0, len(captions.bounds) - 1, _CHUNK):
        bounds = captions.bounds[start:start + _CHUNK + 1]
        lengths = np.diff(bounds)
        first = captions.texts[bounds[:-1][lengths > 0]]
        yield np.stack([np.repeat(first, lengths[lengths > 0]), captions.texts[bounds[0]:bounds[-1]]], axis=1)


def caption_items(captions: TextLists, rank: np.ndarray, texts: TextFile, source: str, seed: int) -> Items:
    """Return one item per group of two or more: the references are the captions that are not the source.

    Args:
        captions: the groups.
        rank: (n_groups,) published split of each.
        texts: all texts, read for random sources.
        source: ``random`` draws by the seed and the texts of the group, whatever their order; ``first`` takes
            the first one. The target is the first of the others.
        seed: the project's seed.
    """
    sources, targets = array("i"), array("i")
    groups = np.flatnonzero(np.diff(captions.bounds) > 1)
    for group in progress(groups, "ingest: captions", unit="group"):
        members = captions.of(int(group))
        chosen = _drawn(members, texts, seed) if source == "random" else members[0]
        sources.append(chosen)
        targets.append(next(text for text in members if text != chosen))
    return Items(np.frombuffer(sources, np.int32), np.frombuffer(targets, np.int32),
                 np.full(len(groups), NO_TEXT, dtype=np.int32), rank[groups], groups.astype(np.int32),
                 no_further(len(groups)), captions)


def _drawn(members: list[int], texts: TextFile, seed: int) -> int:
    keys = {text_key(texts[number]): number for number in members}
    ordered = sorted(keys)
    return keys[ordered[derived_seed(seed, "ingest", "caption", *ordered) % len(ordered)]]
