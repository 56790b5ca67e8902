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

_SHORTEST = 1e-8  # a zero vector has cosine 0 to everything


def latent_output(
    config: HclConfig,
    prior: Gaussian,
    texts: Gaussian,
    has_negative: Tensor | None,
    bow: Tensor | None,
) -> LatentOutput:
    """Contrast between instances: KL(q(z|x,y+) || p) against KL(q(z|x,y-) || p), never annealed.

    ``texts`` holds the posteriors of the true output, first, and of K negatives (B, 1 + K, dz). There are none (K = 0),
    one per sample, or several with ``has_negative`` (B, K).

    Raises:
        ValueError: negatives are given without ``has_negative``.
    """
    divisor = config.latent_size if config.contrasts["dist_norm"] == "dim" else 1
    all_dims = gaussian_kl_dims(texts.mu, texts.logvar, prior.mu.unsqueeze(1), prior.logvar.unsqueeze(1))
    distances, posterior, kl_dims = all_dims.sum(-1) / divisor, texts.of_text(0), all_dims[:, 0]  # (B, 1 + K), (B, dz)
    if texts.mu.shape[1] == 1:
        return LatentOutput(prior, posterior, None, kl_dims, distances[:, 0], None, None, None, None, bow)
    if has_negative is None:
        raise ValueError("HclModel: a batch with neg_ids needs has_negative, (B,) or (B, K) as neg_ids")
    several, real = has_negative.dim() == 2, has_negative.bool()
    d_pos, d_neg = distances[:, 0], distances[:, 1:] if several else distances[:, 1]
    negative = Gaussian(texts.mu[:, 1:], texts.logvar[:, 1:]) if several else texts.of_text(1)
    settings = config.contrasts["instance"]
    loss = instance_contrast(d_pos, d_neg, settings["temperature"], real, settings["multi_neg"])
    gap = (_nearest(d_neg, real) - d_pos) / settings["temperature"]
    return LatentOutput(prior, posterior, negative, kl_dims, d_pos, d_neg, loss, real, gap, bow)


def _nearest(d_neg: Tensor, real: Tensor) -> Tensor:
    """Return the smallest distance of each sample's real negatives (B,); of a sample without, a number all the same."""
    if d_neg.dim() == 1:
        return d_neg
    return d_neg.masked_fill(~(real | ~real.any(-1, keepdim=True)), torch.inf).amin(-1)


def keyword_output(config: HclConfig, u_in: Tensor, u_out: Tensor, u_imp: Tensor, mask: Tensor) -> KeywordOutput:
    """Contrast between keywords: cos(u_in, u_out) against cos(anchor, u_imp)."""
    u_in, u_out, u_imp = at_least_float32(u_in, u_out, u_imp)
    unit = F.normalize(torch.stack([u_in, u_out, u_imp]), dim=-1, eps=_SHORTEST)  # (3, B, d)
    pairs = unit[0] * unit[1:] if config.keyword["kw_anchor"] == "input" else unit[1] * unit[::2]
    s_out, s_imp = pairs.sum(-1).unbind()  # (B,)
    temperature = config.contrasts["keyword"]["temperature"]
    loss = keyword_contrast(s_out, s_imp, temperature)
    return KeywordOutput(u_in, u_out, u_imp, mask, s_out, s_imp, loss, (s_out - s_imp) / temperature)


def level_output(config: HclConfig, posterior: Gaussian, points: Tensor) -> LevelOutput:
    """Contrast between levels: distances of output and impostor keyword to the posterior of the true pair.

    ``points`` are the two keywords in latent space (B, 2, dz).
    """
    settings = config.contrasts["mahalanobis"]
    distances = mahalanobis(points, posterior.mu.unsqueeze(1), posterior.logvar.unsqueeze(1), form=settings["form"],
                            sqrt=settings["sqrt"], per_dim=config.contrasts["dist_norm"] == "dim")  # (B, 2)
    (d_out, d_imp), (v_out, v_imp) = distances.unbind(1), points.unbind(1)
    loss = mahalanobis_contrast(d_out, d_imp, settings["temperature"])
    return LevelOutput(v_out, v_imp, d_out, d_imp, loss, (d_imp - d_out) / settings["temperature"])
