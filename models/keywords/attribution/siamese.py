"""Scores of words by the similarity of two texts under a sentence encoder: integrated Jacobians.

L. Moeller, D. Nikolaev, S. Padó: An Attribution Method for Siamese Encoders (2023). With g the encoder, r_a and
r_b references of texts a and b, and J(a) the Jacobian of g integrated along the line from r_a to a, the similarity
has an attribution to every pair of coordinates i of a and j of b (their equation 3)::

    A_ij = (a - r_a)_i  [J(a)^T J(b)]_ij  (b - r_b)_j

Summed over both, A gives g(a).g(b) - g(a).g(r_b) - g(r_a).g(b) + g(r_a).g(r_b). What a piece of a contributes in
all is the sum over j, and there the integral of b is done by the fundamental theorem::

    sum_j J(b)_j (b - r_b)_j = g(b) - g(r_b) =: v
    sum_j A_ij = (a - r_a)_i [J(a)^T v]_i

which is the integrated gradient of the number x -> g(x).v. So neither Jacobian is ever made: each point of the path
costs one backward pass, not one for each of the encoder's d outputs, and b none at all.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize
from transformers import BatchEncoding, PreTrainedModel

from models.common.encoders import mean_pool
from models.keywords.attribution.gradients import Lookup, at_rest, integrated
from models.keywords.attribution.words import NORMALISATIONS, SaliencyBatch, as_batch, checked, word_scores

# What turns the pooled state into g: the cosine is the product of vectors of length 1.
SIMILARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "cosine": lambda vectors: normalize(vectors, dim=-1),
    "dot": lambda vectors: vectors,
}


def siamese_saliency(encoder: PreTrainedModel, sources: SaliencyBatch | BatchEncoding,
                     others: SaliencyBatch | BatchEncoding, normalisation: str = "minmax", *,
                     similarity: str = "cosine", steps: int = 32, rows: int | None = None) -> list[Tensor]:
    """Return the keyword probability of every word of ``sources``, by its share in their similarity to ``others``.

    A piece scores |sum_j A_ij| over the pieces j of the other text, a word the mean of its pieces. The encoder is
    left as it was.

    Args:
        encoder: gives ``last_hidden_state`` (B, L, d), of which the mean over real tokens is the text's vector.
        sources: B texts with their words.
        others: the B texts to compare them with; their words are not needed.
        normalisation: ``minmax``, ``max`` or ``sum``, over the words that have pieces.
        similarity: ``cosine`` or ``dot``.
        steps: points of the path.
        rows: points of one forward pass; it bounds the memory.

    Returns:
        As :func:`models.keywords.attribution.word_saliency`.

    Raises:
        ValueError: an unknown name, or a batch that does not know its special pieces.
    """
    checked(normalisation, NORMALISATIONS, "normalisation")
    sources = as_batch(sources)
    pieces = siamese_attributions(encoder, sources, others, similarity=similarity, steps=steps, rows=rows)
    return word_scores(pieces.abs(), sources.pieces, normalisation)


def siamese_attributions(encoder: PreTrainedModel, sources: SaliencyBatch | BatchEncoding,
                         others: SaliencyBatch | BatchEncoding, *, similarity: str = "cosine", steps: int = 32,
                         rows: int | None = None) -> Tensor:
    """Return sum_j A_ij for every word piece i of ``sources``, signed, (B, L) float64 on the CPU.

    Arguments as in :func:`siamese_saliency`. References are the texts with every word piece replaced by [PAD].
    """
    finish = SIMILARITIES[checked(similarity, SIMILARITIES, "similarity")]
    sources, others = as_batch(sources), as_batch(others)
    pad = getattr(encoder.config, "pad_token_id", None)
    reference, other_reference = sources.reference_ids(pad), others.reference_ids(pad)
    mask = sources.inputs["attention_mask"]
    with at_rest(encoder):
        with torch.no_grad():
            empty = {**others.inputs, "input_ids": other_reference}
            v = _vectors(encoder, others.inputs, finish) - _vectors(encoder, empty, finish)  # (B, d)

        def pull(found: Any, texts: Tensor) -> tuple[Tensor, Tensor]:
            return finish(mean_pool(found.last_hidden_state, mask[texts])), v[texts].double()

        return integrated(Lookup(encoder), sources.inputs, reference, pull, steps, rows)


def _vectors(encoder: PreTrainedModel, inputs: Mapping[str, Tensor], finish: Callable[[Tensor], Tensor]) -> Tensor:
    return finish(mean_pool(encoder(**inputs).last_hidden_state, inputs["attention_mask"]))
