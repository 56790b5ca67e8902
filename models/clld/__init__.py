"""CLLD: text classification with a contrast between classes, weighted by label distance."""

from models.clld.config import ClldConfig
from models.clld.encoders import load_text_encoder, plain_config
from models.clld.export import export_classifier, load_exported, sequence_classifier
from models.clld.label_distance import (
    AdaptiveSchedule,
    counted_distance,
    pairs_within,
    static_tau_pairs,
    update_label_distance,
)
from models.clld.model import ClldModel, Views
from models.clld.task import ClldTask, Judgement
from models.clld.textcnn import TextCnn, word_tokenizer
from models.clld.texts import LabelledTexts

__all__ = ["AdaptiveSchedule", "ClldConfig", "ClldModel", "ClldTask", "Judgement", "LabelledTexts", "TextCnn", "Views",
           "counted_distance", "export_classifier", "load_exported", "load_text_encoder", "pairs_within",
           "plain_config", "sequence_classifier", "static_tau_pairs", "update_label_distance", "word_tokenizer"]
