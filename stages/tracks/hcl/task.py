"""HCL as a task of the training loop."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from models.common.training import Parameters, Step, batches_in_order
from models.hcl.graph import KEY, Planner, joined_texts
from models.hcl.hcl import BatchTotals, kl_weight, objective
from models.hcl.model import HclModel
from models.hcl.monitors import Validation, training_monitors
from stages.tracks.hcl.batches import TripleBatches
from stages.tracks.hcl.sight import Sight

_OF_PLAN = ("view", "unseen_vectors")  # of a training batch: what its plan alone reads
_CALIBRATING = 1024  # training items from which evaluation mode learns its statistics
_SEEN = 256  # training items whose KL is held against that of validation items
_CHUNK = 4096  # items whose impostors are looked up at once: bounds memory


@dataclass(frozen=True)
class ValidationNoise:
    """What validation needs beside the batches: noise fixed per example, vectors of unseen keywords.

    Attributes:
        eps: noise for z (n, dz), drawn from a seed of each example's own.
        unseen_vectors: initial vectors (n, d), read where an input keyword is no node.
    """

    eps: Tensor
    unseen_vectors: Tensor


class HclTask:
    """Trains an :class:`models.hcl.model.HclModel` on triples; see ``models.common.training.Task``.

    Args:
        model: on its device.
        train: triples of the training split.
        validation: triples of the validation split; their negatives and output keywords serve monitors alone.
        noise: for validation.
        settings: plain values of ``train_hcl.training``.
        annealing_steps: optimiser steps over which beta rises to 1.
        taken: parameters that come from another trained model, and may go on at a rate of their own.
        sight: what the training triples see of the graph; None for the whole.
    """

    def __init__(self, model: HclModel, train: TripleBatches, validation: TripleBatches, noise: ValidationNoise,
                 settings: Mapping[str, Any], annealing_steps: int,
                 taken: Collection[str] = (), sight: Sight | None = None) -> None:
        self.module: nn.Module = model
        self.model, self.train, self.validation, self.noise = model, train, validation, noise
        self.settings, self.annealing_steps = settings, annealing_steps
        self.n_train, self.taken = len(train), frozenset(taken)
        self.sight = sight if model.config.uses_keyword else None
        self.planner = model.planner(sight.views if sight is not None else None)
        self.has_impostor = _has_impostor(self.planner, train)
        self.tokens = _tokens(train, model)

    def parameter_groups(self) -> Sequence[Parameters]:
        """Return the encoder's parameters, those taken from another model, and all others, each with its rate."""
        rate = self.settings["learning_rate"]
        groups: dict[str, list[nn.Parameter]] = {"encoder": [], "taken": [], "rest": []}
        for name, parameter in self.model.named_parameters():
            inside = name.startswith("encoder.")
            groups["encoder" if inside else "taken" if name in self.taken else "rest"].append(parameter)
        return [Parameters("encoder", groups["encoder"], self.settings["encoder_rate"]),
                Parameters("taken", groups["taken"], self.settings["taken_rate"] or rate),
                Parameters("rest", groups["rest"], rate)]

    def lengths(self) -> list[int]:
        """Return the tokens of each training triple's texts, all together, as far as the model reads them."""
        lengths: list[int] = np.sum(list(self.tokens.values()), axis=0).tolist()
        return lengths

    def load(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the padded tensors of ``items``, see ``TripleBatches.batch``, their texts joined, and their plan."""
        batch, config = self.train.batch(items), self.model.config
        names = ["x", "y", "neg"] if config.latent.enabled else ["x"]
        seen = self.sight.of(items) if self.sight is not None else {}
        planned = self._planned({**batch, **seen, **joined_texts(batch, names, config.special_ids["pad"])})
        return {name: part for name, part in planned.items() if name not in _OF_PLAN}

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor | float]]:
        """Return the share of a micro-batch in the objective of the step's batch, and its parts."""
        if self.sight is not None and "draw" in batch:
            batch = {**batch, "dropped": self.sight.dropped(batch["draw"], step.epoch)}
        output = self.model(batch)
        totals = self._totals(step.batch)
        beta = kl_weight(step.number, self.annealing_steps)
        loss, parts = objective(output, self.model.config, beta, totals)
        parts.pop("loss")
        share = len(batch["x_ids"]) / totals.items
        return loss, {**parts, "beta": beta * share, **training_monitors(output, totals)}

    def validate(self) -> dict[str, float]:
        """Return the loss that selects checkpoints, and the monitors; see ``models.hcl.monitors``."""
        self.model.calibrate(self._training_sample(_CALIBRATING, self.train.batch))
        validation = Validation(self.model)
        with torch.autocast(self.model.device.type, enabled=False):
            self.model.keyword_vectors()  # of the whole graph, once and in full, whatever the precision of the rest
        for batch in self._validation_batches():
            validation.add(batch)
        if self.model.config.latent.enabled:
            for batch in self._training_sample(_SEEN, self.load):
                validation.add_seen(batch)
        return validation.values()

    def _training_sample(self, most: int, load: Callable[[Sequence[int]], Mapping[str, Tensor]]
                         ) -> Iterator[dict[str, Tensor]]:
        """Yield ``load`` of at most so many training items, spread evenly over all."""
        places = range(0, self.n_train, -(-self.n_train // most))
        return batches_in_order(lambda numbers: load([places[number] for number in numbers]), len(places),
                                self.settings["micro_batch"], self.model.device)

    def _validation_batches(self) -> Iterator[dict[str, Tensor]]:
        def load(items: Sequence[int]) -> dict[str, Tensor]:
            places = list(items)
            batch = self.validation.batch(items) | {"eps": self.noise.eps[places],
                                                    "unseen_vectors": self.noise.unseen_vectors[places]}
            return self._planned(batch, training=False)

        return batches_in_order(load, len(self.validation), self.settings["micro_batch"], self.model.device)

    def _planned(self, batch: dict[str, Tensor], training: bool = True) -> dict[str, Tensor]:
        """Add the plan, which moves between devices as a tensor does."""
        return {**batch, KEY: cast(Tensor, self.planner.plan(batch, training))}

    def _totals(self, items: Sequence[int]) -> BatchTotals:
        chosen = torch.tensor(list(items), dtype=torch.int64)
        return BatchTotals(len(items), int(self.train.has_negative[chosen].sum()),
                           int(self.has_impostor[chosen].sum()))


def _tokens(train: TripleBatches, model: HclModel) -> dict[str, np.ndarray]:
    """Return the tokens of ``x``, ``y`` and the negatives ``neg`` (n,), [CLS] and [SEP] included.

    The deterministic backbone reads no negatives.
    """
    texts = {"x": train.sources, "y": train.targets}
    if model.config.latent.enabled:
        texts["neg"] = train.negatives
    return {name: np.array([len(row) + 2 for row in pieces.ids], dtype=np.int64) for name, pieces in texts.items()}


def _has_impostor(planner: Planner, train: TripleBatches) -> Tensor:
    """Return which items have an impostor keyword (n,): a matter of the graph, which training does not change."""
    chunks = zip(train.nodes["ky"].split(_CHUNK), train.nodes["kneg"].split(_CHUNK), strict=True)
    return torch.cat([planner.impostors(of_y, of_neg)[2] for of_y, of_neg in chunks])
