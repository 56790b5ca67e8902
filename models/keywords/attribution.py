"""Keyword probabilities of words: how much each source word decides a classifier's answer (PGKPR section 3).

With f the chosen logit and e_j the embedding of word piece j, a piece scores ||df/de_j||_2, a word the mean of its
pieces, scaled to [0, 1] in its sentence by the least and the greatest score.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BatchEncoding, PreTrainedModel

POSITIVE = 1  # class of "these two sentences mean the same"
_EQUAL = 1e-6  # norms that are equal come out of float32 sums with relative differences of this size

Inputs = Mapping[str, Tensor]


@dataclass(frozen=True)
class WordPieces:
    """The pieces of each word of a batch, as flat arrays of P memberships; a piece may be of several words."""

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

    inputs: Inputs  # input_ids, attention_mask and, if the classifier has segments, token_type_ids, each (B, L)
    words: WordPieces  # of the source segment; a word that is cut off or not aligned has no piece


def as_batch(batch: SaliencyBatch | BatchEncoding) -> SaliencyBatch:
    """Return ``batch``, or the batch of a fast tokenizer's output, whose words are those of its ``word_ids``."""
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
    """Return the words that each piece of the ``source`` segment (B, L) overlaps, by characters: none, one or several.

    ``offsets`` (B, L, 2) are the first character of each piece and the one after it, ``starts`` and ``ends`` of words.
    """
    counts = np.array([len(row) for row in starts], dtype=np.int64)
    # Characters are numbered through the batch, so that the words of all rows are one ascending sequence.
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
    return SaliencyBatch({name: torch.as_tensor(encoding[name]) for name in names if name in encoding}, words)


def _column(encoding: BatchEncoding, name: str) -> np.ndarray:
    """Return one property of all pieces (B, L, ...), -1 for None."""
    return np.array([[-1 if item is None else item for item in getattr(row, name)] for row in encoding.encodings or []],
                    dtype=np.int64)


def word_scores(pieces: Tensor, words: WordPieces) -> list[Tensor]:
    """Return each word's mean of ``pieces`` (B, L), scaled to [0, 1] by sentence; 0 without pieces, 0.5 if equal."""
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
        scores[aligned] = torch.where(greatest - least <= _EQUAL * greatest, torch.full_like(means, 0.5),
                                      (means - least) / (greatest - least))
    return list(scores.float().split(counts.tolist()))


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


def word_saliency(classifier: PreTrainedModel, batch: SaliencyBatch | BatchEncoding, target: str = "pos_logit",
                  released_bugs: bool = False) -> list[Tensor]:
    """Return the keyword probability of every source word, as :func:`word_scores`; the classifier is left as it was.

    ``target`` is the logit whose gradient is taken: ``pos_logit``, or ``argmax_logit``, that of the likelier class.
    ``released_bugs``: ``argmax_logit`` is that of the first row's class for all rows, and the output of the whole
    embedding block is differentiated.
    """
    batch = as_batch(batch)
    return word_scores(piece_norms(classifier, batch.inputs, target, released_bugs), batch.words)


def piece_norms(classifier: PreTrainedModel, inputs: Inputs, target: str = "pos_logit",
                released_bugs: bool = False) -> Tensor:
    """Return ||df/de_j||_2 of every word piece, (B, L) float64 on the CPU; see :func:`word_saliency`."""
    lookup = classifier.get_input_embeddings()
    with _at_rest(classifier):
        if released_bugs:  # the output passes the embedding block again, without segments
            block = cast(nn.Module, classifier.base_model.embeddings)
            leaf = block(**{name: part for name, part in inputs.items() if name != "attention_mask"})
            leaf = leaf.detach().requires_grad_()  # (B, L, d)
            logits = classifier(inputs_embeds=leaf, attention_mask=inputs["attention_mask"]).logits  # (B, 2)
        else:
            leaf = lookup(inputs["input_ids"]).detach().requires_grad_()  # (B, L, d)
            handle = lookup.register_forward_hook(lambda module, arguments, output: leaf)
            try:
                logits = classifier(**inputs).logits  # (B, 2)
            finally:
                handle.remove()
        classes = torch.full_like(logits[:, 0], POSITIVE, dtype=torch.int64)
        if target == "argmax_logit":
            classes = logits.detach().argmax(dim=-1)
            classes = classes[:1].expand_as(classes) if released_bugs else classes
        gradient, = torch.autograd.grad(logits.gather(1, classes.unsqueeze(1)).sum(), leaf)
    return torch.linalg.vector_norm(gradient, dim=-1).double().cpu()  # eq. 1
