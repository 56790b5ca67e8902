"""SimCTG's contrastive training (Su et al. 2022, eq. 2): tokens of a text are to have unlike states."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from models.common.losses import at_least_float32
from models.common.task import Step
from models.hcl.baselines.base import Batch
from models.hcl.baselines.dialogpt import DialoGpt


class SimCtg(DialoGpt):
    """DialoGPT's model and sequence, with the contrast between tokens in its objective.

    Its configuration holds ``mean_target_length``: the paper adds a mean over tokens and the contrast,
    so the contrast counts as many times as a target has tokens beside the sum over tokens.
    """

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return the loss of each item (B,), and its parts."""
        config: Any = self.config
        states, real = self.states(batch)
        nll, contrast = self.of_targets(states, batch), token_contrast(states, real)
        return {"loss": nll + config.mean_target_length * contrast, "reconstruction": nll,
                "contrast": config.mean_target_length * contrast}


def token_contrast(states: Tensor, real: Tensor, margin: float = 0.5) -> Tensor:
    """How alike the states of different tokens of a text are, above a margin.

    In words: for each ordered pair of its tokens, max(0, margin - 1 + cosine), 1 being a token's cosine to itself; the
    mean over these pairs.

    Args:
        states: of tokens (B, L, d).
        real: True for real tokens (B, L).
        margin: rho; cosines below 1 - rho cost nothing.

    Returns:
        Loss per text (B,), between 0 and rho; 0 for a text of one token.

    References:
        Su et al. 2022, eq. 2.

    Example:
        >>> token_contrast(torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]), torch.ones(1, 3, dtype=torch.bool))
        tensor([0.1667])
    """
    (states,) = at_least_float32(states)
    with torch.autocast(states.device.type, enabled=False):
        directions = F.normalize(states, dim=-1)
        costs = (margin - 1 + directions @ directions.transpose(1, 2)).clamp(min=0)  # (B, L, L)
    pairs = real.unsqueeze(1) & real.unsqueeze(2) & ~torch.eye(real.shape[1], dtype=torch.bool, device=real.device)
    return costs.masked_fill(~pairs, 0.0).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1)
