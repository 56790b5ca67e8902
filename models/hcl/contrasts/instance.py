"""Contrast between instances: KL(q(z|x,y+) || p) against KL(q(z|x,y-) || p), never annealed."""

from typing import TYPE_CHECKING

from models.common.losses import instance_contrast
from models.hcl.contrasts.contrast import Contrast
from models.hcl.output import BatchTotals, Contrasted, KeywordOutput, LatentOutput

if TYPE_CHECKING:
    from models.hcl.network import HclNetwork


class InstanceContrast(Contrast):
    """The true output should be nearer to the prior than the negative; those without a negative take no part."""

    name = "instance"
    defaults = {"weight": 1.0, "temperature": 0.1}
    needs_latent = True

    def of(self, network: "HclNetwork", keyword: KeywordOutput | None,
           latent: LatentOutput | None) -> Contrasted | None:
        """Return the contrast; None for a batch without negatives."""
        if latent is None or latent.d_neg is None or latent.has_negative is None:
            return None
        temperature = network.config.contrasts[self.name]["temperature"]
        loss = instance_contrast(latent.d_pos, latent.d_neg, temperature)
        gap = (latent.d_neg - latent.d_pos) / temperature
        return Contrasted(latent.d_pos, latent.d_neg, loss, gap, latent.has_negative)

    def count(self, totals: BatchTotals) -> int:
        """Return the number of samples with a negative."""
        return totals.negatives
