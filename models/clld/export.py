"""CLLD classifiers as sequence classifiers of the Hugging Face library.

Its classes for BERT, ALBERT and RoBERTa have a layer and tanh between [CLS] and the classifier. For ``pool: cls`` the
layer is 2^-16 times the identity, so small that tanh changes no argument in float32 (its relative error is x^2 / 3),
and the classifier's weights are multiplied by 2^16: powers of two are exact. Do not convert such an export to float16.
For ``pool: mean`` the export includes a class of its own (:mod:`models.clld.mean_pooled`).
"""

from pathlib import Path
from typing import cast

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel

from models.clld.clld import DROPOUT, ClldModel
from models.clld.mean_pooled import MeanPooledConfig, MeanPooledForSequenceClassification

_SMALL = 2.0**-16
# By type of encoder: the setting of the dropout before the classifier, the layer before the tanh, and the classifier.
_PLACES = {"bert": ("classifier_dropout", "bert.pooler.dense", "classifier"),
           "roberta": ("classifier_dropout", "classifier.dense", "classifier.out_proj"),
           "albert": ("classifier_dropout_prob", "albert.pooler", "classifier")}


def sequence_classifier(model: ClldModel) -> PreTrainedModel:
    """Return a classifier of the library with the logits of ``model``; a ValueError if no class can express it."""
    config = model.config
    shared = {"id2label": config.id2label, "label2id": config.label2id, "problem_type": "single_label_classification"}
    if config.architecture == "textcnn":
        raise ValueError("transformers has no class for a TextCNN")
    if config.pool == "mean":
        own = MeanPooledForSequenceClassification(MeanPooledConfig(config.encoder, DROPOUT, **shared))
        own.encoder.load_state_dict(model.encoder.state_dict())
        own.classifier.load_state_dict(model.classifier.state_dict())
        return own.eval()
    dropout, *places = _PLACES[config.encoder["model_type"]]
    values = {key: value for key, value in config.encoder.items() if key not in ("num_labels", "architectures")}
    target = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(
        **{**values, **shared, dropout: DROPOUT}))
    target.base_model.load_state_dict(model.encoder.state_dict(), strict=False)
    dense, classifier = (cast(nn.Linear, target.get_submodule(place)) for place in places)
    with torch.no_grad():
        dense.weight.copy_(_SMALL * torch.eye(len(dense.weight)))
        dense.bias.zero_()
        classifier.weight.copy_(model.classifier.weight / _SMALL)
        classifier.bias.copy_(model.classifier.bias)
    return target.eval()


def load_exported(folder: str | Path) -> PreTrainedModel:
    """Return the classifier that was saved in ``folder``, without running code from there."""
    values, _ = PretrainedConfig.get_config_dict(folder)
    of_ours = values["model_type"] == MeanPooledConfig.model_type
    return (MeanPooledForSequenceClassification if of_ours else AutoModelForSequenceClassification).from_pretrained(
        folder).eval()
