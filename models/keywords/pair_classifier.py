"""A classifier of sentence pairs, whose gradients become keyword probabilities (PGKPR section 3).

The network is the library's own sequence classifier over the pre-trained encoder, with two logits: their
softmax cross-entropy is the binary cross-entropy of their difference, and attribution can ask for either
logit or for both.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BatchEncoding,
    BertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from models.common.encoders import bert_states, freeze_lower_layers, is_plain_bert
from models.common.task import Step, Task

LABELS = {0: "different", 1: "paraphrase"}


class PairPoint(NamedTuple):
    """A training point: ids of two texts, and 1 if they mean the same."""

    first: int
    second: int
    label: int


def pair_points(pairs: Sequence[tuple[int, int]], generator: np.random.Generator, negatives: int = 2,
                partners: Mapping[int, Collection[int]] | None = None) -> list[PairPoint]:
    """Return the points of N pairs (s_i, t_i) with random negatives, 2 + ``negatives`` per pair in its order.

    They are (s_i, t_i) and (s_i, s_i), positive, and ``negatives`` times (s_i, t_k) with k random, negative: 4N
    points with the paper's two. A drawn t_k is neither s_i nor any text that is known to mean the same: such a
    pair would be a false negative; where there is no other, a ValueError. ``pairs`` are text ids, ``partners`` texts
    that mean the same as a text, besides those paired with it in ``pairs``.
    """
    same: dict[int, set[int]] = {}  # each text of the pairs, and every text that is known to mean the same
    for source, target in pairs:
        same.setdefault(source, {source}).add(target)
        same.setdefault(target, {target}).add(source)
    for text, others in (partners or {}).items():
        if text in same:
            same[text].update(others)
    targets = [target for _, target in pairs]
    distinct = set(targets)
    points = []
    for source, target in pairs:
        if distinct <= same[source]:
            raise ValueError(f"no negative for text {source}: it is paired with all of the {len(distinct)} targets")
        points += [PairPoint(source, target, 1), PairPoint(source, source, 1)]
        for _ in range(negatives):
            while (drawn := targets[int(generator.integers(len(targets)))]) in same[source]:
                continue
            points.append(PairPoint(source, drawn, 0))
    return points


def build_pair_classifier(location: str | Path, pretrained: bool = True, freeze_layers: int = 0) -> PreTrainedModel:
    """Return a two-logit classifier over the encoder at ``location``; its head has random weights."""
    config = AutoConfig.from_pretrained(location, num_labels=len(LABELS), id2label=LABELS,
                                        label2id={name: label for label, name in LABELS.items()})
    if pretrained:
        classifier = AutoModelForSequenceClassification.from_pretrained(location, config=config)
    else:
        classifier = AutoModelForSequenceClassification.from_config(config)
    freeze_lower_layers(classifier.base_model, freeze_layers)
    return classifier


def pair_logits(classifier: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the logits (B, 2) of encoded pairs, for a BERT in fewer operations than the library's pass takes."""
    if not isinstance(classifier, BertForSequenceClassification) or not is_plain_bert(classifier.bert):
        return classifier(**batch).logits
    hidden = bert_states(classifier.bert, batch["input_ids"], batch["attention_mask"], batch.get("token_type_ids"))
    assert classifier.bert.pooler is not None  # classifiers of whole texts have one
    return classifier.classifier(classifier.dropout(classifier.bert.pooler(hidden)))


def encode_pairs(tokenizer: PreTrainedTokenizerBase, firsts: Sequence[str], seconds: Sequence[str],
                 max_length: int, width: int | None = None) -> BatchEncoding:
    """Return pairs as ``[CLS] first [SEP] second [SEP]``, the longer text cut first, as (B, L) tensors."""
    return tokenizer(list(firsts), list(seconds), truncation="longest_first", max_length=width or max_length,
                     padding="max_length" if width else "longest", return_tensors="pt")


@dataclass
class PairTask(Task):
    """Training of a pair classifier, for :func:`models.common.training.fit`."""

    module: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    texts: Mapping[int, str]
    train: Sequence[PairPoint]
    validation: Sequence[PairPoint]
    max_length: int
    learning_rate: float
    batch_size: int

    def load(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the encoded pairs of training points, and their ``labels`` (B,)."""
        return self._encoded([self.train[item] for item in items])

    def load_validation(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the same of validation points."""
        return self._encoded([self.validation[item] for item in items])

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the mean cross-entropy, and in the accuracy, of the batch."""
        loss, right = self._loss_and_right(batch)
        return loss / len(step.batch), {"accuracy": right / len(step.batch)}

    def validate(self) -> dict[str, float]:
        """Return mean cross-entropy (nats) and accuracy over the validation points."""
        sums = self.validation_sums(
            lambda batch: dict(zip(("loss", "accuracy"), self._loss_and_right(batch), strict=True)))
        return {name: value / len(self.validation) for name, value in sums.items()}

    def _encoded(self, points: Sequence[PairPoint]) -> dict[str, Tensor]:
        encoded = encode_pairs(self.tokenizer, [self.texts[point.first] for point in points],
                               [self.texts[point.second] for point in points], self.max_length)
        return {**encoded, "labels": torch.tensor([point.label for point in points])}

    def _loss_and_right(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Sum of the cross-entropies, and number of points classified rightly."""
        labels = batch["labels"]  # (B,)
        logits = pair_logits(self.module, {name: value for name, value in batch.items() if name != "labels"})  # (B, 2)
        return cross_entropy(logits.float(), labels, reduction="sum"), (logits.argmax(-1) == labels).sum()
