"""Groups of texts that say the same: one item per group, one text the source and the others its references."""

from array import array

import numpy as np

from stages.ingestion.components import components
from stages.ingestion.disk import TextFile
from stages.ingestion.items import NO_TEXT, Captions, Items
from stages.ingestion.pairs import Taken
from stages.ingestion.textkeys import text_key
from stages.ingestion.triples import Relations
from stages.runtime.progress import progress
from stages.runtime.seeds import derived_seed


def caption_groups(taken: Taken) -> Captions:
    """Return the captions of each group, groups by number."""
    lengths = np.bincount(taken.second)
    order = np.argsort(taken.second, kind="stable")
    return Captions(np.concatenate([[0], np.cumsum(lengths)]), taken.first[order])


def caption_relations(captions: Captions, n_texts: int) -> Relations:
    """Return the partner graph: each caption beside the first of its group, which connects all of them."""
    lengths = np.diff(captions.bounds)
    first = np.repeat(captions.texts[captions.bounds[:-1][lengths > 0]], lengths[lengths > 0])
    pairs = np.stack([first, captions.texts], axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    none = np.empty((0, 2), dtype=np.int32)
    return Relations(pairs, none, components(n_texts, (pairs,)), np.zeros(len(pairs), dtype=np.int8),
                     np.empty(0, dtype=np.int8))


def caption_items(captions: Captions, rank: np.ndarray, texts: TextFile, source: str, seed: int) -> Items:
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
    for group in progress(groups.tolist(), "ingest: captions", unit="group"):
        members = captions.of(group)
        chosen = _drawn(members, texts, seed) if source == "random" else members[0]
        sources.append(chosen)
        targets.append(next(text for text in members if text != chosen))
    return Items(np.frombuffer(sources, np.int32), np.frombuffer(targets, np.int32),
                 np.full(len(groups), NO_TEXT, dtype=np.int32), rank[groups], groups.astype(np.int32), captions)


def _drawn(members: list[int], texts: TextFile, seed: int) -> int:
    keys = {text_key(texts[number]): number for number in members}
    ordered = sorted(keys)
    return keys[ordered[derived_seed(seed, "ingest", "caption", *ordered) % len(ordered)]]
