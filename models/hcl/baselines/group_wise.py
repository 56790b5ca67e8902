"""Group-wise contrastive learning (Cai et al. 2020, Group-wise Contrastive Learning for Neural Dialogue Generation).

A target model p_m learns on pairs by cross-entropy first; then a copy p_n of it is frozen, and p_m learns
to raise, against p_n, the probability of pairs that match, and to lower that of pairs that do not.
"""

import copy
import math

import torch
from torch import Tensor, nn

from models.common.task import Step
from models.hcl.baselines.base import Batch, OwnPieceModel
from models.hcl.baselines.transformer import PieceTransformer

_PRETRAINING = 5_000  # steps by likelihood alone, at most


def pair_loss(advantage: Tensor, match: Tensor) -> Tensor:
    """Return -log(1/2 + s (sigmoid(G) - 1/2)) of pairs, which draws sigmoid(G) to 1 for s of 1, and to 0 for -1.

    Args:
        advantage: G = log p_m(r | c) - log p_n(r | c), sums over all tokens, any shape.
        match: s in [-1, 1], of the same shape; 0 teaches nothing.
    """
    # 1/2 + s (h - 1/2) = (1 + s) / 2 h + (1 - s) / 2 (1 - h), whose terms' logarithms are stable
    towards = torch.log((1 + match) / 2) + nn.functional.logsigmoid(advantage)
    away = torch.log((1 - match) / 2) + nn.functional.logsigmoid(-advantage)
    return -torch.logaddexp(towards, away)


def contrast_share(step: float, speed: float) -> float:
    """Return a, the share of the contrast in the loss, so many steps after the reference was frozen."""
    return min(1.0, max(0.0, (math.tanh((step * speed - 3500) / 1000) + 1) / 2))


class GroupWise(PieceTransformer):
    """The target model: a Transformer as it is used; it is trained within :class:`GroupWiseTraining`.

    ``sizes`` is a block :class:`stages.tracks.hcl.params.GroupWise`. Training batches hold pairs besides, C other
    contexts of each item's own response and C other responses to its own context: ``cand_x_ids``, ``cand_x_mask``
    (B, 2, C, Lx), ``cand_y_in``, ``cand_y_out``, ``cand_y_in_mask`` (B, 2, C, T) and ``cand_score`` (B, 2, C).
    """

    def settled(self, total: int) -> int:
        """Return the step at which the reference is frozen: after a share of all steps, or 5,000 if that is less."""
        return min(_PRETRAINING, round(self.config.sizes["pretrain_share"] * total))

    def trainee(self) -> nn.Module:
        """Return the model with its reference."""
        return GroupWiseTraining(self)


class GroupWiseTraining(nn.Module):
    """The target model and its frozen reference, whose weights are buffers too, so that they survive in checkpoints."""

    def __init__(self, model: OwnPieceModel) -> None:
        super().__init__()
        self.model, self.frozen = model, copy.deepcopy(model).requires_grad_(False)
        for name, parameter in self.frozen.named_parameters():
            self.register_buffer(f"reference_{name.replace('.', '/')}", parameter.data)  # one memory

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.model.device

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return (1 - a) NLL + a times the contrast, as long as an item, and both parts, after pretraining by NLL."""
        begin = self.model.settled(step.total)
        since = step.number - begin
        if since < 0:
            return {"loss": self.model.nll(batch)}
        if since == 0:
            self.frozen.load_state_dict(self.model.state_dict())  # a copy of the target model as it is now
        nll, contrast = self.contrast(batch)
        speed = self.model.config.sizes["speed"] or 7000 / (step.total - begin)
        share = contrast_share(since, speed)
        # the contrast is a value per pair, the likelihood one per token: losses are divided by tokens later
        whole = (1 - share) * nll + share * self.model.config.mean_target_length * contrast
        return {"loss": whole, "reconstruction": nll, "group_contrast": contrast}

    def contrast(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return -log p_m(y | x) of observed pairs (B,), and the mean of the pair losses of each and its draws (B,)."""
        found, score = drawn(batch, self.model.config.sizes["sample_k"])
        pairs = self.model.planned(found)   # once for both
        own, reference = -self.model.nll(pairs), self.reference(pairs)
        count = len(batch["x_ids"])  # the observed pairs first, then one draw for every item
        match = torch.cat([torch.ones_like(own[:count]), 2 * score - 1])
        return -own[:count], pair_loss(own - reference, match).view(-1, count).mean(0)

    @torch.no_grad()
    def reference(self, batch: Batch) -> Tensor:
        """Return log p_n(y | x) (B,), dropout off."""
        return -self.frozen.eval().nll(batch)


def drawn(batch: Batch, count: int) -> tuple[dict[str, Tensor], Tensor]:
    """Return the observed pairs and ``count`` draws for each item, (B + count B) rows, and the scores of the draws.

    A draw takes either side with a chance of 1/2 and one of its candidates; it is from torch's generator.
    """
    scores = batch["cand_score"]
    items, _, candidates = scores.shape
    rows = torch.arange(items, device=scores.device).repeat(count)  # (count B,)
    side = torch.randint(2, (count * items,), device=scores.device)
    which = torch.randint(candidates, (count * items,), device=scores.device)
    found = {}
    for name in ("x_ids", "x_mask", "y_in", "y_out", "y_in_mask"):
        own, taken = batch[name], batch[f"cand_{name}"][rows, side, which]
        length = max(own.shape[1], taken.shape[1])
        found[name] = torch.cat([nn.functional.pad(part, (0, length - part.shape[1])) for part in (own, taken)])
    return found, scores[rows, side, which]
