"""Scores of the words of a pair's source by the gradient of a pair classifier (PGKPR eq. 1)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import BatchEncoding, PreTrainedModel

from models.keywords.attribution.gradients import POINTS, Output, at_rest, integrated, pulled_back
from models.keywords.attribution.words import NORMALISATIONS, SaliencyBatch, as_batch, checked, word_scores

METHODS = ("gradient", "integrated_gradients")


def word_saliency(classifier: PreTrainedModel, batch: SaliencyBatch | BatchEncoding, target: str = "pos_logit",
                  normalisation: str = "minmax", *, method: str = "gradient", argmax_of: str = "row",
                  embedding: str = "lookup", token_types: bool = True, steps: int = 32,
                  rows: int | None = None) -> list[Tensor]:
    """Return the keyword probability of every source word.

    The classifier runs in evaluation mode and is left as it was: no parameter receives a gradient. Target
    words and special tokens never score. Method ``gradient`` takes one forward and one backward pass.

    Args:
        classifier: gives ``logits`` (B, 2), class 1 positive; ``get_input_embeddings()`` returns its look-up.
        batch: pairs with their word pieces; the output of a fast tokenizer will do, whose words are then
            its own (pre-tokenised or not).
        target: ``pos_logit``, ``argmax_logit``, ``logit_diff`` or ``pos_prob``.
        normalisation: ``minmax``, ``max`` or ``sum``, over the words that have pieces.
        method: ``gradient``: a piece scores ||df/de||_2; ``integrated_gradients``: |attribution|, along the line
            from the same pair with every word piece replaced by [PAD].
        argmax_of: for ``argmax_logit``, the class of each ``row`` or, a bug of the released code, of the
            ``first_row``: scores then depend on the batch.
        embedding: ``lookup``, or ``block_output`` fed in again, a bug of the released code.
        token_types: False drops ``token_type_ids`` in the pass through the network, a bug of the released code.
        steps: points of the path, for ``integrated_gradients``.
        rows: pairs or points of one forward pass, for ``integrated_gradients``; it bounds the memory.

    Returns:
        For each sample a float32 tensor (n_words,) on the CPU. Words without pieces get 0; if all norms of a
        sentence are equal, its words get 0.5.

    Raises:
        ValueError: an unknown name, a classifier that does not use its look-up, or a batch without what the
            method needs.
    """
    checked(method, METHODS, "method")
    checked(normalisation, NORMALISATIONS, "normalisation")
    batch = as_batch(batch)
    switches: dict[str, Any] = {"argmax_of": argmax_of, "embedding": embedding, "token_types": token_types}
    if method == "gradient":
        pieces = piece_norms(classifier, batch.inputs, target, **switches)
    else:
        pieces = piece_attributions(classifier, batch, target, **switches, steps=steps, rows=rows).abs()
    return word_scores(pieces, batch.pieces, normalisation)


def piece_norms(classifier: PreTrainedModel, inputs: Mapping[str, Tensor], target: str = "pos_logit", *,
                argmax_of: str = "row", embedding: str = "lookup", token_types: bool = True) -> Tensor:
    """Return ||df/de_j||_2 of every word piece, (B, L) float64 on the CPU; arguments as in :func:`word_saliency`."""
    output = Output(target, argmax_of)
    point = POINTS[checked(embedding, POINTS, "embedding")](classifier, token_types)
    with at_rest(classifier):
        leaf = point.value(inputs).requires_grad_()  # (B, L, d)
        logits = point.run(inputs, leaf).logits  # (B, 2)
        gradient, factor = pulled_back(logits, output.by_logits(logits, output.classes(logits)), leaf)
    return (torch.linalg.vector_norm(gradient, dim=-1).double() * factor).cpu()


def piece_attributions(classifier: PreTrainedModel, batch: SaliencyBatch | BatchEncoding, target: str = "pos_logit", *,
                       argmax_of: str = "row", embedding: str = "lookup", token_types: bool = True, steps: int = 32,
                       rows: int | None = None) -> Tensor:
    """Return the integrated gradient of every word piece, signed, (B, L) float64 on the CPU.

    Over both segments the attributions of a pair sum to f(pair) - f(pair of blanks); special tokens get 0. The
    class of ``argmax_logit`` is that of the pair itself, all along the path; it takes one forward pass more.
    Arguments as in :func:`word_saliency`.
    """
    batch, output = as_batch(batch), Output(target, argmax_of)
    inputs = batch.inputs
    point = POINTS[checked(embedding, POINTS, "embedding")](classifier, token_types)
    reference = batch.reference_ids(getattr(getattr(classifier, "config", None), "pad_token_id", None))
    with at_rest(classifier):
        classes = torch.zeros(len(reference), dtype=torch.int64, device=reference.device)
        if target == "argmax_logit":
            with torch.no_grad():
                classes = output.classes(point.run(inputs, point.value(inputs)).logits)

        def pull(found: Any, texts: Tensor) -> tuple[Tensor, Tensor]:
            return found.logits, output.by_logits(found.logits, classes[texts])

        return integrated(point, inputs, reference, pull, steps, rows)
