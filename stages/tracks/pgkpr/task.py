"""A rewriter of the PGKPR track as a task of the training loop (PGKPR section 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.common.training import BatchedTask, Step
from models.common.training.accumulation import PartSums
from models.common.training.batches import moved
from models.pgkpr.pgkpr import Rewriter, RewriterConfig
from stages.tracks.pgkpr.batches import PairBatches, training_mask


@dataclass(frozen=True)
class Totals:
    """What the loss parts of some items are divided by: their number, and tokens of theirs.

    Attributes:
        items: number of pairs.
        words: of the sources.
        generated: words of the targets, each with its end token.
        reconstructed: tokens of the perturbed sources, 2l + 3 for a source of l words.
    """

    items: int
    words: int
    generated: int
    reconstructed: int

    @classmethod
    def of(cls, batches: PairBatches, items: Sequence[int]) -> "Totals":
        """Return the totals of ``items``."""
        count, chosen = len(items), list(items)
        words, targets = (int(batches.words[side][chosen].sum()) for side in ("x", "t"))
        return cls(count, words, targets + count, 2 * words + 3 * count)

    def means(self, sums: Mapping[str, Tensor], config: RewriterConfig) -> dict[str, Tensor]:
        """Return ``Rewriter.sums`` of all these items, or of some, divided by what belongs to all."""
        by_token = config.reconstruction.reduction == "token_mean"
        counts = {"generation": self.generated, "reconstruction": self.reconstructed if by_token else self.items,
                  "contrast": self.items, "bow": self.items}
        return {name: value / counts[name] for name, value in sums.items()}


class RewriteTask(BatchedTask):
    """Trains a rewriter on pairs; see ``models.common.training.Task``.

    The loss is generation + lambda_1 reconstruction + lambda_2 contrast for PGKPR, generation + the weighted bag of
    words for Latent-BOW, and generation for the others. Generation is a mean over target tokens of the step's whole
    batch, reconstruction one over tokens or items, contrast and bag over items; so their shares add up over
    micro-batches. The negatives of the contrast are those of the whole batch, however many micro-batches and processes
    it is cut for (``models.common.training.Contrasting``); validation pairs are contrasted in batches of the same size.

    Args:
        model: on its device.
        train: pairs of the training split, with keyword probabilities.
        validation: pairs of the validation split, whose keywords are fixed: probabilities of 0 and 1.
        learning_rate: of every parameter.
        micro_batch: pairs per forward pass in validation.
        batch_size: pairs that validation contrasts with each other; None for ``micro_batch``.
    """

    module: Rewriter
    train: PairBatches
    validation: PairBatches

    def __init__(self, model: Rewriter, train: PairBatches, validation: PairBatches, learning_rate: float,
                 micro_batch: int, batch_size: int | None = None) -> None:
        self.module, self.train, self.validation = model, train, validation
        self.learning_rate, self.batch_size = learning_rate, micro_batch
        self.contrasted = batch_size or micro_batch

    def lengths(self) -> list[int]:
        """Return the words of each training pair's texts, both together."""
        return (self.train.words["x"] + self.train.words["t"]).tolist()

    def load(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the padded tensors of ``items``, and what the model knows of them before it computes.

        See ``PairBatches.batch`` and ``Rewriter.planned``.
        """
        return dict(self.module.planned(self.train.batch(items)))

    def load_validation(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the same of validation pairs."""
        return dict(self.module.planned(self.validation.batch(items)))

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the loss of the step's batch, and its parts."""
        return self._loss(self._sums(batch), Totals.of(self.train, step.batch))

    @property
    def contrasts(self) -> bool:
        """Whether the loss has a contrast."""
        return self.module.contrasts

    def train_apart(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Return the share in the loss without the contrast, its parts, and what is contrasted of each pair (M, W)."""
        sums, vectors = self._apart(batch)
        return *self._loss(sums, Totals.of(self.train, step.batch)), vectors

    def contrast(self, vectors: Tensor, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted contrast of the pairs of a batch, of which these are the ``vectors`` (B, W)."""
        found = self.module.contrast(vectors, self.train.groups(step.batch).to(vectors.device)) / len(step.batch)
        return part_weights(self.module.config)["contrast"] * found, {"contrast": found}

    def validate(self) -> dict[str, float]:
        """Return the loss over all validation pairs, in the weights of training, and its parts."""
        whole = not self.contrasts or self.contrasted <= self.batch_size
        sums = self.validation_sums(self._sums) if whole else self._contrasted_sums()
        totals = Totals.of(self.validation, range(len(self.validation)))
        loss, parts = self._loss({name: torch.tensor(value, dtype=torch.float64) for name, value in sums.items()},
                                 totals)
        return {name: float(value) for name, value in {"loss": loss, **parts}.items()}

    def _sums(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return ``Rewriter.sums`` and, for a model that reads keywords, their number."""
        if not self.module.uses_keywords:
            return self.module.sums(batch, None)
        mask = training_mask(batch["p"], batch["x_lengths"], batch.get("repeat"))
        return {**self.module.sums(batch, mask), "keywords": mask.sum()}

    def _apart(self, batch: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Return :meth:`_sums` without the contrast, and what is contrasted."""
        if not self.module.uses_keywords:
            return self.module.apart(batch, None)
        mask = training_mask(batch["p"], batch["x_lengths"], batch.get("repeat"))
        sums, vectors = self.module.apart(batch, mask)
        return {**sums, "keywords": mask.sum()}, vectors

    def _contrasted_sums(self) -> dict[str, float]:
        """Return what :meth:`_sums` adds up to over validation pairs that are contrasted across forward passes."""
        total, count = PartSums(), len(self.validation)
        for first in range(0, count, self.contrasted):
            items, vectors = range(first, min(first + self.contrasted, count)), []
            for start in range(0, len(items), self.batch_size):
                sums, found = self._apart(moved(self.load_validation(items[start:start + self.batch_size]),
                                                self.module.device))
                total.add(sums)
                vectors.append(found)
            groups = self.validation.groups(items).to(self.module.device)
            total.add({"contrast": self.module.contrast(torch.cat(vectors), groups)})
        return total.read()

    def _loss(self, sums: Mapping[str, Tensor], totals: Totals) -> tuple[Tensor, dict[str, Tensor]]:
        keywords = {"keyword_share": sums["keywords"] / totals.words} if "keywords" in sums else {}
        parts = totals.means({name: value for name, value in sums.items() if name != "keywords"}, self.module.config)
        weights = part_weights(self.module.config)
        loss = torch.stack([weights[name] * value for name, value in parts.items()]).sum()
        return loss, {**parts, **keywords}


def part_weights(config: RewriterConfig) -> dict[str, float]:
    """Return the weight of each part of the loss that a model may have."""
    return {"generation": 1.0, "reconstruction": config.reconstruction.weight,
            "contrast": config.contrast.weight, "bow": 1.0}
