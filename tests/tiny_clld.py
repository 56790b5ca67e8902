"""CLLD classifiers small enough for tests, and their data."""

import numpy as np
import tiny_bert
import torch
from transformers import BertModel

from models.clld.clld import AdaptiveSchedule, ClldConfig, ClldModel, ClldTask, LabelledTexts

CLASSES = ["number", "person", "place"]


def textcnn(seed=0, classes=CLASSES, **changes):
    torch.manual_seed(seed)
    small = {"vocabulary": 30, "embedding": 12, "filters": 6}
    return ClldModel(ClldConfig("textcnn", classes, textcnn=small, **changes)).eval()


def bert(seed=0, **changes):
    torch.manual_seed(seed)
    encoder = BertModel(tiny_bert.config(initializer_range=0.3), add_pooling_layer=True)
    return ClldModel.over(encoder, CLASSES, **changes).eval()


def texts(count=12, classes=3, vocabulary=30, seed=0):
    """Texts of 1 to 8 words, most of them words that are of one class alone."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    share = (vocabulary - 5) // classes
    ids = [np.where(random.random(n) < 0.2, random.integers(2, vocabulary, n),
                    5 + label * share + random.integers(0, share, n)).astype(np.int64)
           for label, n in zip(labels, random.integers(1, 9, count), strict=True)]
    return LabelledTexts(ids, labels.astype(np.int64))


def task(model, count=12, settings=None):
    adaptive = model.config.distance.kind == "adaptive"
    schedule = AdaptiveSchedule(settings.epochs, settings.steps_per_epoch(count)) if adaptive else None
    return ClldTask(model, texts(count), texts(9, seed=1), 1e-2, 4, schedule)
