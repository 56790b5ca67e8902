"""The three contrasts of a batch: which distance or similarity goes into which loss (METHODS A.6)."""

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

    Raises:
        ValueError: negatives are given without ``has_negative``.
    """
    divisor = config.latent_size if config.contrasts["dist_norm"] == "dim" else 1
    kl_dims = gaussian_kl_dims(posterior.mu, posterior.logvar, prior.mu, prior.logvar)  # (B, dz)
    d_pos = kl_dims.sum(-1) / divisor
    if negative is None:
        return LatentOutput(prior, posterior, None, kl_dims, d_pos, None, None, None, bow)
    if has_negative is None:
        raise ValueError("HclModel: a batch with neg_ids needs has_negative (B,)")
    d_neg = gaussian_kl_dims(negative.mu, negative.logvar, prior.mu, prior.logvar).sum(-1) / divisor
    loss = instance_contrast(d_pos, d_neg, config.contrasts["instance"]["temperature"])
    return LatentOutput(prior, posterior, negative, kl_dims, d_pos, d_neg, loss, has_negative.bool(), bow)


def keyword_output(config: HclConfig, u_in: Tensor, u_out: Tensor, u_imp: Tensor, mask: Tensor) -> KeywordOutput:
    """Contrast between keywords: cos(u_in, u_out) against cos(anchor, u_imp)."""
    u_in, u_out, u_imp = at_least_float32(u_in, u_out, u_imp)
    anchor = u_in if config.keyword["kw_anchor"] == "input" else u_out
    s_out, s_imp = F.cosine_similarity(u_in, u_out, dim=-1), F.cosine_similarity(anchor, u_imp, dim=-1)  # (B,)
    loss = keyword_contrast(s_out, s_imp, config.contrasts["keyword"]["temperature"])
    return KeywordOutput(u_in, u_out, u_imp, mask, s_out, s_imp, loss)


def level_output(config: HclConfig, posterior: Gaussian, v_out: Tensor, v_imp: Tensor) -> LevelOutput:
    """Contrast between levels: distances of output and impostor keyword to the posterior of the true pair."""
    settings = config.contrasts["mahalanobis"]
    options = {"form": settings["form"], "sqrt": settings["sqrt"], "per_dim": config.contrasts["dist_norm"] == "dim"}
    d_out = mahalanobis(v_out, posterior.mu, posterior.logvar, **options)
    d_imp = mahalanobis(v_imp, posterior.mu, posterior.logvar, **options)
    return LevelOutput(v_out, v_imp, d_out, d_imp, mahalanobis_contrast(d_out, d_imp, settings["temperature"]))
