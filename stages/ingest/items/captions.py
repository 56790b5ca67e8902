"""Groups of texts that say the same: one text the source and the others its references, once or for each of them."""

from array import array

import numpy as np

from keycontrast.progress import progress
from stages.common.seeds import derived_seed
from stages.ingest.deduplication.on_disk import TextFile
from stages.ingest.deduplication.taken_rows import Taken
from stages.ingest.deduplication.text_keys import text_key
from stages.ingest.items.items import NO_TEXT, Items, TextLists, components, grouped, no_further


def caption_groups(taken: Taken, n_groups: int) -> TextLists:
    """Return the captions of each group, groups by number."""
    return grouped(taken.second, taken.first, n_groups)


def caption_components(captions: TextLists, n_texts: int) -> np.ndarray:
    """Return the (n_texts,) component of each text: a group connects its texts, a text its groups."""
    lengths = np.diff(captions.bounds)
    first = captions.texts[captions.bounds[:-1][lengths > 0]]
    return components(n_texts, [np.stack([np.repeat(first, lengths[lengths > 0]), captions.texts], axis=1)])


def caption_items(captions: TextLists, rank: np.ndarray, texts: TextFile, source: str, seed: int) -> Items:
    """Return the items of the groups of two or more: the references are the captions that are not the source.

    Args:
        captions: the groups.
        rank: (n_groups,) published split of each.
        texts: all texts, read for random sources.
        source: ``random`` draws one source per group by the seed and the texts of the group, whatever their order, and
            ``first`` takes the first one; the target is the first of the others. ``each`` makes every caption a source
            once, with the caption after it, in a circle, for target.
        seed: the project's seed.
    """
    sources, targets, of_item = array("i"), array("i"), array("i")
    for group in progress(np.flatnonzero(np.diff(captions.bounds) > 1), "ingest: captions", unit="group"):
        members = captions.of(int(group))
        if source == "each":
            chosen = list(zip(members, members[1:] + members[:1], strict=True))
        else:
            one = _drawn(members, texts, seed) if source == "random" else members[0]
            chosen = [(one, next(text for text in members if text != one))]
        for text, target in chosen:
            sources.append(text)
            targets.append(target)
            of_item.append(int(group))
    of_items = np.frombuffer(of_item, np.int32)
    return Items(np.frombuffer(sources, np.int32), np.frombuffer(targets, np.int32),
                 np.full(len(sources), NO_TEXT, dtype=np.int32), rank[of_items], of_items, no_further(len(sources)),
                 captions)


def _drawn(members: list[int], texts: TextFile, seed: int) -> int:
    keys = {text_key(texts[number]): number for number in members}
    ordered = sorted(keys)
    return keys[ordered[derived_seed(seed, "ingest", "caption", *ordered) % len(ordered)]]
