"""Encoded texts together with the word pieces of each source word, and from scores of pieces to those of words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Encoding
from torch import Tensor
from transformers import BatchEncoding


@dataclass(frozen=True)
class WordPieces:
    """Which pieces make which word, for a whole batch, as flat arrays.

    Attributes:
        counts: words of each row (B,).
        word: for each of P memberships, the word, numbered through the batch row after row (P,).
        row: the row of the piece (P,).
        position: its place in the row (P,).
    """

    counts: np.ndarray
    word: np.ndarray
    row: np.ndarray
    position: np.ndarray

    @classmethod
    def of(cls, words: Sequence[Sequence[Sequence[int]]]) -> "WordPieces":
        """Return the same as flat arrays, from lists: per row, per word, the positions of its pieces."""
        flat = [(number, row, position)
                for number, (row, pieces) in enumerate((row, pieces) for row, line in enumerate(words)
                                                       for pieces in line) for position in pieces]
        word, row, position = np.array(flat, dtype=np.int64).reshape(-1, 3).T
        return cls(np.array([len(line) for line in words], dtype=np.int64), word, row, position)

    def unaligned(self) -> np.ndarray:
        """Return how many words of each row have no piece (B,)."""
        covered = np.bincount(self.word, minlength=int(self.counts.sum())) > 0
        owner = np.repeat(np.arange(len(self.counts)), self.counts)
        return np.bincount(owner[~covered], minlength=len(self.counts))


@dataclass(frozen=True)
class SaliencyBatch:
    """Encoded texts or pairs and the word pieces of each source word.

    Attributes:
        inputs: arguments of the network: ``input_ids``, ``attention_mask`` and, if it has segments,
            ``token_type_ids``, each (B, L).
        words: for each sample, for each word of the source segment, the positions of its pieces; empty for
            a word that no piece covers (cut off, or not aligned). A piece may belong to several words.
        special: True for [CLS], [SEP] and padding (B, L). The methods that integrate along a path need it: what
            they start from keeps these and blanks the rest.
    """

    inputs: Mapping[str, Tensor]
    words: list[list[list[int]]] | WordPieces
    special: Tensor | None = None

    @property
    def pieces(self) -> WordPieces:
        """The words as flat arrays."""
        return self.words if isinstance(self.words, WordPieces) else WordPieces.of(self.words)

    def reference_ids(self, pad: int | None) -> Tensor:
        """Return ``input_ids`` with every word piece replaced by [PAD]: as long as the text, and without words.

        Raises:
            ValueError: it is not known which pieces are special, or which is [PAD].
        """
        if self.special is None or pad is None:
            lacking = "which pieces are special (SaliencyBatch.special)" if pad is not None else "the id of [PAD]"
            raise ValueError(f"a path needs a reference text to start from, and {lacking} is not known")
        ids = self.inputs["input_ids"]
        return torch.where(self.special.to(ids.device), ids, torch.full_like(ids, pad))


def as_batch(batch: SaliencyBatch | BatchEncoding) -> SaliencyBatch:
    """Return ``batch``, or the batch of a fast tokenizer's output."""
    return batch if isinstance(batch, SaliencyBatch) else from_encoding(batch)


def from_encoding(encoding: BatchEncoding) -> SaliencyBatch:
    """Return the batch of a fast tokenizer's output; words are those of ``encoding.word_ids``.

    Raises:
        ValueError: a slow tokenizer made it, which does not know its words.
    """
    if not getattr(encoding, "is_fast", False):
        raise ValueError("a fast tokenizer's output, or a SaliencyBatch, is needed to know the words")
    words = _array([row.word_ids for row in _rows(encoding)])  # (B, L), -1 for none
    words = np.where(source_pieces(encoding), words, -1)
    counts = words.max(axis=1, initial=-1) + 1  # (B,)
    row, position = np.nonzero(words >= 0)
    firsts = np.cumsum(counts) - counts
    return SaliencyBatch(_inputs(encoding), WordPieces(counts, firsts[row] + words[row, position], row, position),
                         special_pieces(encoding))


def from_characters(encoding: BatchEncoding, starts: Sequence[np.ndarray],
                    ends: Sequence[np.ndarray]) -> SaliencyBatch:
    """Return the batch of a fast tokenizer's output, with words given by their characters in the first segment.

    Args:
        encoding: B encoded texts or pairs.
        starts: for each row, the first character of each word, ascending.
        ends: for each row, the character after each word, ascending.
    """
    offsets = np.array([row.offsets for row in _rows(encoding)], dtype=np.int64)  # (B, L, 2)
    return SaliencyBatch(_inputs(encoding), overlaps(offsets, source_pieces(encoding), starts, ends),
                         special_pieces(encoding))


