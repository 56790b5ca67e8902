"""Keyword probabilities of words: how much each source word decides a network's answer (PGKPR section 3).

Usage::

    batch = tokenizer(sources, targets, padding=True, truncation=True, return_tensors="pt")
    scores = word_saliency(classifier, batch, "pos_logit")      # one tensor per source, one score per word

With f the chosen output and e_j the embedding of word piece j, a piece scores ||df/de_j||_2 (method ``gradient``), a
word the mean of its pieces, normalised to [0, 1] in its sentence. Method ``integrated_gradients`` takes
|attribution| in place of the norm.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BatchEncoding, PreTrainedModel

POSITIVE = 1  # class of "these two sentences mean the same"
ROWS = 64  # rows of a forward pass where the caller names none

Inputs = Mapping[str, Tensor]


@dataclass(frozen=True)
class WordPieces:
    """Which pieces make which word, for a whole batch, as flat arrays of P memberships."""

    counts: np.ndarray  # words of each row (B,)
    word: np.ndarray  # of each membership, numbered through the batch row after row (P,)
    row: np.ndarray  # of the piece (P,)
    position: np.ndarray  # of the piece in its row (P,)

    def unaligned(self) -> np.ndarray:
        """Return how many words of each row have no piece (B,)."""
        covered = np.bincount(self.word, minlength=int(self.counts.sum())) > 0
        owner = np.repeat(np.arange(len(self.counts)), self.counts)
        return np.bincount(owner[~covered], minlength=len(self.counts))


@dataclass(frozen=True)
class SaliencyBatch:
    """Encoded texts or pairs and the word pieces of each source word."""

    inputs: Inputs  # input_ids, attention_mask and, if the network has segments, token_type_ids, each (B, L)
    # Of the source segment. A word that no piece covers (cut off, or not aligned) has none; a piece may be of several.
    words: WordPieces
    special: Tensor | None = None  # True for [CLS], [SEP] and padding (B, L), which stay where a path begins

    def reference_ids(self, pad: int) -> Tensor:
        """Return ``input_ids`` with every word piece replaced by [PAD]: as long as the text, and without words."""
        assert self.special is not None
        ids = self.inputs["input_ids"]
        return torch.where(self.special.to(ids.device), ids, torch.full_like(ids, pad))


def as_batch(batch: SaliencyBatch | BatchEncoding) -> SaliencyBatch:
    """Return ``batch``, or the batch of a fast tokenizer's output; words are then those of its ``word_ids``."""
    if isinstance(batch, SaliencyBatch):
        return batch
    if not getattr(batch, "is_fast", False):
        raise ValueError("a fast tokenizer's output, or a SaliencyBatch, is needed to know the words")
    words = np.where(_column(batch, "sequence_ids") == 0, _column(batch, "word_ids"), -1)  # (B, L)
    counts = words.max(axis=1, initial=-1) + 1  # (B,)
    row, position = np.nonzero(words >= 0)
    firsts = np.cumsum(counts) - counts
    return _batch_of(batch, WordPieces(counts, firsts[row] + words[row, position], row, position))


def from_characters(encoding: BatchEncoding, starts: Sequence[np.ndarray],
                    ends: Sequence[np.ndarray]) -> SaliencyBatch:
    """Return the batch of a fast tokenizer's output, whose words are given by their characters in the first segment."""
    source = _column(encoding, "sequence_ids") == 0
    return _batch_of(encoding, overlaps(_column(encoding, "offsets"), source, starts, ends))


def overlaps(offsets: np.ndarray, source: np.ndarray, starts: Sequence[np.ndarray],
             ends: Sequence[np.ndarray]) -> WordPieces:
    """Return which pieces of the ``source`` segment (B, L) overlap which words, by characters; a piece may several.

    ``offsets`` (B, L, 2) are the first character of each piece and the one after it, ``starts`` and ``ends`` of words.
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


def _batch_of(encoding: BatchEncoding, words: WordPieces) -> SaliencyBatch:
    names = ("input_ids", "attention_mask", "token_type_ids")
    special = torch.from_numpy(_column(encoding, "special_tokens_mask") > 0)
    return SaliencyBatch({name: torch.as_tensor(encoding[name]) for name in names if name in encoding}, words, special)


def _column(encoding: BatchEncoding, name: str) -> np.ndarray:
    """Return one property of all pieces (B, L, ...), -1 for None."""
    return np.array([[-1 if item is None else item for item in getattr(row, name)] for row in encoding.encodings or []],
                    dtype=np.int64)


# Equal norms come out of float32 sums with differences of this relative size.
_EQUAL = 1e-6

# Of words of several sentences at once: score, and least, greatest and sum of the scores of its sentence.
NORMALISATIONS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "minmax": lambda score, least, greatest, total: (score - least) / (greatest - least),
    "max": lambda score, least, greatest, total: score / greatest,
    "sum": lambda score, least, greatest, total: score / total,
}


def word_scores(pieces: Tensor, words: WordPieces, normalisation: str) -> list[Tensor]:
    """Return each word's mean of ``pieces`` (B, L), normalised by sentence; 0 without pieces, 0.5 if all are equal."""
    normalise = NORMALISATIONS[normalisation]
    counts, word, row, position = (torch.from_numpy(array)
                                   for array in (words.counts, words.word, words.row, words.position))
    owner = torch.repeat_interleave(torch.arange(len(counts)), counts)  # (W,) sentence of each word
    n_pieces = torch.bincount(word, minlength=len(owner))
    scores = torch.zeros(len(owner), dtype=torch.float64)
    if len(word):
        sums = torch.zeros_like(scores).index_add_(0, word, pieces.double().cpu()[row, position])
        aligned = n_pieces > 0
        means, owner, empty = sums[aligned] / n_pieces[aligned], owner[aligned], sums.new_zeros(len(counts))
        least, greatest = (empty.scatter_reduce(0, owner, means, which, include_self=False)[owner]
                           for which in ("amin", "amax"))
        normalised = normalise(means, least, greatest, empty.index_add(0, owner, means)[owner])
        scores[aligned] = torch.where(greatest - least <= _EQUAL * greatest, torch.full_like(means, 0.5), normalised)
    return list(scores.float().split(counts.tolist()))


