"""From scores of word pieces to keyword probabilities of words."""

from collections.abc import Callable

import torch
from torch import Tensor

from models.attribution.batch import WordPieces

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
