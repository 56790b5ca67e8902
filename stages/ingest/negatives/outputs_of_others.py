"""Negatives that are outputs of other items: of the most similar, of random ones, or as the data set samples them."""

from collections.abc import Iterator

import numpy as np

from keycontrast.progress import progress
from stages.common.seeds import derived_seed, generator
from stages.ingest.deduplication.on_disk import TextFile
from stages.ingest.deduplication.text_keys import text_key
from stages.ingest.items.items import NO_TEXT, Items, TextLists, grouped
from stages.ingest.negatives.bm25 import Bm25
from stages.ingest.negatives.mined import Cosines, Vectors
from stages.ingest.negatives.overlapping import Scores
from stages.ingest.negatives.word_counts import in_key_order
from stages.ingest.splitting.splits import TRAIN

_CELLS = 4_000_000


class Outputs:
    """Outputs that an item may have as negatives: of other components, and nothing that its own one says.

    Args:
        items: all items, whether they are kept or not.
        group: (n_texts,) component of each text.
    """

    def __init__(self, items: Items, group: np.ndarray) -> None:
        self._items, self._of_item = items, group[items.source]
        self._places = grouped(self._of_item, np.arange(len(items)), int(group.max(initial=-1)) + 1)

    def first(self, item: int, others: Iterator[int], count: int) -> list[int]:
        """Return the outputs of the first ``others``, places of items, that ``item`` may have; none twice."""
        refused, chosen = self.of_component(item), list[int]()
        for other in others:
            output = int(self._items.target[other])
            if output not in refused and self._of_item[other] != self._of_item[item]:
                chosen.append(output)
                refused.add(output)
                if len(chosen) == count:
                    break
        return chosen

    def of_component(self, item: int) -> set[int]:
        """Return the inputs and outputs of the component of ``item``."""
        places = self._places.of(int(self._of_item[item]))
        return {*self._items.source[places].tolist(), *self._items.target[places].tolist()}


def from_other_items(items: Items, split: np.ndarray, asked: np.ndarray, group: np.ndarray, texts: TextFile, way: str,
                     count: int, seed: int, vectors: Vectors | None = None, ceiling: float | None = None) -> np.ndarray:
    """Return negatives of the items at ``asked``: outputs of items of the same split and of other components.

    ``bm25`` takes the items whose inputs are most similar by BM25, ties by text key of input and output;
    ``mined`` takes the outputs that are nearest to the input by an encoder's cosine, ties likewise;
    ``random`` takes the items that follow a place drawn by the seed and the item's texts, in an order drawn by
    the seed. No output is taken that the item's own component has as input or output, and none twice. The
    order of rows changes nothing. Memory: some tens of bytes per item, for ``bm25`` besides what :class:`Bm25`
    says of the inputs of a split.

    Args:
        items: all items, whether they are kept or not.
        split: (n_items,) index into ``SPLITS``.
        asked: (n,) places of the items that are kept, rising.
        group: (n_texts,) component of each text.
        texts: all texts.
        way: ``bm25``, ``mined`` or ``random``.
        count: negatives per item.
        seed: the project's seed.
        vectors: of the texts, for ``mined``.
        ceiling: the cosine above which ``mined`` takes nothing.

    Returns:
        (n, count) text numbers, best first; ``NO_TEXT`` where the split has no further one.
    """
    found, outputs = np.full((len(asked), count), NO_TEXT, dtype=np.int32), Outputs(items, group)
    for which in np.unique(split[asked]).tolist():
        pool = _in_key_order(items, np.flatnonzero(split == which), texts)
        mine = np.flatnonzero(split[asked] == which)
        queries = np.argsort(pool)[np.searchsorted(np.sort(pool), asked[mine])]
        if way == "random":
            ranked = _shuffled(items, pool, queries, texts, seed)
        elif vectors is None:
            ranked = _similar(Bm25(texts, items.source[pool]), len(pool), queries)
        else:
            nearness = Cosines(vectors.mapped(items.source[pool]), vectors.mapped(items.target[pool]), ceiling)
            ranked = _similar(nearness, len(pool), queries)
        for row, others in zip(mine.tolist(), ranked, strict=True):
            chosen = outputs.first(int(asked[row]), (int(pool[other]) for other in others), count)
            found[row, :len(chosen)] = chosen
    texts.close()
    return found


def _in_key_order(items: Items, pool: np.ndarray, texts: TextFile) -> np.ndarray:
    """Return the places in ``pool`` by rising text keys of inputs, those of one input by that of the output."""
    wanted = np.zeros(len(texts), dtype=bool)
    wanted[items.source[pool]] = wanted[items.target[pool]] = True
    ordered = in_key_order(texts, wanted)
    rank = np.empty(len(texts), dtype=np.int32)
    rank[ordered] = np.arange(len(ordered))
    found: np.ndarray = pool[np.lexsort((rank[items.target[pool]], rank[items.source[pool]]))]
    return found


def _similar(engine: Scores, size: int, queries: np.ndarray) -> Iterator[Iterator[int]]:
    """Yield for each query the places of a pool of ``size``, the best first; each to be used before the next."""
    step = max(1, _CELLS // max(1, size))
    for start in progress(range(0, len(queries), step), "ingest: negatives", unit="chunk"):
        for scores in engine.scores(queries[start:start + step]):
            yield _falling(scores)


def _falling(scores: np.ndarray) -> Iterator[int]:
    for _ in range(len(scores)):
        best = int(scores.argmax())
        if np.isneginf(scores[best]):
            return
        yield best
        scores[best] = -np.inf


def _shuffled(items: Items, pool: np.ndarray, queries: np.ndarray, texts: TextFile,
              seed: int) -> Iterator[Iterator[int]]:
    order = generator(seed, "ingest", "random negatives").permutation(len(pool))
    for item in pool[queries].tolist():
        key = "\n".join(text_key(texts[int(number)]) for number in (items.source[item], items.target[item]))
        start = derived_seed(seed, "ingest", "random negative", key) % len(pool)
        yield (int(order[(start + step) % len(pool)]) for step in range(len(pool)))


def from_candidates(items: Items, split: np.ndarray, asked: np.ndarray, group: np.ndarray, candidates: TextLists,
           count: int) -> np.ndarray:
    """Return negatives of the items at ``asked``: the first of their own candidates that they may have.

    A training item takes no text that an evaluated item has as input or output. What is evaluated takes its
    candidates wherever they are from: data sets sample those of the test from training.

    Args:
        items: all items, one per list of candidates.
        split: (n_items,) index into ``SPLITS``.
        asked: (n,) places of the items that are kept.
        group: (n_texts,) component of each text.
        candidates: texts sampled for each item, best first.
        count: negatives per item.

    Returns:
        (n, count) text numbers; ``NO_TEXT`` where there is no further one.
    """
    found, outputs = np.full((len(asked), count), NO_TEXT, dtype=np.int32), Outputs(items, group)
    evaluated = np.zeros(len(group), dtype=bool)
    evaluated[items.source[split != TRAIN]] = evaluated[items.target[split != TRAIN]] = True
    for row, item in enumerate(asked.tolist()):
        refused = outputs.of_component(item)
        chosen = [text for text in candidates.of(item)
                  if text not in refused and not (split[item] == TRAIN and evaluated[text])][:count]
        found[row, :len(chosen)] = chosen
    return found
