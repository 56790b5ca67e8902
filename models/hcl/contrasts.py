"""The three contrasts of a batch: which distance or similarity goes into which loss (METHODS A.6)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from models.hcl.config import HclConfig
from models.hcl.latent import Gaussian
from models.hcl.output import KeywordOutput, LatentOutput, LevelOutput
from models.losses import (
    at_least_float32,
    gaussian_kl_dims,
    instance_contrast,
    keyword_contrast,
    mahalanobis,
    mahalanobis_contrast,
)


def latent_output(
    config: HclConfig,
    prior: Gaussian,
    posterior: Gaussian,
    negative: Gaussian | None,
    has_negative: Tensor | None,
    bow: Tensor | None,
) -> LatentOutput:
    """Contrast between instances: KL(q(z|x,y+) || p) against KL(q(z|x,y-) || p), never annealed.

    ``negative`` holds one Gaussian per sample (B, dz), or K (B, K, dz) with ``has_negative`` (B, K).

    Raises:
        ValueError: negatives are given without ``has_negative``.
    """
    divisor = config.latent_size if config.contrasts["dist_norm"] == "dim" else 1
    kl_dims = gaussian_kl_dims(posterior.mu, posterior.logvar, prior.mu, prior.logvar)  # (B, dz)
    d_pos = kl_dims.sum(-1) / divisor
    if negative is None:
        return LatentOutput(prior, posterior, None, kl_dims, d_pos, None, None, None, None, bow)
    if has_negative is None:
        raise ValueError("HclModel: a batch with neg_ids needs has_negative, (B,) or (B, K) as neg_ids")
    mu, logvar = prior.mu, prior.logvar
    if negative.mu.dim() == 3:
        mu, logvar = mu.unsqueeze(1), logvar.unsqueeze(1)
    d_neg = gaussian_kl_dims(negative.mu, negative.logvar, mu, logvar).sum(-1) / divisor  # (B,) or (B, K)
    settings, real = config.contrasts["instance"], has_negative.bool()
    loss = instance_contrast(d_pos, d_neg, settings["temperature"], real, settings["multi_neg"])
    gap = (_nearest(d_neg, real) - d_pos) / settings["temperature"]
    return LatentOutput(prior, posterior, negative, kl_dims, d_pos, d_neg, loss, real, gap, bow)


def _nearest(d_neg: Tensor, real: Tensor) -> Tensor:
    """Return the smallest distance of each sample's real negatives (B,)."""
    return d_neg if d_neg.dim() == 1 else d_neg.masked_fill(~real, torch.inf).amin(-1)


def keyword_output(config: HclConfig, u_in: Tensor, u_out: Tensor, u_imp: Tensor, mask: Tensor) -> KeywordOutput:
    """Contrast between keywords: cos(u_in, u_out) against cos(anchor, u_imp)."""
    u_in, u_out, u_imp = at_least_float32(u_in, u_out, u_imp)
    anchor = u_in if config.keyword["kw_anchor"] == "input" else u_out
    s_out, s_imp = F.cosine_similarity(u_in, u_out, dim=-1), F.cosine_similarity(anchor, u_imp, dim=-1)  # (B,)
    temperature = config.contrasts["keyword"]["temperature"]
    loss = keyword_contrast(s_out, s_imp, temperature)
    return KeywordOutput(u_in, u_out, u_imp, mask, s_out, s_imp, loss, (s_out - s_imp) / temperature)


def level_output(config: HclConfig, posterior: Gaussian, v_out: Tensor, v_imp: Tensor) -> LevelOutput:
    """Contrast between levels: distances of output and impostor keyword to the posterior of the true pair."""
    settings = config.contrasts["mahalanobis"]
    options = {"form": settings["form"], "sqrt": settings["sqrt"], "per_dim": config.contrasts["dist_norm"] == "dim"}
    d_out = mahalanobis(v_out, posterior.mu, posterior.logvar, **options)
    d_imp = mahalanobis(v_imp, posterior.mu, posterior.logvar, **options)
    loss = mahalanobis_contrast(d_out, d_imp, settings["temperature"])
    return LevelOutput(v_out, v_imp, d_out, d_imp, loss, (d_imp - d_out) / settings["temperature"])
