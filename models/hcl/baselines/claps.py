"""T5-CLAPS (Lee et al. 2021): T5 with two adversarial views of the decoder's states as contrast."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.common.encoders import mean_pool
from models.common.task import Step
from models.hcl.baselines.base import Batch
from models.hcl.baselines.library import item_nll
from models.hcl.baselines.t5 import T5


class T5Claps(T5):
    """A T5 that is trained as :class:`Claps` says; its configuration holds ``mean_target_length``."""

    def trainee(self) -> nn.Module:
        """Return the model with the projection that its contrast compares texts by, freshly drawn."""
        config: Any = self.config
        return Claps(self, config.mean_target_length)


class Claps(nn.Module):
    """Objective of CLAPS: -log p(y | x) / |y| + (near + far) / 2, where |y| is the mean length of targets.

    H are the states from which words are scored. Their near view raises the NLL by a small step, and so stands for a
    wrong target that looks like the right one; the far view goes away from the source by a large step, and back to
    what predicts the same words. Targets and sources are compared by the cosine of z, the mean over real tokens of
    ReLU(W . + b), W one for both. The items of one micro-batch are each other's negatives.

    Args:
        model: whose states are perturbed.
        mean_target_length: of the training targets, end token included.

    Attributes:
        temperature: of both contrasts; the released code leaves it out of the second.
        small, large: lengths of the steps to the near and to the far view, as in the released code.
    """

    temperature, small, large = 0.1, 1.0, 3.0

    def __init__(self, model: T5, mean_target_length: float) -> None:
        super().__init__()
        self.model, self.mean_target_length = model, mean_target_length
        self.projection = nn.Linear(model.config.d_model, model.config.d_model).to(model.device)

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.model.device

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return the loss of each item (B,), times |y|, and its parts."""
        encoded, states = self.model.states(batch)
        real = batch["y_in_mask"]
        nll = item_nll(self.model.lm_head(states), batch["y_out"], real)
        with torch.autocast(states.device.type, enabled=False):
            encoded, states = encoded.float(), states.float()
            source = self.pooled(encoded, batch["x_mask"])
            near, far = self.contrasts(source, states, *self.views(source, states, batch["y_out"], real), real)
        contrast = self.mean_target_length / 2 * (near + far)
        return {"loss": nll + contrast, "reconstruction": nll, "contrast": contrast}

    def pooled(self, states: Tensor, real: Tensor) -> Tensor:
        """Return z (B, d) of states (B, L, d)."""
        return mean_pool(F.relu(self.projection(states)), real)

    def contrasts(self, source: Tensor, states: Tensor, near: Tensor, far: Tensor,
                  real: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross-entropies (B,) of finding a target, or its far view, beside other targets and the near view.

        Args:
            source: z of the sources (B, d).
            states: H (B, T, d).
            near: H of the near view (B, T, d).
            far: H of the far view (B, T, d).
            real: True for real tokens (B, T).
        """
        own = torch.arange(len(source), device=source.device)
        wrong = F.cosine_similarity(source, self.pooled(near, real)).unsqueeze(1)  # (B, 1)
        between = cosines(source, self.pooled(states, real))  # (B, B)
        beyond = torch.where(torch.eye(len(own), dtype=torch.bool, device=own.device),
                             F.cosine_similarity(source, self.pooled(far, real)).unsqueeze(1), between)
        logits = (torch.cat([scores, wrong], dim=1) for scores in (between, beyond))
        first, second = (F.cross_entropy(found / self.temperature, own, reduction="none") for found in logits)
        return first, second

    def views(self, source: Tensor, states: Tensor, targets: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Return both views of H (B, T, d): the near one, and the far one after its way back.

        Gradients are taken on detached states, so that no parameter has any part in them, and the steps are constants.
        """
        with torch.enable_grad():
            fixed = states.detach()
            near = step_of(self.small, fixed, lambda h: self.nll(h, targets, real), real)
            away = step_of(self.large, fixed, lambda h: self.unlikeness(source.detach(), h, real), real)
            back = step_of(self.large, fixed + away, lambda h: self.divergence(fixed, h, real), real)
        return states + near, states + away - back

    def nll(self, states: Tensor, targets: Tensor, real: Tensor) -> Tensor:
        """Return -log p of ``targets`` (B, T) from H, over all items."""
        return item_nll(self.model.lm_head(states), targets, real).sum()

    def unlikeness(self, source: Tensor, states: Tensor, real: Tensor) -> Tensor:
        """Return the cross-entropy of finding each source's target, over all items: L_cont."""
        scores = cosines(source, self.pooled(states, real)) / self.temperature
        return F.cross_entropy(scores, torch.arange(len(source), device=source.device), reduction="sum")

    def divergence(self, states: Tensor, moved: Tensor, real: Tensor) -> Tensor:
        """Return KL(p(. | H) || p(. | moved H)), over all real tokens."""
        before, after = (F.log_softmax(self.model.lm_head(each), dim=-1) for each in (states, moved))
        return F.kl_div(after, before, reduction="none", log_target=True).sum(-1).masked_fill(~real, 0.0).sum()


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """Return the cosine of each row of ``left`` (B, d) and each of ``right`` (C, d) -> (B, C)."""
    return F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).T


def step_of(length: float, states: Tensor, value: Callable[[Tensor], Tensor], real: Tensor) -> Tensor:
    """Return the step (B, T, d) of this length per real token along which ``value`` of ``states`` rises fastest.

    A token that has no influence, and padding, stay where they are.
    """
    at = states.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(value(at), at)
    gradient = gradient.masked_fill(~real.unsqueeze(-1), 0.0)
    gradient = gradient / gradient.abs().amax(-1, keepdim=True).clamp(min=1e-30)  # squares of small ones would vanish
    return length * F.normalize(gradient, dim=-1)
