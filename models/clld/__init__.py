"""CLLD: text classification with a contrast between classes, weighted by label distance (METHODS D)."""

from models.clld.config import ClldConfig
from models.clld.encoders import load_text_encoder, plain_config
from models.clld.export import export_classifier, load_exported, sequence_classifier
from models.clld.label_distance import (
    NEWSGROUPS,
    RULES,
    TAU,
    AdaptiveSchedule,
    counted_distance,
    given_distance,
    pairs_within,
    static_tau_all,
    static_tau_pairs,
    uniform_distance,
    update_label_distance,
)
from models.clld.model import ClldModel, Views
from models.clld.task import ClldTask, Judgement, balanced_weights
from models.clld.textcnn import TextCnn, word_tokenizer
from models.clld.texts import SAMPLERS, LabelledTexts, sampled_batches

__all__ = ["NEWSGROUPS", "RULES", "SAMPLERS", "TAU", "AdaptiveSchedule", "ClldConfig", "ClldModel", "ClldTask",
           "Judgement", "LabelledTexts", "TextCnn", "Views", "balanced_weights", "counted_distance",
           "export_classifier", "given_distance", "load_exported", "load_text_encoder", "pairs_within",
           "plain_config", "sampled_batches", "sequence_classifier", "static_tau_all", "static_tau_pairs",
           "uniform_distance", "update_label_distance", "word_tokenizer"]