_TINY = torch.finfo(torch.float64).tiny


def _logit_diff(logits: Tensor, classes: Tensor) -> Tensor:
    return logits[:, POSITIVE] - logits[:, 1 - POSITIVE]


def _pos_prob(logits: Tensor, classes: Tensor) -> Tensor:
    """P(positive) up to a constant, in a form whose gradient p(1-p) stays exact where p is next to 1."""
    difference = _logit_diff(logits, classes)
    return torch.where(difference > 0, -torch.sigmoid(-difference), torch.sigmoid(difference))


# Of logits (B, 2) and the classes (B,) that argmax_logit asks about.
TARGETS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pos_logit": lambda logits, classes: logits[:, POSITIVE],
    "argmax_logit": lambda logits, classes: logits.gather(1, classes.unsqueeze(1)).squeeze(1),
    "logit_diff": _logit_diff,
    "pos_prob": _pos_prob,
}


def _by_logits(target: str, logits: Tensor, classes: Tensor) -> Tensor:
    """Return df / d logits (B, 2) in double precision."""
    leaf = logits.detach().double().requires_grad_()
    gradient, = torch.autograd.grad(TARGETS[target](leaf, classes).sum(), leaf)
    return gradient


def _classes(logits: Tensor, released_bugs: bool) -> Tensor:
    """Return the class that ``argmax_logit`` takes of each row (B,): its own, or with the bug the first row's."""
    own = logits.detach().argmax(dim=-1)
    return own[:1].expand_as(own) if released_bugs else own


