"""What a training pass of the HCL model returns."""

from dataclasses import dataclass

from torch import Tensor

from models.hcl.latent import Gaussian
from models.losses import gaussian_kl


@dataclass(frozen=True)
class KeywordOutput:
    """Keyword vectors of a batch and what the contrasts make of them.

    Attributes:
        u_in, u_out, u_imp: vectors of input, output and impostor keyword (B, d).
        mask: samples with an output keyword and an impostor (B,); what follows holds for these alone.
        s_out, s_imp: cosines to the anchor (B,).
        contrast: keyword contrast (B,).
        gap: how far the output keyword is ahead of the impostor, in units of the temperature (B,).
    """

    u_in: Tensor
    u_out: Tensor
    u_imp: Tensor
    mask: Tensor
    s_out: Tensor
    s_imp: Tensor
    contrast: Tensor
    gap: Tensor


@dataclass(frozen=True)
class LatentOutput:
    """Distributions over z and the distances between them.

    Attributes:
        prior, posterior, negative: p(z|x,u), q(z|x,y+), q(z|x,y-); ``negative`` is None without negatives.
        kl_dims: KL(q+ || p) by dimension (B, dz).
        d_pos, d_neg: KL(q+ || p) and KL(q- || p) as the contrast saw them (``dist_norm``) (B,); with K negatives
            per item, ``d_neg`` is (B, K) and ``negative`` (B, K, dz).
        instance: instance contrast (B,).
        has_negative: which negatives are real, (B,) or (B, K).
        gap: how far the true output is ahead of the nearest negative, in units of the temperature (B,).
        bow: bag-of-words loss, summed over tokens (B,).
    """

    prior: Gaussian
    posterior: Gaussian
    negative: Gaussian | None
    kl_dims: Tensor
    d_pos: Tensor
    d_neg: Tensor | None
    instance: Tensor | None
    has_negative: Tensor | None
    gap: Tensor | None
    bow: Tensor | None

    @property
    def kl(self) -> Tensor:
        """KL(q+ || p), summed over dimensions (B,)."""
        return self.kl_dims.sum(-1)

    @property
    def instance_mask(self) -> Tensor | None:
        """Samples with a real negative (B,)."""
        if self.has_negative is None or self.has_negative.dim() == 1:
            return self.has_negative
        return self.has_negative.any(-1)

    @property
    def kl_negative(self) -> Tensor | None:
        """KL(q- || p), summed over dimensions, (B,) or (B, K)."""
        if self.negative is None:
            return None
        mu, logvar = self.prior.mu, self.prior.logvar
        if self.negative.mu.dim() == 3:
            mu, logvar = mu.unsqueeze(1), logvar.unsqueeze(1)
        return gaussian_kl(self.negative.mu, self.negative.logvar, mu, logvar)


@dataclass(frozen=True)
class LevelOutput:
    """The contrast between levels.

    Attributes:
        v_out, v_imp: output and impostor keyword in latent space (B, dz).
        d_out, d_imp: their Mahalanobis distances to q(z|x,y+), as the contrast saw them (B,).
        contrast: Mahalanobis contrast (B,), under ``KeywordOutput.mask``.
        gap: how far the output keyword is ahead of the impostor, in units of the temperature (B,).
    """

    v_out: Tensor
    v_imp: Tensor
    d_out: Tensor
    d_imp: Tensor
    contrast: Tensor
    gap: Tensor


@dataclass(frozen=True)
class HclOutput:
    """Per-sample parts of a batch, before any weighting; a part that the configuration leaves out is None.

    Attributes:
        reconstruction: -log p(y+ | x, z), summed over the target's tokens (B,).
        tokens: predicted tokens of each target (B,).
        latent: None for the deterministic backbone.
        keyword: None without keyword.
        level: None unless there are both.
    """

    reconstruction: Tensor
    tokens: Tensor
    latent: LatentOutput | None
    keyword: KeywordOutput | None
    level: LevelOutput | None
