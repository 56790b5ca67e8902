"""The loss of a CLLD classifier: cross-entropy and contrast, lambda and 1 - lambda (CLLD eq. 9; METHODS D.2)."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from models.clld.config import ClldConfig
from models.losses import label_distance_contrast, supervised_contrast, twin_contrast


def contrast(config: ClldConfig, vectors: Tensor, labels: Tensor, ldm: Tensor | None = None) -> Tensor:
    """Return the contrast of the views of M texts, a scalar: a mean over the V M views, or over texts (``twin``).

    Args:
        config: which contrast, with its temperature.
        vectors: (V M, dproj), views one behind the other.
        labels: class of each text (M,).
        ldm: label distance matrix (N, N), for ``label_distance``.

    Raises:
        ValueError: there is no contrast, or the matrix is missing.
    """
    kind, temperature = config.contrast["kind"], config.contrast_temperature
    doubled = labels.repeat(len(vectors) // len(labels))  # the classes in the order of the views (V M,)
    if kind == "label_distance" and ldm is not None:
        return label_distance_contrast(vectors, doubled, ldm, temperature)
    if kind == "supervised":
        return supervised_contrast(vectors, doubled, temperature, config.contrast["base_temperature"])
    if kind == "twin":
        return twin_contrast(vectors, temperature)
    raise ValueError(f"contrast: contrast.kind is {kind!r}, and LDM is {'missing' if ldm is None else 'given'}")


def summed_cross_entropy(logits: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """Return the sum of the cross-entropies (nats) of M texts, the mean over views where there are several.

    Args:
        logits: (M, N), or (V M, N) of V views one behind the other.
        labels: class of each text (M,).
        class_weights: factor of each class (N,); None for 1.
    """
    views = len(logits) // len(labels)
    return cross_entropy(logits.float(), labels.repeat(views), class_weights, reduction="sum") / views


def balanced_weights(labels: Sequence[int], n_classes: int) -> Tensor:
    """Return the weights n / (N n_c) of the classes (N,), under which every class counts the same; 1 without a text.

    Args:
        labels: classes of the training texts.
        n_classes: N.
    """
    counts = torch.bincount(torch.as_tensor(labels), minlength=n_classes).double()
    weights = len(labels) / (n_classes * counts.clamp(min=1))
    return torch.where(counts > 0, weights, torch.ones_like(weights)).float()
