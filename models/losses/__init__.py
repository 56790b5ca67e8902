"""Losses as pure functions of tensors: one per file, per-sample values unless stated."""

from models.losses.bag_of_words import bag_of_words
from models.losses.bow_loss import bow_loss
from models.losses.free_bits import free_bits_kl
from models.losses.gaussian_kl import gaussian_kl, gaussian_kl_dims
from models.losses.instance_contrast import MULTI_NEG, instance_contrast
from models.losses.keyword_contrast import keyword_contrast
from models.losses.label_distance_contrast import label_distance_contrast, rescaled_cosine
from models.losses.mahalanobis import mahalanobis
from models.losses.mahalanobis_contrast import mahalanobis_contrast
from models.losses.pair_contrast import pair_contrast
from models.losses.positive_pairs import log_share_of_positives, positive_pairs
from models.losses.reduction import at_least_float32, masked_mean
from models.losses.supervised_contrast import supervised_contrast
from models.losses.twin_contrast import twin_contrast

__all__ = [
    "MULTI_NEG",
    "at_least_float32",
    "bag_of_words",
    "bow_loss",
    "free_bits_kl",
    "gaussian_kl",
    "gaussian_kl_dims",
    "instance_contrast",
    "keyword_contrast",
    "label_distance_contrast",
    "log_share_of_positives",
    "mahalanobis",
    "mahalanobis_contrast",
    "masked_mean",
    "pair_contrast",
    "positive_pairs",
    "rescaled_cosine",
    "supervised_contrast",
    "twin_contrast",
]
