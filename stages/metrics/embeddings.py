"""Embedding similarity of outputs and references: Extrema, Average and Greedy (METHODS E.2).

Values depend on the word vectors and are comparable only under one and the same table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from tokenizers import Tokenizer

from stages.metrics.tokens import Text, reference_lists, token_lists

# Pairs handled at once: bounds memory to a few dozen MiB, and changes no value.
_CHUNK = 512


class WordVectors(Protocol):
    """A table of word vectors."""

    def lookup(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return (vectors (n, d), known (n,) bool) of ``words``; rows of unknown words are ignored."""


class EncoderVectors:
    """Static word vectors of an encoder: the mean of the word-piece embeddings of each word.

    A word is known unless its pieces contain the unknown token.

    Args:
        table: word-piece embedding matrix of the encoder, (V, d).
        tokenizer: its tokenizer: a ``tokenizers.Tokenizer``, or a transformers tokenizer that wraps one.
    """

    def __init__(self, table: np.ndarray, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        # A copy: padding and truncation stored with the tokenizer must not touch single words.
        self._tokenizer = Tokenizer.from_str(backend.to_str())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._table = np.asarray(table)
        self._unknown = getattr(self._tokenizer.model, "unk_token", None)

    @property
    def size(self) -> int:
        """Width of a vector."""
        return int(self._table.shape[1])

    def lookup(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return (vectors (n, d) float64, known (n,) bool) of ``words``."""
        encodings = self._tokenizer.encode_batch(list(words), add_special_tokens=False)
        pieces = [encoding.ids for encoding in encodings]
        known = np.array([bool(encoding.ids) and self._unknown not in encoding.tokens
                          for encoding in encodings], dtype=bool)
        counts = np.array([len(ids) for ids in pieces], dtype=np.int64)
        owners = np.repeat(np.arange(len(pieces)), counts)
        vectors = np.zeros((len(pieces), self._table.shape[1]))
        if len(owners):
            rows = self._table[np.concatenate([ids for ids in pieces if ids])].astype(np.float64)
            np.add.at(vectors, owners, rows)
        return vectors / np.maximum(counts, 1)[:, None], known


@dataclass(frozen=True)
class Similarities:
    """Similarities of outputs to references.

    Attributes:
        extrema, average: (n_items,); NaN where no reference has a known word (the item is skipped).
        greedy: (n_items,); 0 for such an item.
    """

    extrema: np.ndarray
    average: np.ndarray
    greedy: np.ndarray

    @property
    def skipped(self) -> int:
        """Number of items left out of the means of Extrema and Average."""
        return int(np.isnan(self.average).sum())

    def means(self) -> dict[str, float]:
        """Return the mean of each over the items that count; 0 if none does."""
        counted = ~np.isnan(self.average)
        return {"extrema": _mean(self.extrema[counted]), "average": _mean(self.average[counted]),
                "greedy": _mean(self.greedy)}


def embedding_similarity(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]],
                         vectors: WordVectors) -> Similarities:
    """Return Extrema, Average and Greedy of every item (Liu et al. 2016; Rus and Lintean 2012).

    Average is the cosine of the mean vectors; Extrema that of the vectors which keep, per dimension, the
    value of greater magnitude (the positive one in a tie); Greedy the mean, over both directions, of each
    word's best cosine on the other side. Unknown words are dropped, vectors are not normalised. An item with
    several references takes the best of each measure.

    Args:
        hypotheses: one text (or list of tokens) per item.
        references: per item a string or a sequence of references.
        vectors: word vectors, such as :class:`EncoderVectors`.

    Raises:
        ValueError: different numbers of items.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} items with references")
    outputs, targets = token_lists(hypotheses), reference_lists(references)
    words = sorted({word for tokens in outputs for word in tokens}
                   | {word for item in targets for tokens in item for word in tokens})
    table, known = vectors.lookup(words) if words else (np.zeros((0, 1)), np.zeros(0, dtype=bool))
    index = {word: row for row, word in enumerate(words) if known[row]}
    pairs = [(item, _rows(tokens, index), _rows(reference, index))
             for item, tokens in enumerate(outputs) for reference in targets[item]]
    scores = np.full((len(outputs), 3), np.nan)
    for start in range(0, len(pairs), _CHUNK):
        chunk = pairs[start:start + _CHUNK]
        values = _compare([left for _, left, _ in chunk], [right for _, _, right in chunk], table)
        np.fmax.at(scores, [item for item, _, _ in chunk], values)
    return Similarities(scores[:, 0], scores[:, 1], np.nan_to_num(scores[:, 2]))


def _rows(tokens: Iterable[str], index: dict[str, int]) -> np.ndarray:
    return np.array([index[token] for token in tokens if token in index], dtype=np.int64)


def _compare(left: list[np.ndarray], right: list[np.ndarray], table: np.ndarray) -> np.ndarray:
    """Return (n_pairs, 3): Extrema, Average, Greedy; NaN in the first two where ``right`` is empty."""
    scores = np.zeros((len(left), 3))
    present = [pair for pair in range(len(left)) if len(left[pair]) and len(right[pair])]
    if present:
        sides = [_summaries([side[pair] for pair in present], table) for side in (left, right)]
        scores[present, 0] = _cosine(sides[0][0], sides[1][0])
        scores[present, 1] = _cosine(sides[0][1], sides[1][1])
        unit = {pair: (_unit(table[left[pair]]), _unit(table[right[pair]])) for pair in present}
        scores[present, 2] = [_greedy(*unit[pair]) for pair in present]
    scores[[len(rows) == 0 for rows in right], :2] = np.nan
    return scores


def _summaries(rows: list[np.ndarray], table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the extreme and the mean vector of each text, both (n, d); no text is empty."""
    lengths = np.array([len(one) for one in rows])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    words = table[np.concatenate(rows)]
    highest, lowest = np.maximum.reduceat(words, starts), np.minimum.reduceat(words, starts)
    extreme = np.where(highest >= np.abs(lowest), highest, lowest)
    return extreme, np.add.reduceat(words, starts) / lengths[:, None]


def _greedy(left: np.ndarray, right: np.ndarray) -> float:
    cosines = left @ right.T    # (n_left, n_right)
    return float((cosines.max(axis=1).mean() + cosines.max(axis=0).mean()) / 2)


def _cosine(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (_unit(left) * _unit(right)).sum(axis=1)


def _unit(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms == 0, 1, norms)     # a zero vector is similar to nothing


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
