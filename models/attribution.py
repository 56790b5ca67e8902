"""Keyword probabilities of words: gradient saliency of a pair classifier (PGKPR, section 3.1).

Usage::

    batch = tokenizer(sources, targets, padding=True, truncation=True, return_tensors="pt")
    scores = word_saliency(classifier, batch, "pos_logit")      # one tensor per source, one score per word

With f the chosen output and e_j the word embedding of word piece j, a piece scores ||df/de_j||_2, a word the
mean of its pieces, and the words of a sentence are normalised to [0, 1].
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import BatchEncoding, PreTrainedModel

POSITIVE = 1  # class of "these two sentences mean the same"

# Equal norms come out of float32 sums with differences of this relative size.
_EQUAL = 1e-6


@dataclass(frozen=True)
class SaliencyBatch:
    """Encoded pairs and the word pieces of each source word.

    Attributes:
        inputs: arguments of the classifier: ``input_ids``, ``attention_mask`` and, if it has segments,
            ``token_type_ids``, each (B, L).
        words: for each sample, for each word of the source segment, the positions of its pieces; empty for
            a word that no piece covers (cut off, or not aligned). A piece may belong to several words.
    """

    inputs: Mapping[str, Tensor]
    words: list[list[list[int]]]


def word_saliency(classifier: PreTrainedModel, batch: SaliencyBatch | BatchEncoding, target: str = "pos_logit",
                  normalisation: str = "minmax") -> list[Tensor]:
    """Return the keyword probability of every source word.

    The classifier runs in evaluation mode and is left as it was: no parameter receives a gradient. Target
    words and special tokens never score. What is differentiated is the word-embedding look-up, before
    position and type embeddings and normalisation.

    Args:
        classifier: gives ``logits`` (B, 2), class 1 positive; ``get_input_embeddings()`` returns its look-up.
        batch: pairs with their word pieces; the output of a fast tokenizer will do, whose words are then
            its own (pre-tokenised or not).
        target: ``pos_logit``, ``argmax_logit`` (of each sample's own class), ``logit_diff`` or ``pos_prob``.
        normalisation: ``minmax``, ``max`` or ``sum``, over the words that have pieces.

    Returns:
        For each sample a float32 tensor (n_words,) on the CPU. Words without pieces get 0; if all norms of a
        sentence are equal, its words get 0.5.

    Raises:
        ValueError: unknown target or normalisation, or a classifier that does not use its look-up.
    """
    output = _choose(TARGETS, target, "target")
    normalise = _choose(NORMALISATIONS, normalisation, "normalisation")
    if not isinstance(batch, SaliencyBatch):
        batch = from_encoding(batch)
    norms = piece_norms(classifier, batch.inputs, output)  # (B, L)
    return [_word_scores(row, words, normalise) for row, words in zip(norms, batch.words, strict=True)]


def piece_norms(classifier: PreTrainedModel, inputs: Mapping[str, Tensor],
                output: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ||d output / d e_j||_2 of every word piece, (B, L) float64 on the CPU.

    Samples do not interact, so the gradient of the sum over the batch holds the gradient of each sample.
    """
    with _evaluation(classifier), _looked_up(classifier) as looked_up, torch.enable_grad():
        logits = classifier(**inputs).logits  # (B, 2)
        if not looked_up:
            raise ValueError("the classifier did not use get_input_embeddings(); there is nothing to differentiate")
        gradient, = torch.autograd.grad(output(logits).sum(), looked_up[-1])  # (B, L, d)
    return gradient.double().norm(dim=-1).cpu()


def from_encoding(encoding: BatchEncoding) -> SaliencyBatch:
    """Return the batch of a fast tokenizer's output; words are those of ``encoding.word_ids``.

    Raises:
        ValueError: a slow tokenizer made it, which does not know its words.
    """
    if not getattr(encoding, "is_fast", False):
        raise ValueError("a fast tokenizer's output, or a SaliencyBatch, is needed to know the words")
    words = []
    for row in range(len(encoding["input_ids"])):
        pieces: dict[int, list[int]] = {}
        segments = zip(encoding.word_ids(row), encoding.sequence_ids(row), strict=True)
        for position, (word, segment) in enumerate(segments):
            if word is not None and segment == 0:
                pieces.setdefault(word, []).append(position)
        words.append([pieces.get(word, []) for word in range(max(pieces, default=-1) + 1)])
    names = ("input_ids", "attention_mask", "token_type_ids")
    return SaliencyBatch({name: torch.as_tensor(encoding[name]) for name in names if name in encoding}, words)


def _word_scores(norms: Tensor, words: list[list[int]], normalise: Callable[[Tensor], Tensor]) -> Tensor:
    scores = torch.zeros(len(words))
    aligned = [number for number, pieces in enumerate(words) if pieces]
    if aligned:
        means = torch.stack([norms[words[number]].mean() for number in aligned])
        equal = means.max() - means.min() <= _EQUAL * means.max()
        scores[aligned] = torch.full_like(means, 0.5).float() if equal else normalise(means).float()
    return scores


def _pos_prob(logits: Tensor) -> Tensor:
    """P(positive), in a form whose gradient p(1-p) stays exact where p is next to 1."""
    difference = _logit_diff(logits.double())
    return torch.where(difference > 0, -torch.sigmoid(-difference), torch.sigmoid(difference))


def _logit_diff(logits: Tensor) -> Tensor:
    return logits[:, POSITIVE] - logits[:, 1 - POSITIVE]


TARGETS: dict[str, Callable[[Tensor], Tensor]] = {
    "pos_logit": lambda logits: logits[:, POSITIVE],
    "argmax_logit": lambda logits: logits.max(dim=-1).values,
    "logit_diff": _logit_diff,
    "pos_prob": _pos_prob,
}

NORMALISATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "minmax": lambda scores: (scores - scores.min()) / (scores.max() - scores.min()),
    "max": lambda scores: scores / scores.max(),
    "sum": lambda scores: scores / scores.sum(),
}


def _choose(options: Mapping[str, Callable[[Tensor], Tensor]], name: str, what: str) -> Callable[[Tensor], Tensor]:
    if name not in options:
        raise ValueError(f"{what}: no {name!r}; valid names: {', '.join(options)}")
    return options[name]


@contextmanager
def _evaluation(module: nn.Module) -> Iterator[None]:
    """Switch ``module`` to evaluation mode and back."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def _looked_up(classifier: PreTrainedModel) -> Iterator[list[Tensor]]:
    """Make the output of the word-embedding look-up a leaf; yields the list it is put into."""
    leaves: list[Tensor] = []

    def to_leaf(module: nn.Module, arguments: object, output: Tensor) -> Tensor:
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    handle = classifier.get_input_embeddings().register_forward_hook(to_leaf)
    try:
        yield leaves
    finally:
        handle.remove()
