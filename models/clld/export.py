"""CLLD classifiers as sequence classifiers of the Hugging Face library.

Its classes for BERT, ALBERT and RoBERTa put the pooler's layer and tanh between [CLS] and the classifier. A model of
``pool: cls`` fits, although no layer before a tanh is the identity: with a layer of 2^-16 times the identity every
argument is so small that tanh returns it unchanged in float32 (its error, x^2 / 3 of x, is below half a unit in the
last place for states up to about 27), and the classifier's weights times 2^16 undo the factor; both are powers of two,
so they round nothing. Logits agree to the last digits in float32 and bfloat16; do not convert such an export to
float16, whose smallest numbers are too large for it.

No class of the library classifies by the mean over tokens, so a model of ``pool: mean`` brings its own class along,
which is run for those who load it with ``trust_remote_code=True`` (:mod:`models.clld.mean_pooled`). One of
convolutions is refused.
"""

from pathlib import Path
from typing import cast

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from models.clld.config import DROPOUT
from models.clld.mean_pooled import MeanPooledConfig, MeanPooledForSequenceClassification
from models.clld.model import ClldModel

_SMALL = 2.0**-16
# Which setting of the class is the dropout before its classifier.
_DROPOUT = {"bert": "classifier_dropout", "roberta": "classifier_dropout", "albert": "classifier_dropout_prob"}


def sequence_classifier(model: ClldModel) -> PreTrainedModel:
    """Return the classifier of the library, or the one that travels along, that has the logits of ``model``.

    In evaluation mode. The contrastive head and the label distance matrix, which only training reads, are not part of
    it. Names of the classes are (``id2label``).

    Raises:
        ValueError: no class of the library can express the model; says what to do.
    """
    config = model.config
    if (problem := _problem(model)) is not None:
        raise ValueError(f"export: {problem}; use ClldModel.from_pretrained for this model")
    if config.pool == "mean":
        return _mean_pooled(model)
    kind = config.encoder["model_type"]
    changes = {_DROPOUT[kind]: DROPOUT, "id2label": config.id2label, "label2id": config.label2id,
               "problem_type": "single_label_classification"}
    values = {key: value for key, value in config.encoder.items() if key not in ("num_labels", "architectures")}
    target = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(**{**values, **changes}))
    dense, classifier = _layers(target, kind)
    target.base_model.load_state_dict(model.encoder.state_dict(), strict=False)
    with torch.no_grad():
        dense.weight.copy_(_SMALL * torch.eye(len(dense.weight)))
        dense.bias.zero_()
        classifier.weight.copy_(model.classifier.weight / _SMALL)
        classifier.bias.copy_(model.classifier.bias)
    return target.eval()


def export_classifier(model: ClldModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path) -> None:
    """Write ``model`` and its tokenizer so that ``AutoModelForSequenceClassification`` loads them.

    With ``trust_remote_code=True``, if the model is of ``pool: mean``.

    Raises:
        ValueError: as of :func:`sequence_classifier`.
    """
    sequence_classifier(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def load_exported(folder: str | Path) -> PreTrainedModel:
    """Return the classifier in a folder that :func:`export_classifier` has written, without running code from there."""
    values, _ = PretrainedConfig.get_config_dict(folder)
    of_ours = values["model_type"] == MeanPooledConfig.model_type
    return (MeanPooledForSequenceClassification if of_ours else AutoModelForSequenceClassification).from_pretrained(
        folder).eval()


def _mean_pooled(model: ClldModel) -> PreTrainedModel:
    config = model.config
    target = MeanPooledForSequenceClassification(MeanPooledConfig(
        config.encoder, DROPOUT, id2label=config.id2label, label2id=config.label2id,
        problem_type="single_label_classification"))
    target.encoder.load_state_dict(model.encoder.state_dict())
    target.classifier.load_state_dict(model.classifier.state_dict())
    return target.eval()


def _problem(model: ClldModel) -> str | None:
    config = model.config
    if config.architecture == "textcnn":
        return "no class of transformers holds a TextCNN"
    if config.pool != "mean" and (kind := config.encoder["model_type"]) not in _DROPOUT:
        return f"encoders of type {kind!r} cannot be exported, those of {', '.join(_DROPOUT)} can"
    return None


def _layers(target: PreTrainedModel, kind: str) -> tuple[nn.Linear, nn.Linear]:
    """Return the layer before the tanh, and the classifier behind it."""
    names = {"bert": ("bert.pooler.dense", "classifier"), "albert": ("albert.pooler", "classifier"),
             "roberta": ("classifier.dense", "classifier.out_proj")}[kind]
    dense, classifier = (cast(nn.Linear, target.get_submodule(name)) for name in names)
    return dense, classifier
