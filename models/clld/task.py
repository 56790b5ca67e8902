"""A CLLD classifier as a task of the training loop (CLLD section III-C)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from models.clld.label_distance import AdaptiveSchedule, update_label_distance
from models.clld.model import ClldModel, Views
from models.clld.texts import LabelledTexts
from models.common.batches import batches_in_order
from models.common.losses import label_distance_contrast, supervised_contrast, twin_contrast
from models.common.task import Step, Task

_LAMBDA = 0.5  # weight of the cross-entropy (eq. 9); the contrast has the rest


@dataclass(frozen=True)
class Judgement:
    """What a model makes of the validation texts.

    Attributes:
        loss: mean cross-entropy (nats).
        confusion: number of texts (N, N) int64, rows true, columns predicted.
    """

    loss: float
    confusion: Tensor

    @property
    def accuracy(self) -> float:
        """Share of texts classified rightly."""
        return int(self.confusion.diagonal().sum()) / int(self.confusion.sum())

    @property
    def macro_f1(self) -> float:
        """Mean over classes of F1; a class that is neither there nor predicted is left out."""
        right, counted = self.confusion.diagonal().double(), (self.confusion.sum(0) + self.confusion.sum(1)).double()
        return float((2 * right / counted)[counted > 0].mean())

    def values(self) -> dict[str, float]:
        """Return loss, accuracy and macro F1 by name."""
        return {"loss": self.loss, "accuracy": self.accuracy, "macro_f1": self.macro_f1}


class ClldTask(Task):
    """Trains a CLLD classifier; see ``models.common.task.Task`` and ``Evaluating``.

    The loss is lambda L_c + (1 - lambda) L_s. The cross-entropy L_c is a mean over the step's whole batch, so its
    shares add up over micro-batches. The contrast L_s is one of the whole batch, however many
    micro-batches and processes it is cut for; see ``models.common.task.Task``.

    With an adaptive label distance the schedule says when the validation confusions are counted, and the matrix, a
    buffer of the model, moves. Nothing reads the other evaluations of Algorithm 1, so they are counted and not
    computed.

    Args:
        model: on its device.
        train: texts of the training split.
        validation: of the validation split; never of the test split.
        learning_rate: of every parameter.
        batch_size: texts per forward pass in validation.
        schedule: of an adaptive label distance; other models read none.

    Attributes:
        updates: of the label distance matrix: ``evaluation`` (1-based count), ``step``, ``epoch``, ``strength``, the
            validation's ``loss``, ``accuracy``, ``macro_f1`` and ``confusion``, and ``ldm``, the matrix after the
            update (both nested lists).

    Raises:
        ValueError: an empty split, a class out of range, or no schedule where one is needed.
    """

    module: ClldModel
    train: LabelledTexts
    validation: LabelledTexts

    def __init__(self, model: ClldModel, train: LabelledTexts, validation: LabelledTexts, learning_rate: float,
                 batch_size: int, schedule: AdaptiveSchedule | None = None) -> None:
        self.module, self.train, self.validation = model, train, validation
        self.learning_rate, self.batch_size = learning_rate, batch_size
        self.adaptive = hasattr(model, "ldm") and model.config.distance["kind"] == "adaptive"
        self.schedule = schedule
        self._check()
        self._by_length = np.argsort(validation.lengths, kind="stable")  # little padding in validation
        self.updates: list[dict[str, Any]] = []

    def lengths(self) -> list[int]:
        """Return the tokens of each training text."""
        return self.train.lengths.tolist()

    def load(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the padded tensors of ``items``; see :meth:`LabelledTexts.batch`."""
        return self.train.batch(items)

    def load_validation(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the same of validation texts, ``items`` being places in the order of their lengths."""
        return self.validation.batch(self._by_length[list(items)].tolist())

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the loss of the step's batch, and its parts.

        Of a row with a contrast it is called for whole batches alone.
        """
        labels = batch["labels"]
        views = self.module.train_views(batch["input_ids"], batch["attention_mask"])
        entropy, parts = self._entropy(views, labels, step)
        if views.vectors is None:
            return entropy, parts
        parts["contrast"] = self._contrast(views.vectors, labels)
        return _LAMBDA * entropy + (1 - _LAMBDA) * parts["contrast"], parts

    @property
    def contrasts(self) -> bool:
        """Whether the row has a contrast."""
        return self.module.config.contrasts

    def without_contrast(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Return the share in the cross-entropy, its parts, and the vectors of each text's views, joined (M, V d)."""
        views = self.module.train_views(batch["input_ids"], batch["attention_mask"])
        assert views.vectors is not None  # the row has a contrast
        entropy, parts = self._entropy(views, batch["labels"], step)
        count = len(batch["labels"])
        vectors = views.vectors.view(-1, count, views.vectors.shape[-1]).transpose(0, 1)  # (M, V, d)
        return _LAMBDA * entropy, parts, vectors.flatten(1)

    def contrast(self, vectors: Tensor, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted contrast of the texts of a batch, of which ``vectors`` (B, V d) are the views."""
        labels = torch.from_numpy(self.train.labels[list(step.batch)])
        views = vectors.unflatten(1, (self.module.config.views, -1)).transpose(0, 1).flatten(0, 1)  # (V B, d)
        found = self._contrast(views, labels.to(vectors.device))
        return (1 - _LAMBDA) * found, {"contrast": found}

    def validate(self) -> dict[str, float]:
        """Return mean cross-entropy, accuracy and macro F1 over the validation texts."""
        return self.judge().values()

    def judge(self) -> Judgement:
        """Return loss and confusions of the model as it is, for a caller in evaluation mode and without gradients."""
        loss, confusion = 0.0, torch.zeros(self._classes**2, dtype=torch.int64)
        for logits, labels in self._answers():
            loss += float(summed_cross_entropy(logits, labels).double())
            cells = self._classes * labels + logits.argmax(-1)  # (B,)
            confusion += torch.bincount(cells.cpu(), minlength=self._classes**2)
        return Judgement(loss / len(self.validation), confusion.view(self._classes, self._classes))

    @property
    def evaluate_every(self) -> int | None:
        """Optimiser steps between evaluations: k of an adaptive label distance, and None for other models."""
        return self.schedule.interval if self.adaptive and self.schedule else None

    def evaluate(self, steps: int) -> dict[str, Any] | None:
        """Return the values and confusions after so many steps, if an update reads them."""
        if self.schedule is None or not self.schedule.updates(steps):
            return None
        found = self.judge()
        return {**found.values(), "confusion": found.confusion.tolist()}

    def on_evaluation(self, steps: int, found: dict[str, Any] | None) -> None:
        """Move the label distance matrix if it is due (Algorithm 1)."""
        if found is None or self.schedule is None:
            return
        strength = self.schedule.strength(steps)
        ldm: Tensor = self.module.ldm  # type: ignore[assignment]
        ldm.copy_(update_label_distance(ldm, torch.tensor(found["confusion"]), strength))
        self.updates.append({"evaluation": steps // self.schedule.interval, "step": steps,
                             "epoch": self.schedule.epoch_of(steps), "strength": strength, **found,
                             "ldm": ldm.tolist()})

    def extra_state(self) -> dict[str, Any]:
        """Return the updates so far, for the checkpoint."""
        return {"updates": self.updates}

    def load_extra(self, state: Mapping[str, Any]) -> None:
        """Go back to :meth:`extra_state`; an empty one is that of a training without evaluations so far."""
        self.updates = list(state.get("updates", []))

    def _entropy(self, views: Views, labels: Tensor, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the mean cross-entropy of the batch, and parts of the loss."""
        entropy = summed_cross_entropy(views.logits, labels) / len(step.batch)
        right = (views.logits[:len(labels)].detach().argmax(-1) == labels).sum()
        return entropy, {"ce": entropy, "accuracy": right / len(step.batch)}

    def _contrast(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the contrast, a scalar, of ``vectors`` (V M, d) of the views of M texts, one view behind the other."""
        kind, temperature = self.module.config.contrast["kind"], self.module.config.contrast_temperature
        if kind == "twin":
            return twin_contrast(vectors, temperature)
        classes = labels.repeat(len(vectors) // len(labels))  # in the order of the views (V M,)
        if kind == "supervised":
            return supervised_contrast(vectors, classes, temperature)
        ldm: Tensor = self.module.ldm  # type: ignore[assignment]
        return label_distance_contrast(vectors, classes, ldm, temperature)

    @property
    def _classes(self) -> int:
        return self.module.config.n_classes

    def _answers(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in batches_in_order(self.load_validation, len(self.validation), self.batch_size,
                                      self.module.device):
            yield self.module(batch["input_ids"], batch["attention_mask"]), batch["labels"]

    def _check(self) -> None:
        for split, texts in (("training", self.train), ("validation", self.validation)):
            if not len(texts):
                raise ValueError(f"ClldTask: there is no {split} text")
            if not 0 <= texts.labels.min() <= texts.labels.max() < self._classes:
                raise ValueError(f"ClldTask: a {split} text has class {texts.labels.max()}, the model has the classes "
                                 f"0 .. {self._classes - 1}")
        if self.adaptive and self.schedule is None:
            raise ValueError("ClldTask: an adaptive label distance needs a schedule; see AdaptiveSchedule.of")


def summed_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the sum of the cross-entropies (nats) of M texts, the mean over views where there are several.

    Args:
        logits: (M, N), or (V M, N) of V views one behind the other.
        labels: class of each text (M,).
    """
    views = len(logits) // len(labels)
    return cross_entropy(logits.float(), labels.repeat(views), reduction="sum") / views
