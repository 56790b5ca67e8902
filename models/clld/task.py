"""A CLLD classifier as a task of the training loop (METHODS D.2-D.4)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from models.clld.contrasts import CONTRASTS
from models.clld.label_distance import AdaptiveSchedule, update_label_distance
from models.clld.model import ClldModel, Views
from models.clld.texts import SAMPLERS, LabelledTexts, Sampler, sampled_batches
from models.common.training import BatchedTask, Parameters, Step, batches_in_order


@dataclass(frozen=True)
class Judgement:
    """What a model makes of the validation texts.

    Attributes:
        loss: mean cross-entropy (nats), without class weights.
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


class ClldTask(BatchedTask):
    """Trains a CLLD classifier; see ``models.common.training.Task``, ``Drawing`` and ``Evaluating``.

    The loss is lambda L_c + (1 - lambda) L_s. The cross-entropy L_c is a mean over the step's whole batch, so its
    shares add up over micro-batches. The contrast L_s is one of the whole batch (METHODS D.2), however many
    micro-batches and processes it is cut for; see ``models.common.training.Contrasting``.

    With an adaptive label distance the schedule says when the validation confusions are counted, and the matrix, a
    buffer of the model, moves. Nothing reads the other evaluations of Algorithm 1, so they are counted and not
    computed, unless ``record_all`` is set, which changes no weight.

    Args:
        model: on its device.
        train: texts of the training split.
        validation: of the validation split; never of the test split.
        learning_rate: of every parameter.
        batch_size: texts per forward pass in validation.
        schedule: of an adaptive label distance; other models read none.
        sampler: see :func:`models.clld.sampled_batches`.
        class_weights: factors of the cross-entropy (N,), see :func:`models.clld.balanced_weights`; None for none. A
            batch's cross-entropies are divided by the sum of its texts' weights.
        head_rate: learning rate of classifier and head; None for ``learning_rate``.
        record_all: compute every evaluation, for the curve of validation accuracy within epochs.

    Attributes:
        evaluations: those computed so far: ``evaluation`` (1-based count), ``step``, ``loss``, ``accuracy``,
            ``macro_f1`` and ``updated``.
        updates: of the label distance matrix: ``evaluation``, ``step``, ``epoch``, ``strength``, ``confusion`` and
            ``ldm`` (nested lists), the matrix after the update.

    Raises:
        ValueError: an empty split, an unknown sampler, a class out of range, or no schedule where one is needed.
    """

    module: ClldModel
    train: LabelledTexts
    validation: LabelledTexts

    def __init__(self, model: ClldModel, train: LabelledTexts, validation: LabelledTexts, learning_rate: float,
                 batch_size: int, *, schedule: AdaptiveSchedule | None = None, sampler: Sampler = "shuffled",
                 class_weights: Tensor | None = None, head_rate: float | None = None,
                 record_all: bool = False) -> None:
        self.module, self.train, self.validation = model, train, validation
        self.learning_rate, self.batch_size, self.head_rate = learning_rate, batch_size, head_rate
        self.sampler, self.record_all = sampler, record_all
        config = model.config
        self.adaptive = hasattr(model, "ldm") and config.distance["kind"] == "adaptive"
        self.schedule = schedule
        self._check()
        self.class_weights = None if class_weights is None else class_weights.to(model.device)
        self._weight_of = None if class_weights is None else class_weights.double().numpy()[train.labels]
        self._lengths = train.lengths
        self._by_length = np.argsort(validation.lengths, kind="stable")  # little padding in validation
        self.evaluations: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []

    def parameter_groups(self) -> list[Parameters]:
        """Return one group, or encoder and the rest where the latter has a rate of its own."""
        if self.head_rate is None:
            return super().parameter_groups()
        model = self.module
        own = [part for part in (model.classifier, model.head) if isinstance(part, nn.Module)]
        return [Parameters("encoder", list(model.encoder.parameters()), self.learning_rate),
                Parameters("head", [parameter for part in own for parameter in part.parameters()], self.head_rate)]

    def lengths(self) -> list[int]:
        """Return the tokens of each training text."""
        return self._lengths.tolist()

    def draw(self, batch_size: int, seed: int, bucket: bool) -> list[list[int]]:
        """Return the batches of one epoch, by the sampler."""
        lengths = self.lengths() if bucket else None
        return sampled_batches(self.train.labels, batch_size, seed, self.sampler, lengths)

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
        labels, weight = batch["labels"], self.module.config.contrast["weight"]
        views = self.module.train_views(batch["input_ids"], batch["attention_mask"])
        entropy, parts = self._entropy(views, labels, step)
        if views.vectors is None:
            return entropy, parts
        parts["contrast"] = self._contrast(views.vectors, labels)
        return weight * entropy + (1 - weight) * parts["contrast"], parts

    @property
    def contrasts(self) -> bool:
        """Whether the row has a contrast."""
        return self.module.config.contrasts

    def train_apart(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Return the share in the cross-entropy, its parts, and the vectors of each text's views, joined (M, V d)."""
        views = self.module.train_views(batch["input_ids"], batch["attention_mask"])
        assert views.vectors is not None  # the row has a contrast
        entropy, parts = self._entropy(views, batch["labels"], step)
        count = len(batch["labels"])
        vectors = views.vectors.view(-1, count, views.vectors.shape[-1]).transpose(0, 1)  # (M, V, d)
        return self.module.config.contrast["weight"] * entropy, parts, vectors.flatten(1)

    def contrast(self, vectors: Tensor, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted contrast of the texts of a batch, of which ``vectors`` (B, V d) are the views."""
        config, labels = self.module.config, torch.from_numpy(self.train.labels[list(step.batch)])
        views = vectors.unflatten(1, (config.views, -1)).transpose(0, 1).flatten(0, 1)  # (V B, d)
        found = self._contrast(views, labels.to(vectors.device))
        return (1 - config.contrast["weight"]) * found, {"contrast": found}

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
        """Return the values and confusions after so many steps, if anything reads them."""
        if not (self.record_all or (self.schedule and self.schedule.updates(steps))):
            return None
        found = self.judge()
        return {**found.values(), "confusion": found.confusion.tolist()}

    def act_on(self, steps: int, found: dict[str, Any] | None) -> None:
        """Move the label distance matrix if it is due (Algorithm 1)."""
        if found is None or self.schedule is None:
            return
        values, updates = dict(found), self.schedule.updates(steps)
        confusion = values.pop("confusion")
        number = steps // self.schedule.interval
        self.evaluations.append({"evaluation": number, "step": steps, **values, "updated": updates})
        if not updates:
            return
        strength, rules = self.schedule.strength(steps), self.module.config.distance
        ldm: Tensor = self.module.ldm  # type: ignore[assignment]
        ldm.copy_(update_label_distance(ldm, torch.tensor(confusion), strength, rules["ald_count"], rules["tau"],
                                        rules["share_of"], rules["least_support"]))
        self.updates.append({"evaluation": number, "step": steps, "epoch": self.schedule.epoch_of(steps),
                             "strength": strength, "confusion": confusion, "ldm": ldm.tolist()})

    def memory(self) -> dict[str, Any]:
        """Return evaluations and updates so far, for the checkpoint."""
        return {"evaluations": self.evaluations, "updates": self.updates}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go back to :meth:`memory`; an empty one is that of a training without evaluations so far."""
        self.evaluations = list(memory.get("evaluations", []))
        self.updates = list(memory.get("updates", []))

    def _entropy(self, views: Views, labels: Tensor, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the mean cross-entropy of the batch, and parts of the loss."""
        entropy = summed_cross_entropy(views.logits, labels, self.class_weights) / self._weight(step.batch)
        right = (views.logits[:len(labels)].detach().argmax(-1) == labels).sum()
        return entropy, {"ce": entropy, "accuracy": right / len(step.batch)}

    def _contrast(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the contrast, a scalar, of ``vectors`` (V M, d) of the views of M texts, one view behind the other."""
        config = self.module.config
        classes = labels.repeat(len(vectors) // len(labels))  # in the order of the views (V M,)
        ldm = cast(Tensor | None, getattr(self.module, "ldm", None))
        return CONTRASTS[config.contrast["kind"]].loss(config, vectors, classes, ldm)

    @property
    def _classes(self) -> int:
        return self.module.config.n_classes

    def _answers(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in batches_in_order(self.load_validation, len(self.validation), self.batch_size,
                                      self.module.device):
            yield self.module(batch["input_ids"], batch["attention_mask"]), batch["labels"]

    def _weight(self, items: Sequence[int]) -> float:
        """What the cross-entropies of a batch are divided by."""
        return len(items) if self._weight_of is None else float(self._weight_of[list(items)].sum())

    def _check(self) -> None:
        for split, texts in (("training", self.train), ("validation", self.validation)):
            if not len(texts):
                raise ValueError(f"ClldTask: there is no {split} text")
            if not 0 <= texts.labels.min() <= texts.labels.max() < self._classes:
                raise ValueError(f"ClldTask: a {split} text has class {texts.labels.max()}, the model has the classes "
                                 f"0 .. {self._classes - 1}")
        if self.sampler not in SAMPLERS:
            raise ValueError(f"ClldTask: sampler is {self.sampler!r}, expected one of {', '.join(SAMPLERS)}")
        if self.adaptive and self.schedule is None:
            raise ValueError("ClldTask: an adaptive label distance needs a schedule; see AdaptiveSchedule.of")


def summed_cross_entropy(logits: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """Return the sum of the cross-entropies (nats) of M texts, the mean over views where there are several.

    Args:
        logits: (M, N), or (V M, N) of V views one behind the other.
        labels: class of each text (M,).
        class_weights: factor of each class (N,); None for 1.
    """
    views = len(logits) // len(labels)
    return cross_entropy(logits.float(), labels.repeat(views), class_weights, reduction="sum") / views


def balanced_weights(labels: Sequence[int], n_classes: int) -> Tensor:
    """Return the weights n / (N n_c) of the classes (N,), under which every class counts the same; 1 without a text.

    Args:
        labels: classes of the training texts.
        n_classes: N.
    """
    counts = torch.bincount(torch.as_tensor(labels), minlength=n_classes).double()
    weights = len(labels) / (n_classes * counts.clamp(min=1))
    return torch.where(counts > 0, weights, torch.ones_like(weights)).float()
