"""Losses as pure functions of tensors: one per file, per-sample values unless stated."""

from models.common.losses.batches import (
    label_distance_contrast,
    log_share_of_positives,
    pair_contrast,
    positive_pairs,
    rescaled_cosine,
    supervised_contrast,
    twin_contrast,
)
from models.common.losses.gaussian import gaussian_kl, gaussian_kl_dims
from models.common.losses.reduction import at_least_float32, masked_mean
from models.common.losses.words import bag_of_words, bow_loss

__all__ = [
    "at_least_float32",
    "bag_of_words",
    "bow_loss",
    "gaussian_kl",
    "gaussian_kl_dims",
    "label_distance_contrast",
    "log_share_of_positives",
    "masked_mean",
    "pair_contrast",
    "positive_pairs",
    "rescaled_cosine",
    "supervised_contrast",
    "twin_contrast",
]
