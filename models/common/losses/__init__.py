"""Losses as pure functions of tensors: one per file, per-sample values unless stated."""

from models.common.losses import (
    at_least_float32,
    bag_of_words,
    bow_loss,
    gaussian_kl,
    gaussian_kl_dims,
    label_distance_contrast,
    log_share_of_positives,
    masked_mean,
    pair_contrast,
    positive_pairs,
    rescaled_cosine,
    supervised_contrast,
    twin_contrast,
)

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
