"""What a training pass of the HCL model returns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from models.common.losses import gaussian_kl, gaussian_kl_dims
from models.hcl.latent import Gaussian

if TYPE_CHECKING:
    from models.hcl.config import HclConfig


@dataclass(frozen=True)
class KeywordOutput:
    """Keyword vectors of a batch.

    Attributes:
        u_in, u_out, u_imp: vectors of input, output and impostor keyword (B, d).
        mask: samples with an output keyword and an impostor (B,).
        likeness: cosines to the output keyword of impostor, hardest and easiest candidate, without gradient (3, B).
    """

    u_in: Tensor
    u_out: Tensor
    u_imp: Tensor
    mask: Tensor
    likeness: Tensor


@dataclass(frozen=True)
class LatentOutput:
    """Distributions over z and the distances between them.

    Attributes:
        prior, posterior, negative: p(z|x,u), q(z|x,y+), q(z|x,y-); ``negative`` is None without negatives.
        kl_dims: KL(q+ || p) by dimension (B, dz).
        d_pos, d_neg: KL(q+ || p) and KL(q- || p) as the contrast sees them, per dimension (B,).
        has_negative: which negatives are real (B,).
        bow: bag-of-words loss, summed over tokens (B,).
    """

    prior: Gaussian
    posterior: Gaussian
    negative: Gaussian | None
    kl_dims: Tensor
    d_pos: Tensor
    d_neg: Tensor | None
    has_negative: Tensor | None
    bow: Tensor | None

    @classmethod
    def of(cls, config: "HclConfig", prior: Gaussian, texts: Gaussian, has_negative: Tensor | None,
           bow: Tensor | None) -> "LatentOutput":
        """Return the output of the prior and the posteriors of true and, if there are any, negative outputs.

        ``texts`` holds these posteriors (B, 1 or 2, dz).

        Raises:
            ValueError: negatives are given without ``has_negative``.
        """
        all_dims = gaussian_kl_dims(texts.mu, texts.logvar, prior.mu.unsqueeze(1), prior.logvar.unsqueeze(1))
        distances, posterior = all_dims.sum(-1) / config.latent_size, texts.of_text(0)  # (B, 1 or 2), (B, dz)
        kl_dims, d_pos = all_dims[:, 0], distances[:, 0]
        if texts.mu.shape[1] == 1:
            return cls(prior, posterior, None, kl_dims, d_pos, None, None, bow)
        if has_negative is None:
            raise ValueError("HclModel: a batch with neg_ids needs has_negative (B,)")
        return cls(prior, posterior, texts.of_text(1), kl_dims, d_pos, distances[:, 1], has_negative.bool(), bow)

    @property
    def kl(self) -> Tensor:
        """KL(q+ || p), summed over dimensions (B,)."""
        return self.kl_dims.sum(-1)

    @property
    def kl_negative(self) -> Tensor | None:
        """KL(q- || p), summed over dimensions (B,)."""
        if self.negative is None:
            return None
        return gaussian_kl(self.negative.mu, self.negative.logvar, self.prior.mu, self.prior.logvar)


@dataclass(frozen=True)
class Contrasted:
    """What a contrast makes of a batch.

    Attributes:
        right, wrong: distance or similarity of each sample's right and wrong candidate (B,).
        loss: of each sample (B,).
        gap: how far the right candidate is ahead of the wrong one, in units of the temperature (B,).
        mask: samples that take part (B,); all else holds for these alone.
        points: the right and the wrong candidate, if they are points of the latent space (B, 2, dz).
    """

    right: Tensor
    wrong: Tensor
    loss: Tensor
    gap: Tensor
    mask: Tensor
    points: Tensor | None = None


@dataclass(frozen=True)
class HclOutput:
    """Per-sample parts of a batch, before any weighting; a part that the configuration leaves out is None.

    Attributes:
        hidden: encoder states of the input (B, Lx, d).
        reconstruction: -log p(y+ | x, z), summed over the target's tokens (B,).
        tokens: predicted tokens of each target (B,).
        latent: None for the deterministic backbone.
        keyword: None without keyword.
        contrasts: by name, those of which the model and the batch have all that they read, in the order of
            :data:`models.hcl.contrasts.CONTRASTS`, whatever their weight.
    """

    hidden: Tensor
    reconstruction: Tensor
    tokens: Tensor
    latent: LatentOutput | None
    keyword: KeywordOutput | None
    contrasts: dict[str, Contrasted]


@dataclass(frozen=True)
class BatchTotals:
    """Sizes of a whole batch, by which the sums of its micro-batches are divided.

    Attributes:
        items: samples.
        negatives: samples with a negative output.
        impostors: samples with an impostor keyword.
    """

    items: int
    negatives: int
    impostors: int

    @classmethod
    def of(cls, output: HclOutput) -> "BatchTotals":
        """Return the sizes of the batch that gave ``output``."""
        latent, keyword = output.latent, output.keyword
        negatives = None if latent is None else latent.has_negative
        return cls(
            items=len(output.reconstruction),
            negatives=0 if negatives is None else int(negatives.sum()),
            impostors=0 if keyword is None else int(keyword.mask.sum()),
        )