def overlaps(offsets: np.ndarray, source: np.ndarray, starts: Sequence[np.ndarray],
             ends: Sequence[np.ndarray]) -> WordPieces:
    """Return which pieces of the source overlap which words, by characters.

    A piece over two words ("dont", cut elsewhere into "do" and "nt") counts for both.

    Args:
        offsets: first character of each piece and the one after it (B, L, 2).
        source: True for pieces of the source segment (B, L).
        starts: for each row, the first character of each word, ascending.
        ends: for each row, the character after each word, ascending.
    """
    counts = np.array([len(row) for row in starts], dtype=np.int64)
    # Each row gets characters of its own, so that the words of the batch are one ascending sequence.
    stride = 1 + max(int(offsets.max(initial=0)), *(int(row[-1]) if len(row) else 0 for row in ends), 0)
    shift = np.repeat(np.arange(len(counts)) * stride, counts)
    first, last = (shift + np.concatenate([np.zeros(0, dtype=np.int64), *map(np.asarray, side)])
                   for side in (starts, ends))
    row, position = np.nonzero(source & (offsets[..., 0] < offsets[..., 1]))
    begin, end = (offsets[row, position, side] + row * stride for side in (0, 1))
    lowest = np.searchsorted(last, begin, side="right")  # the first word that ends after the piece begins
    touched = np.maximum(np.searchsorted(first, end, side="left") - lowest, 0)
    member = np.repeat(np.arange(len(row)), touched)
    within = np.arange(len(member)) - np.repeat(np.cumsum(touched) - touched, touched)
    return WordPieces(counts, lowest[member] + within, row[member], position[member])


def source_pieces(encoding: BatchEncoding) -> np.ndarray:
    """Return True for the pieces of the first segment (B, L)."""
    return _array([row.sequence_ids for row in _rows(encoding)]) == 0


def special_pieces(encoding: BatchEncoding) -> Tensor:
    """Return True for [CLS], [SEP] and padding (B, L)."""
    return torch.tensor([row.special_tokens_mask for row in _rows(encoding)], dtype=torch.bool)


def _rows(encoding: BatchEncoding) -> list[Encoding]:
    """Return what the fast tokenizer found, row by row."""
    return encoding.encodings or []


def _array(rows: Sequence[Sequence[int | None]]) -> np.ndarray:
    return np.array([[-1 if item is None else item for item in row] for row in rows], dtype=np.int64)


def _inputs(encoding: BatchEncoding) -> dict[str, Tensor]:
    names = ("input_ids", "attention_mask", "token_type_ids")
    return {name: torch.as_tensor(encoding[name]) for name in names if name in encoding}


# Equal norms come out of float32 sums with differences of this relative size.
_EQUAL = 1e-6

# Of words of several sentences at once: score, and least, greatest and sum of the scores of its sentence.
NORMALISATIONS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "minmax": lambda score, least, greatest, total: (score - least) / (greatest - least),
    "max": lambda score, least, greatest, total: score / greatest,
    "sum": lambda score, least, greatest, total: score / total,
}


def word_scores(pieces: Tensor, words: WordPieces, normalisation: str) -> list[Tensor]:
    """Return the normalised mean of each word's pieces, sentence by sentence.

    Args:
        pieces: non-negative score of each piece (B, L).
        words: the pieces of each word.
        normalisation: ``minmax``, ``max`` or ``sum``, over the words of a sentence that have pieces.

    Returns:
        For each sentence a float32 tensor (n_words,) on the CPU. Words without pieces get 0; if all words of a
        sentence score the same, they get 0.5.

    Raises:
        ValueError: unknown normalisation.
    """
    normalise = NORMALISATIONS[checked(normalisation, NORMALISATIONS, "normalisation")]
    counts, word, row, position = (torch.from_numpy(array)
                                   for array in (words.counts, words.word, words.row, words.position))
    owner = torch.repeat_interleave(torch.arange(len(counts)), counts)  # (W,) sentence of each word
    n_pieces = torch.bincount(word, minlength=len(owner))
    scores = torch.zeros(len(owner), dtype=torch.float64)
    if len(word):
        found = pieces.double().cpu()[row, position]
        sums = torch.zeros_like(scores).index_add_(0, word, found)
        aligned = n_pieces > 0
        scores[aligned] = _normalised(sums[aligned] / n_pieces[aligned], owner[aligned], len(counts), normalise)
    return list(scores.float().split(counts.tolist()))


def _normalised(means: Tensor, owner: Tensor, n: int, normalise: Callable[..., Tensor]) -> Tensor:
    """Normalise the word means (W,) within the sentences (W,) that own them."""
    empty = torch.zeros(n, dtype=means.dtype)
    least, greatest = (empty.scatter_reduce(0, owner, means, which, include_self=False)[owner]
                       for which in ("amin", "amax"))
    total = empty.index_add(0, owner, means)[owner]
    equal = greatest - least <= _EQUAL * greatest
    return torch.where(equal, torch.full_like(means, 0.5), normalise(means, least, greatest, total))


def checked(name: str, options: object, what: str) -> str:
    """Return ``name`` if it is one of ``options``.

    Raises:
        ValueError: it is not; the message lists them.
    """
    names = [str(option) for option in options]  # type: ignore[attr-defined]
    if name not in names:
        raise ValueError(f"{what}: no {name!r}; valid names: {', '.join(names)}")
    return name