def _pulled_back(result: Tensor, cotangent: Tensor, leaf: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient by ``leaf`` in one backward pass, as a tensor and a factor for each row (B, 1).

    ``cotangent``, df / d result (B, n), is scaled around 1: the gradient of a probability next to 0 or 1 would vanish.
    """
    factor = cotangent.abs().amax(dim=1, keepdim=True).clamp(min=_TINY)
    gradient, = torch.autograd.grad(result, leaf, (cotangent / factor).to(result.dtype))
    return gradient, factor


class _Point:
    """Where a network is differentiated: its word-embedding look-up, before position and type embeddings.

    With ``released_bugs`` the output of the whole embedding block, fed in again as if it were word embeddings:
    positions and normalisation are applied twice, as in the released code of PGKPR.
    """

    def __init__(self, network: PreTrainedModel, released_bugs: bool = False) -> None:
        self.network, self.released_bugs = network, released_bugs
        self.block = getattr(getattr(network, "base_model", network), "embeddings", None)
        if released_bugs and self.block is None:
            raise ValueError(f"released_bugs: {type(network).__name__} has no embedding block to take the output of")

    def value(self, inputs: Inputs) -> Tensor:
        """Return the embedding of each piece (B, L, d), without history."""
        with torch.no_grad():
            if not self.released_bugs:
                return self.network.get_input_embeddings()(inputs["input_ids"]).detach()
            return self.block(**{name: part for name, part in inputs.items()  # type: ignore[misc]
                                 if name != "attention_mask"}).detach()

    def run(self, inputs: Inputs, embedding: Tensor) -> Any:
        """Return the output of the network with ``embedding`` (B, L, d) in place of its own."""
        if self.released_bugs:
            return self.network(inputs_embeds=embedding, **{name: part for name, part in inputs.items()
                                                            if name not in ("input_ids", "token_type_ids")})
        lookup = self.network.get_input_embeddings()
        handle = lookup.register_forward_hook(lambda module, arguments, output: embedding)
        try:
            return self.network(**inputs)
        finally:
            handle.remove()


@contextmanager
def _at_rest(network: nn.Module) -> Iterator[None]:
    """Freeze ``network`` in evaluation mode with gradients on, and restore everything afterwards."""
    modes = [(part, part.training) for part in network.modules()]
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    network.eval()
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        with torch.enable_grad():
            yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
        for part, training in modes:
            part.training = training


# From the network's output and the text of each of its rows: what is pulled back, and the cotangent.
Pull = Callable[[Any, Tensor], tuple[Tensor, Tensor]]


def _integrated(point: _Point, inputs: Inputs, reference_ids: Tensor, pull: Pull, steps: int,
                rows: int | None = None) -> Tensor:
    """Return the signed attribution of every word piece, (B, L) float64 on the CPU.

    That of coordinate i is (e_i - r_i) times the integral over a in [0, 1] of df/de_i at r + a (e - r) (Sundararajan,
    Taly, Yan 2017, Axiomatic Attribution for Deep Networks, equation 1), a Gauss-Legendre sum of ``steps`` points,
    ``rows`` at a time.
    """
    end = point.value(inputs)  # (B, L, d)
    begin = point.value({**inputs, "input_ids": reference_ids})
    way = end - begin
    places, weights = (torch.from_numpy(array).to(end.device) for array in nodes(steps))
    count = len(end) * steps
    size = rows or max(len(end), ROWS)
    total = torch.zeros(end.shape[:2], dtype=torch.float64, device=end.device)
    for first in range(0, count, size):
        flat = torch.arange(first, min(first + size, count), device=end.device)
        text, step = flat // steps, flat % steps
        leaf = torch.addcmul(begin[text], way[text], places[step, None, None].to(end.dtype)).requires_grad_()
        result, cotangent = pull(point.run({name: value[text] for name, value in inputs.items()}, leaf), text)
        gradient, factor = _pulled_back(result, cotangent, leaf)
        share = torch.einsum("bld,bld->bl", gradient, way[text]).double() * factor * weights[step, None]
        total.index_add_(0, text, share)
    return total.cpu()


@cache
def nodes(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return places in (0, 1) and weights, which sum to 1, of the Gauss-Legendre sum of ``steps`` terms."""
    places, weights = np.polynomial.legendre.leggauss(steps)
    return (places + 1) / 2, weights / 2


def word_saliency(classifier: PreTrainedModel, batch: SaliencyBatch | BatchEncoding, target: str = "pos_logit",
                  normalisation: str = "minmax", *, method: str = "gradient", released_bugs: bool = False,
                  steps: int = 32, rows: int | None = None) -> list[Tensor]:
    """Return the keyword probability of every source word, as :func:`word_scores`; the classifier is left as it was.

    Method ``gradient``: a piece scores ||df/de||_2; ``integrated_gradients``: |attribution| along the line from the
    same pair with every word piece replaced by [PAD], of ``steps`` points. ``released_bugs``: ``argmax_logit`` takes
    the first row's class for all, and the whole embedding block is differentiated.
    """
    batch = as_batch(batch)
    if method == "gradient":
        pieces = piece_norms(classifier, batch.inputs, target, released_bugs)
    else:
        pieces = piece_attributions(classifier, batch, target, released_bugs, steps=steps, rows=rows).abs()
    return word_scores(pieces, batch.words, normalisation)


def piece_norms(classifier: PreTrainedModel, inputs: Inputs, target: str = "pos_logit",
                released_bugs: bool = False) -> Tensor:
    """Return ||df/de_j||_2 of every word piece, (B, L) float64 on the CPU; see :func:`word_saliency`."""
    point = _Point(classifier, released_bugs)
    with _at_rest(classifier):
        leaf = point.value(inputs).requires_grad_()  # (B, L, d)
        logits = point.run(inputs, leaf).logits  # (B, 2)
        gradient, factor = _pulled_back(logits, _by_logits(target, logits, _classes(logits, released_bugs)), leaf)
    return (torch.linalg.vector_norm(gradient, dim=-1).double() * factor).cpu()  # eq. 1


def piece_attributions(classifier: PreTrainedModel, batch: SaliencyBatch | BatchEncoding, target: str = "pos_logit",
                       released_bugs: bool = False, *, steps: int = 32, rows: int | None = None) -> Tensor:
    """Return the integrated gradient of every word piece, signed, (B, L) float64 on the CPU; ``argmax`` of the pair."""
    batch = as_batch(batch)
    inputs = batch.inputs
    point = _Point(classifier, released_bugs)
    reference = batch.reference_ids(int(classifier.config.pad_token_id))
    with _at_rest(classifier):
        classes = torch.zeros(len(reference), dtype=torch.int64, device=reference.device)
        if target == "argmax_logit":
            with torch.no_grad():
                classes = _classes(point.run(inputs, point.value(inputs)).logits, released_bugs)

        def pull(output: Any, texts: Tensor) -> tuple[Tensor, Tensor]:
            return output.logits, _by_logits(target, output.logits, classes[texts])

        return _integrated(point, inputs, reference, pull, steps, rows)
