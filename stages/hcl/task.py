"""HCL as a task of the training loop."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from models.hcl import BatchTotals, HclModel, HclOutput, kl_weight, objective, validation_loss
from models.hcl.monitors import VANISHED_LOSS, Monitor
from models.training import Parameters, Step
from stages.hcl.batches import TripleBatches


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
    """Trains an :class:`models.hcl.HclModel` on triples; see ``models.training.Task``.

    Args:
        model: on its device.
        train: triples of the training split.
        validation: triples of the validation split; only their sources and targets are used.
        noise: for validation.
        settings: plain values of ``train_hcl.training``.
        annealing_steps: optimiser steps over which beta rises to 1.
    """

    def __init__(self, model: HclModel, train: TripleBatches, validation: TripleBatches, noise: ValidationNoise,
                 settings: Mapping[str, Any], annealing_steps: int) -> None:
        self.module: nn.Module = model
        self.model, self.train, self.validation, self.noise = model, train, validation, noise
        self.settings, self.annealing_steps = settings, annealing_steps
        self.n_train = len(train)

    def parameter_groups(self) -> Sequence[Parameters]:
        """Return the encoder's parameters and all others, each with its rate."""
        inside = list(self.model.encoder.parameters())
        known = {id(parameter) for parameter in inside}
        outside = [parameter for parameter in self.model.parameters() if id(parameter) not in known]
        return [Parameters("encoder", inside, self.settings["encoder_rate"]),
                Parameters("rest", outside, self.settings["learning_rate"])]

    def train_batch(self, items: Sequence[int], step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of ``items`` in the objective of the step's batch, and its parts."""
        batch = self._on_device(self.train.batch(items))
        output = self.model(batch)
        totals = self._totals(step.batch)
        beta = kl_weight(step.number, self.annealing_steps)
        loss, parts = objective(output, self.model.config, beta, totals)
        parts.pop("loss")
        share = len(items) / len(step.batch)
        return loss, {**parts, "beta": torch.tensor(beta * share), **_vanished(output, totals)}

    def validate(self) -> dict[str, float]:
        """Return the loss that selects checkpoints, its reconstruction part, and the monitors of the latent."""
        losses, reconstruction = [], []
        monitor = Monitor(self.model.config)
        for batch in self._validation_batches():
            output = self.model(batch)
            losses.append(validation_loss(output, self.model.config))
            reconstruction.append(output.reconstruction)
            # Validation batches have no contrast; what is left of the monitors is the latent's.
            monitor.add(replace(output, keyword=None, level=None))
        return {"loss": float(torch.cat(losses).mean()), "reconstruction": float(torch.cat(reconstruction).mean()),
                **monitor.values()}

    def _validation_batches(self) -> Iterator[dict[str, Tensor]]:
        size = self.settings["micro_batch"]
        for start in range(0, len(self.validation), size):
            items = range(start, min(start + size, len(self.validation)))
            batch = self.validation.batch(items)
            # The selecting loss has no contrast (METHODS A.8): no negative, no output keyword.
            batch = {name: value for name, value in batch.items() if not name.startswith("neg_")}
            nobody = torch.full_like(batch["ky"], -1)
            batch |= {"ky": nobody, "kneg": nobody, "has_negative": torch.zeros_like(batch["has_negative"]),
                      "eps": self.noise.eps[items.start:items.stop],
                      "unseen_vectors": self.noise.unseen_vectors[items.start:items.stop]}
            yield self._on_device(batch)

    def _totals(self, items: Sequence[int]) -> BatchTotals:
        chosen = torch.tensor(list(items), dtype=torch.int64)
        device = self.model.device
        _, _, impostors = self.model.impostors(self.train.nodes["ky"][chosen].to(device),
                                               self.train.nodes["kneg"][chosen].to(device))
        return BatchTotals(len(items), int(self.train.has_negative[chosen].sum()), int(impostors.sum()))

    def _on_device(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: value.to(self.model.device) for name, value in batch.items()}


def _vanished(output: HclOutput, totals: BatchTotals) -> dict[str, Tensor]:
    """Return, for each contrast, the share of samples that it no longer teaches."""
    shares: dict[str, Tensor] = {}
    latent, keyword, level = output.latent, output.keyword, output.level
    if latent is not None and latent.instance is not None and latent.instance_mask is not None:
        shares["instance_vanished"] = _share_below(latent.instance, latent.instance_mask, totals.negatives)
    if keyword is not None:
        shares["keyword_vanished"] = _share_below(keyword.contrast, keyword.mask, totals.impostors)
    if keyword is not None and level is not None:
        shares["mahalanobis_vanished"] = _share_below(level.contrast, keyword.mask, totals.impostors)
    return shares


def _share_below(losses: Tensor, mask: Tensor, total: int) -> Tensor:
    return ((losses.detach() < VANISHED_LOSS) & mask).sum() / max(1, total)
