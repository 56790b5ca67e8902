"""Mined negatives: the texts nearest to the input by cosine of a frozen encoder, and how easy negatives are to it.

Word overlap finds negatives that an encoder tells apart from the true output nearly always (METHODS A.6, Scale).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from keycontrast.errors import InputError
from keycontrast.progress import progress
from stages.common.encoders import embed_texts, resolve_encoder
from stages.common.layouts import TURN
from stages.common.schemas import SPLITS
from stages.common.seeds import seed_everything
from stages.ingest.deduplication.on_disk import TextFile
from stages.ingest.items.items import NO_TEXT, Items
from stages.ingest.negatives.word_counts import in_key_order

# Yields places of texts and their unit vectors (n, d), chunk by chunk, until all have been.
Embed = Callable[[Sequence[str]], Iterable[tuple[np.ndarray, np.ndarray]]]

_ROWS, _LONGEST = 64, 128  # texts of a chunk, word pieces of a text
_PIECE = 2**12
# Cosines are compared to so many decimals, ties by text key: sums of another order differ behind them.
_DECIMALS = 5


def frozen(source: str) -> Embed:
    """Return what embeds texts as unit vectors by the means of an encoder's states; it holds a chunk of them at a time.

    On the CPU and by one thread, so that which text is the nearest hangs on no setting of a machine.

    Args:
        source: of the encoder, as the param ``ingest.neg_encoder`` names it.

    Raises:
        InputError: there is no such encoder.
    """
    from models.common.encoders import load_encoder

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

    def embedded(texts: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for places, found in embed_texts(encoder, tokenizer, texts, _ROWS, longest, "mean",
                                         lambda chunks: progress(chunks, "ingest: embedding", unit="chunk")):
            yield places, found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-12))

    return embedded


class _Chosen(Sequence[str]):
    """The texts ``numbers`` (n,), in that order, each read when it is asked for; turns of a dialogue as one text."""

    def __init__(self, texts: TextFile, numbers: np.ndarray) -> None:
        self._texts, self._numbers = texts, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._texts[number].replace(TURN, " ") for number in self._numbers[place].tolist()]
        return self._texts[int(self._numbers[place])].replace(TURN, " ")


class Vectors:
    """Unit vectors of texts, each embedded once, when it is first asked for. They lie on disk, four bytes a number.

    Memory: eight bytes per text, and some tens of bytes for each that is being embedded.

    Args:
        texts: all texts.
        embed: see :func:`frozen`.
        folder: for the vectors, as long as any are used; it is made.
    """

    def __init__(self, texts: TextFile, embed: Embed, folder: Path) -> None:
        self._texts, self._embed, self._folder = texts, embed, folder
        self._row = np.full(len(texts), NO_TEXT, dtype=np.int64)
        self._known, self._width = 0, 0
        folder.mkdir()

    def know(self, numbers: np.ndarray) -> None:
        """Embed those of the texts ``numbers`` that have no vector yet, in the order of their text keys."""
        wanted = np.zeros(len(self._row), dtype=bool)
        wanted[numbers] = True
        wanted &= self._row == NO_TEXT
        if not wanted.any():
            return
        order = in_key_order(self._texts, wanted)
        with (self._folder / "known").open("r+b" if self._known else "wb") as file:
            for places, vectors in self._embed(_Chosen(self._texts, order)):
                self._width = vectors.shape[1]
                for place, vector in zip(places, vectors.astype("<f4", copy=False), strict=True):
                    file.seek((self._known + place) * vector.nbytes)
                    file.write(vector.tobytes())
        self._texts.close()
        self._row[order] = self._known + np.arange(len(order))
        self._known += len(order)

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the vectors of the texts ``numbers`` (n, d), in memory."""
        self.know(numbers)
        return self._mapped("known", self._known)[self._row[numbers]]

    def mapped(self, numbers: np.ndarray) -> np.ndarray:
        """Return the vectors of the texts ``numbers`` (n, d), n > 0, mapped from the disk."""
        self.know(numbers)
        known, rows = self._mapped("known", self._known), self._row[numbers]
        if (np.diff(rows) == 1).all():
            return known[rows[0]:rows[-1] + 1]
        name = str(len(list(self._folder.iterdir())))
        with (self._folder / name).open("wb") as file:
            for start in range(0, len(rows), _PIECE):
                file.write(known[rows[start:start + _PIECE]].tobytes())
        return self._mapped(name, len(rows))

    def _mapped(self, name: str, count: int) -> np.ndarray:
        return np.asarray(np.memmap(self._folder / name, "<f4", "r", shape=(count, self._width)))


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
            roles = mine.source, mine.target, mine.negative
            for texts in roles:
                vectors.know(texts)
            right, wrong = np.empty((2, len(mine)), dtype=np.float32)
            for start in range(0, len(mine), _PIECE):
                x, *others = (vectors.of(texts[start:start + _PIECE]) for texts in roles)
                for cosine, other in zip((right, wrong), others, strict=True):
                    cosine[start:start + _PIECE] = (x * other).sum(1)
            found[name] = {"share": round(float((right > wrong).mean()), 4),
                           "cosine_of_target": round(float(right.mean()), 4),
                           "cosine_of_negative": round(float(wrong.mean()), 4)}
    return found
