"""Mined negatives: the texts nearest to the input by cosine of a frozen encoder, and how easy negatives are to it.

Word overlap finds negatives that an encoder tells apart from the true output nearly always (METHODS A.6, Scale).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stages.artifacts.schemas import SPLITS
from stages.data.deduplication.on_disk import TextFile
from stages.data.deduplication.text_keys import text_key
from stages.data.items.items import NO_TEXT, Items
from stages.data.layouts.dialogue import TURN
from stages.encoders import embed_texts, resolve_encoder
from stages.runtime.errors import InputError
from stages.runtime.progress import progress
from stages.runtime.seeds import seed_everything

Embed = Callable[[Sequence[str]], np.ndarray]

_ROWS, _LONGEST = 64, 128  # texts of a chunk, word pieces of a text
# Cosines are compared to so many decimals, ties by text key: sums of another order differ behind them.
_DECIMALS = 5


def frozen(source: str) -> Embed:
    """Return what embeds texts as unit vectors (n, d) by the means of an encoder's states.

    On the CPU and by one thread, so that which text is the nearest hangs on no setting of a machine.

    Args:
        source: of the encoder, as the param ``ingest.neg_encoder`` names it.

    Raises:
        InputError: there is no such encoder.
    """
    from models.encoders import load_encoder

    try:
        resolved = resolve_encoder(source)
    except InputError as error:
        raise InputError(str(error).replace("encoder.source", "ingest.neg_encoder")) from error
    seed_everything(0)
    try:
        encoder, tokenizer = load_encoder(resolved.location)
    except ValueError as error:
        raise InputError(f"ingest.neg_encoder: {error}.") from error
    assert tokenizer is not None  # a location always has one
    tokenizer.truncation_side = "left"  # the latest turn of a dialogue survives
    longest = min(int(tokenizer.model_max_length), _LONGEST)

    def embedded(texts: Sequence[str]) -> np.ndarray:
        found = np.zeros((len(texts), encoder.config.hidden_size), dtype=np.float32)
        for rows, vectors in embed_texts(encoder, tokenizer, texts, _ROWS, longest, "mean",
                                         lambda chunks: progress(chunks, "ingest: embedding", unit="chunk")):
            found[rows] = vectors
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-12))

    return embedded


class Vectors:
    """Unit vectors of texts, each embedded once, when it is first asked for; about two kilobytes per text.

    Args:
        texts: all texts.
        embed: see :func:`frozen`.
    """

    def __init__(self, texts: TextFile, embed: Embed) -> None:
        self._texts, self._embed = texts, embed
        self._row = np.full(len(texts), NO_TEXT, dtype=np.int64)
        self._known = np.empty((0, 0), dtype=np.float32)

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the vectors of the texts ``numbers`` (n, d)."""
        wanted = np.zeros(len(self._row), dtype=bool)
        wanted[numbers] = True
        wanted &= self._row == NO_TEXT
        if wanted.any():
            surfaces = [text for batch in self._texts.batches(wanted, len(wanted)) for text in batch]
            order = np.array(sorted(range(len(surfaces)), key=lambda place: text_key(surfaces[place])))
            found = self._embed([surfaces[place].replace(TURN, " ") for place in order])
            self._row[np.flatnonzero(wanted)[order]] = len(self._known) + np.arange(len(found))
            self._known = np.concatenate([self._known, found]) if len(self._known) else found
        return self._known[self._row[numbers]]


class Cosines:
    """Cosines of a pool's texts to queries.

    Args:
        queries: unit vectors (n_queries, d).
        pool: unit vectors (n_pool, d).
        ceiling: texts nearer than this are no negatives; None for none.
    """

    def __init__(self, queries: np.ndarray, pool: np.ndarray, ceiling: float | None) -> None:
        self._queries, self._pool, self._ceiling = queries, pool, ceiling

    def scores(self, places: np.ndarray) -> np.ndarray:
        """Return the cosines to the queries at ``places`` (n_places, n_pool); -inf above the ceiling."""
        found = np.round(self._queries[places] @ self._pool.T, _DECIMALS)
        if self._ceiling is not None:
            found[found > self._ceiling] = -np.inf
        return found


def told_apart(items: Items, split: np.ndarray, vectors: Vectors) -> dict[str, Any]:
    """Return, by split, in how many of the items with a negative the output is nearer to the input than that.

    ``share`` of the items, and the mean cosines of both to the input. The higher, the less a contrast has to teach.

    Args:
        items: with their negatives.
        split: (n_items,) index into ``SPLITS``.
        vectors: of the encoder that is asked.
    """
    found = {}
    for which, name in enumerate(SPLITS):
        mine = items.at(np.flatnonzero((split == which) & (items.negative != NO_TEXT)))
        if len(mine):
            x = vectors.of(mine.source)
            right, wrong = ((x * vectors.of(texts)).sum(1) for texts in (mine.target, mine.negative))
            found[name] = {"share": round(float((right > wrong).mean()), 4),
                           "cosine_of_target": round(float(right.mean()), 4),
                           "cosine_of_negative": round(float(wrong.mean()), 4)}
    return found
