"""Contrast between levels: distances of output and impostor keyword to the posterior of the true pair."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from models.common.losses import mahalanobis, mahalanobis_contrast
from models.hcl.alarms import Alarm, Row, holds_since
from models.hcl.contrasts.contrast import Contrast
from models.hcl.latent import in_full
from models.hcl.output import BatchTotals, Contrasted, KeywordOutput, LatentOutput

if TYPE_CHECKING:
    from models.hcl.network import HclNetwork

# Distances go by 1 / s^2: at this fall of mean log s (half of log 2) all of them have doubled, and no vector moved.
SHRUNK_LOG_SIGMA = 0.35


class MahalanobisContrast(Contrast):
    """The output keyword, mapped to the latent space by a learned P, should be nearer to q(z|x,y+) than the impostor.

    Samples without an impostor take no part.
    """

    name = "mahalanobis"
    defaults = {"weight": 1.0, "temperature": 0.5}
    needs_latent = needs_keyword = two_sided = True
    modules = {"keyword_points": lambda config: nn.Linear(config.hidden_size, config.latent_size, bias=False)}  # P

    def of(self, network: "HclNetwork", keyword: KeywordOutput | None,
           latent: LatentOutput | None) -> Contrasted | None:
        """Return the contrast, with the two keywords in latent space (B, 2, dz)."""
        assert keyword is not None and latent is not None
        temperature = network.config.contrasts[self.name]["temperature"]
        points = in_full(cast(nn.Linear, network.keyword_points), torch.stack([keyword.u_out, keyword.u_imp], dim=1))
        mu, logvar = latent.posterior.mu.unsqueeze(1), latent.posterior.logvar.unsqueeze(1)
        # (B, 2); of a mean over dimensions, since a sum under their number times the temperature is the same
        distances = mahalanobis(points, mu, logvar)
        d_out, d_imp = distances.unbind(1)
        loss = mahalanobis_contrast(d_out, d_imp, temperature)
        return Contrasted(d_out, d_imp, loss, (d_imp - d_out) / temperature, keyword.mask, points)

    def count(self, totals: BatchTotals) -> int:
        """Return the number of samples with an impostor."""
        return totals.impostors

    def alarms(self, rows: Sequence[Row]) -> list[Alarm]:
        """Return an alarm if the contrast fell by a spread that shrank, which moves no vector."""
        spread, contrast = "train_mean_log_sigma", f"train_{self.name}"
        known = [row for row in rows if spread in row and contrast in row]
        if len(known) < 2:
            return []
        first, last = known[0], known[-1]
        epoch = holds_since(known, (spread,), lambda row: row[spread] < first[spread] - SHRUNK_LOG_SIGMA)
        if epoch is None or last[contrast] >= first[contrast]:
            return []
        return [Alarm(
            "spread_shrinking", epoch,
            f"mean log s of the posterior fell from {first[spread]:.3g} to {last[spread]:.3g} while the Mahalanobis "
            f"contrast fell from {first[contrast]:.3g} to {last[contrast]:.3g}: both distances grow as s shrinks, so "
            f"the contrast may fall without any vector moving",
            "compare with contrasts.mahalanobis.weight 0; raise contrasts.mahalanobis.temperature or lower its weight, "
            "so that the KL term holds the spread (it does not keep posterior and prior from narrowing together)",
        )]
