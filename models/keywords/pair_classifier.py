"""A classifier of sentence pairs, whose gradients become keyword probabilities (PGKPR section 3)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import transformers
from torch import Tensor
from torch.nn.functional import cross_entropy

from models.common.encoders import freeze_lower_layers
from models.common.task import Step, Task
from models.common.transformer import bert_states, is_plain_bert

LABELS = {0: "different", 1: "paraphrase"}


class PairExample(NamedTuple):
    """A training point: ids of two texts, and 1 if they mean the same."""

    first: int
    second: int
    label: int


def pair_examples(pairs: Sequence[tuple[int, int]], generator: np.random.Generator, negatives: int = 2,
                  partners: Mapping[int, Collection[int]] | None = None) -> list[PairExample]:
    """Return the points of N pairs (s_i, t_i) of text ids, 2 + ``negatives`` per pair in its order.

    (s_i, t_i) and (s_i, s_i) are positive, (s_i, t_k) with random k negative: 4N points with the paper's two negatives.
    A t_k that means the same as s_i, by the pairs or by its ``partners``, is not drawn.
    """
    same: dict[int, set[int]] = {}  # each text of the pairs, and every text with the same meaning
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
        points += [PairExample(source, target, 1), PairExample(source, source, 1)]
        for _ in range(negatives):
            while (drawn := targets[int(generator.integers(len(targets)))]) in same[source]:
                continue
            points.append(PairExample(source, drawn, 0))
    return points


def build_pair_classifier(location: str | Path, pretrained: bool = True,
                          freeze_layers: int = 0) -> transformers.PreTrainedModel:
    """Return the library's classifier with two logits over the encoder at ``location``, with a random head."""
    config = transformers.AutoConfig.from_pretrained(
        location, num_labels=len(LABELS), id2label=LABELS, label2id={name: label for label, name in LABELS.items()})
    if pretrained:
        classifier = transformers.AutoModelForSequenceClassification.from_pretrained(
            location, config=config, dtype=torch.float32)
    else:
        classifier = transformers.AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    freeze_lower_layers(classifier.base_model, freeze_layers)
    return classifier


def pair_logits(classifier: transformers.PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the logits (B, 2) of encoded pairs, for a BERT by :func:`bert_states`."""
    if not isinstance(classifier, transformers.BertForSequenceClassification) or not is_plain_bert(classifier.bert):
        return classifier(**batch).logits
    hidden = bert_states(classifier.bert, batch["input_ids"], batch["attention_mask"], batch.get("token_type_ids"))
    assert classifier.bert.pooler is not None  # sequence classifiers have one
    return classifier.classifier(classifier.dropout(classifier.bert.pooler(hidden)))


def encode_pairs(tokenizer: transformers.PreTrainedTokenizerBase, firsts: Sequence[str], seconds: Sequence[str],
                 max_length: int, width: int | None = None) -> transformers.BatchEncoding:
    """Return pairs as ``[CLS] first [SEP] second [SEP]``, the longer text cut first, as (B, L) tensors."""
    return tokenizer(list(firsts), list(seconds), truncation="longest_first", max_length=width or max_length,
                     padding="max_length" if width else "longest", return_tensors="pt")


@dataclass
class PairTask(Task):
    """Training of a pair classifier, for :func:`models.common.training.fit`."""

    module: transformers.PreTrainedModel
    tokenizer: transformers.PreTrainedTokenizerBase
    texts: Mapping[int, str]
    train: Sequence[PairExample]
    validation: Sequence[PairExample]
    max_length: int
    learning_rate: float
    batch_size: int

    def tensors(self, rows: Sequence[PairExample]) -> dict[str, Tensor]:
        """Return the encoded pairs of points, and their ``labels`` (B,)."""
        encoded = encode_pairs(self.tokenizer, [self.texts[point.first] for point in rows],
                               [self.texts[point.second] for point in rows], self.max_length)
        return {**encoded, "labels": torch.tensor([point.label for point in rows])}

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the mean cross-entropy, and in the accuracy, of the batch."""
        loss, right = self._loss_and_right(batch)
        return loss / len(step.batch), {"accuracy": right / len(step.batch)}

    def validate(self) -> dict[str, float]:
        """Return mean cross-entropy (nats) and accuracy over the validation points."""
        sums = self.validation_sums(
            lambda batch: dict(zip(("loss", "accuracy"), self._loss_and_right(batch), strict=True)))
        return {name: value / len(self.validation) for name, value in sums.items()}

    def _loss_and_right(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the sum of the cross-entropies, and the number of correctly classified points."""
        labels = batch["labels"]  # (B,)
        logits = pair_logits(self.module, {name: value for name, value in batch.items() if name != "labels"})  # (B, 2)
        return cross_entropy(logits.float(), labels, reduction="sum"), (logits.argmax(-1) == labels).sum()
