"""The latent variable: diagonal Gaussians whose parameters depend on the input text and one more vector."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

LOGVAR_RANGE = (-8.0, 8.0)


@dataclass(frozen=True)
class Gaussian:
    """Diagonal Gaussians of a batch: mean and log variance (B, dz) each, or (B, K, dz) for K texts per item."""

    mu: Tensor
    logvar: Tensor

    def of_text(self, number: int) -> "Gaussian":
        """Return the Gaussian of each item's text ``number`` (B, dz), out of (B, K, dz)."""
        return Gaussian(self.mu[:, number], self.logvar[:, number])

    def sample(self, eps: Tensor) -> Tensor:
        """Return z = mu + sigma * eps (B, dz), through which gradients pass (reparameterisation)."""
        return self.mu + torch.exp(0.5 * self.logvar) * eps


def in_full(layer: nn.Linear, values: Tensor) -> Tensor:
    """Apply ``layer`` in the precision of its weights, under autocast too."""
    with torch.autocast(values.device.type, enabled=False):
        return layer(values.to(layer.weight.dtype))


class GaussianNetwork(nn.Module):
    """MLP([h_x ; v]) -> mu, log variance: the prior with v = u_in, the posterior with v = h_y.

    Computed in the precision of its weights under autocast too: the contrasts live on small differences between
    distances of these Gaussians, which the eight bits of bfloat16 would round away.

    One hidden tanh layer of width max(2 dz, 100), as in Zhao et al. 2017. The two halves of its input
    matrix are two layers, so that the ablation without keyword leaves one out and all rows of a table start
    from the same weights.

    Args:
        width: d of both inputs.
        size: dz.
    """

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        hidden = max(2 * size, 100)
        self.of_text = nn.Linear(width, hidden)
        self.of_condition = nn.Linear(width, hidden, bias=False)
        self.output = nn.Linear(hidden, 2 * size)

    def forward(self, h_x: Tensor, condition: Tensor | None) -> Gaussian:
        """Return the Gaussian given ``h_x`` (B, d) and ``condition`` (B, d), or the text alone.

        With several conditions per text, (B, 1, d) and (B, K, d), the Gaussians are (B, K, dz).
        """
        hidden = in_full(self.of_text, h_x)
        if condition is not None:
            hidden = hidden + in_full(self.of_condition, condition)
        mu, logvar = in_full(self.output, torch.tanh(hidden)).chunk(2, dim=-1)  # (B, dz) each
        return Gaussian(mu, logvar.clamp(*LOGVAR_RANGE))
