"""Contrast between instances: KL(q(z|x,y+) || p) against KL(q(z|x,y-) || p), never annealed."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from models.common.losses import MULTI_NEG, instance_contrast
from models.hcl.contrasts.contrast import Contrast
from models.hcl.output import BatchTotals, Contrasted, KeywordOutput, LatentOutput

if TYPE_CHECKING:
    from models.hcl.network import HclNetwork


class InstanceContrast(Contrast):
    """The true output should be nearer to the prior than the negatives; those without a negative take no part."""

    name = "instance"
    defaults = {"weight": 1.0, "temperature": 0.1, "multi_neg": "infonce_negdist"}
    choices = {"multi_neg": MULTI_NEG}
    needs_latent = True

    def of(self, network: "HclNetwork", keyword: KeywordOutput | None,
           latent: LatentOutput | None) -> Contrasted | None:
        """Return the contrast; None for a batch without negatives."""
        if latent is None or latent.d_neg is None or latent.has_negative is None:
            return None
        settings, real = network.config.contrasts[self.name], latent.has_negative
        loss = instance_contrast(latent.d_pos, latent.d_neg, settings["temperature"], real, settings["multi_neg"])
        gap = (_nearest(latent.d_neg, real) - latent.d_pos) / settings["temperature"]
        mask = real if real.dim() == 1 else real.any(-1)
        return Contrasted(latent.d_pos, latent.d_neg, loss, gap, mask)

    def count(self, totals: BatchTotals) -> int:
        """Return the number of samples with a negative."""
        return totals.negatives


def _nearest(d_neg: Tensor, real: Tensor) -> Tensor:
    """Return the smallest distance of each sample's real negatives (B,); of a sample without, a number all the same."""
    if d_neg.dim() == 1:
        return d_neg
    return d_neg.masked_fill(~(real | ~real.any(-1, keepdim=True)), torch.inf).amin(-1)
