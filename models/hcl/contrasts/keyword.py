"""Contrast between keywords: cos(u_in, u_out) against cos(u_in, u_imp)."""

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from models.common.losses import keyword_contrast
from models.hcl.contrasts.contrast import Contrast
from models.hcl.output import BatchTotals, Contrasted, KeywordOutput, LatentOutput

if TYPE_CHECKING:
    from models.hcl.config import HclConfig
    from models.hcl.network import HclNetwork

_SHORTEST = 1e-8  # a zero vector has cosine 0 to everything


class KeywordContrast(Contrast):
    """Input and output keyword should be more alike than input and impostor; those without impostor take no part."""

    name = "keyword"
    defaults = {"weight": 1.0, "temperature": 0.1}
    needs_keyword = two_sided = True

    def of(self, network: "HclNetwork", keyword: KeywordOutput | None,
           latent: LatentOutput | None) -> Contrasted | None:
        """Return the contrast."""
        assert keyword is not None
        vectors = torch.stack([keyword.u_in, keyword.u_out, keyword.u_imp])  # (3, B, d)
        unit = F.normalize(vectors, dim=-1, eps=_SHORTEST)
        s_out, s_imp = (unit[0] * unit[1:]).sum(-1).unbind()  # (B,)
        temperature = network.config.contrasts[self.name]["temperature"]
        loss = keyword_contrast(s_out, s_imp, temperature)
        return Contrasted(s_out, s_imp, loss, (s_out - s_imp) / temperature, keyword.mask)

    def count(self, totals: BatchTotals) -> int:
        """Return the number of samples with an impostor."""
        return totals.impostors

    def advice_if_stuck(self, config: "HclConfig") -> str:
        """Return what to try; without graph attention there is nothing that could move."""
        if config.graph["iterations"] > 0:
            return super().advice_if_stuck(config)
        return ("without graph attention (graph.iterations 0) keyword vectors are the constants h0, and the contrast "
                "has nothing to move: set its weight to 0, which changes no other term, or bring the graph back")
