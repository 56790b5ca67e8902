"""The latent variable: Gaussians given the input text and one more vector, and how z enters the decoder."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.common.losses import at_least_float32, gaussian_kl, gaussian_kl_dims
from models.hcl.config import HclConfig

LOGVAR_RANGE = (-8.0, 8.0)
_SHORTEST = 1e-12  # mean square beside which that of a vector counts as none


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
    def of(cls, config: HclConfig, prior: Gaussian, texts: Gaussian, has_negative: Tensor | None,
           bow: Tensor | None) -> "LatentOutput":
        """Return the output of the prior and the posteriors (B, 1 or 2, dz) of true and, if any, negative outputs."""
        all_dims = gaussian_kl_dims(texts.mu, texts.logvar, prior.mu.unsqueeze(1), prior.logvar.unsqueeze(1))
        distances, posterior = all_dims.sum(-1) / config.latent.size, texts.of_text(0)  # (B, 1 or 2), (B, dz)
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


def in_full(layer: nn.Linear, values: Tensor) -> Tensor:
    """Apply ``layer`` in the precision of its weights, under autocast too."""
    with torch.autocast(values.device.type, enabled=False):
        return layer(values.to(layer.weight.dtype))


def unit_scale(vectors: Tensor) -> Tensor:
    """Return ``vectors`` (..., d) scaled to a root mean square of 1, in float32 at least."""
    (vectors,) = at_least_float32(vectors)
    return vectors * torch.rsqrt(vectors.square().mean(-1, keepdim=True) + _SHORTEST)


def free_bits_kl(kl_dims: Tensor, nats: float, by: str = "dimension") -> Tensor:
    """KL of a batch (B, dz) of which ``nats`` are free: of each dimension's mean its share, or of their sum all.

    Below its share a dimension has zero gradient; in ``total`` all dimensions have theirs as soon as the sum is above,
    and none before (Kingma et al. 2016, sect. C.8). The mean is over the samples given, such as a micro-batch.
    """
    (kl_dims,) = at_least_float32(kl_dims)
    mean = kl_dims.mean(0)  # (dz,)
    return mean.sum().clamp(min=nats) if by == "total" else mean.clamp(min=nats / len(mean)).sum()


def mahalanobis(points: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    """Mean over dimensions of (v - mu)^2 / sigma^2 (B,), for points v (B, dz); 1 is expected of a draw.

    HCL section 3.2.3, with the inverse that is missing in print.
    """
    points, mu, logvar = at_least_float32(points, mu, logvar)
    return ((points - mu).square() * torch.exp(-logvar)).mean(-1)


class GaussianNetwork(nn.Module):
    """MLP([h_x ; v]) -> mu, log variance: the prior with v = u_in, the posterior with v = h_y.

    One hidden tanh layer of width max(2 dz, 100), as in Zhao et al. 2017, in the precision of its weights under
    autocast too: the contrasts live on small differences between distances of these Gaussians. The two halves of its
    input matrix are two layers, so that the ablation without keyword leaves one out and all rows start from the same
    weights.

    ``scaled`` reads both vectors at a root mean square of 1: graph attention with LayerNorm gives keywords a length of
    sqrt(d), 19.6 at d = 384, where pooled texts have about 6, and the prior would read the keyword three times as loud.
    """

    def __init__(self, width: int, size: int, scaled: bool = False) -> None:
        super().__init__()
        self.scaled, hidden = scaled, max(2 * size, 100)
        self.of_text = nn.Linear(width, hidden)
        self.of_condition = nn.Linear(width, hidden, bias=False)
        self.output = nn.Linear(hidden, 2 * size)

    def forward(self, h_x: Tensor, condition: Tensor | None) -> Gaussian:
        """Return the Gaussian given ``h_x`` and ``condition`` (B, d), or the text alone; (B, K, d) for K texts."""
        if self.scaled:
            h_x, condition = unit_scale(h_x), None if condition is None else unit_scale(condition)
        hidden = in_full(self.of_text, h_x)
        if condition is not None:
            hidden = hidden + in_full(self.of_condition, condition)
        mu, logvar = in_full(self.output, torch.tanh(hidden)).chunk(2, dim=-1)  # (B, dz) each
        return Gaussian(mu, logvar.clamp(*LOGVAR_RANGE))


_SMALLEST_VARIANCE = 1e-5  # beside which a dimension's variance over a batch counts as none


class Posterior(GaussianNetwork):
    """q(z | x, y): a :class:`GaussianNetwork` whose means may be normalised, and may stand relative to the prior's.

    ``relative``: mu_q = mu_p + sigma_p r, log sigma_q = log sigma_p + s, where r and s are what the network says
    (Vahdat & Kautz 2020). KL depends on r and s alone, and so teaches the posterior alone.

    ``batch_norm`` gamma: the means have standard deviation gamma over a batch in every dimension (BN-VAE, Zhu et al.
    2020); an ``absolute`` one has a learnt shift besides, of a ``relative`` one r is normalised. The statistics are
    those of the true outputs, also for negatives: in training of the micro-batch, in evaluation mode those of
    :meth:`calibrate`, 0 and 1 before.
    """

    def __init__(self, width: int, size: int, relative: bool = False, gamma: float = 0.0) -> None:
        super().__init__(width, size)
        self.relative, self.gamma = relative, gamma
        if gamma > 0:
            self.register_buffer("mean", torch.zeros(size))
            self.register_buffer("variance", torch.ones(size))
        if gamma > 0 and not relative:
            self.shift = nn.Parameter(torch.zeros(size))  # beta of the batch normalisation

    def given(self, h_x: Tensor, texts: Tensor, prior: Gaussian) -> Gaussian:
        """Return the Gaussians (B, K, dz) of texts (B, K, d), of which in training the first is the true output."""
        found = self(h_x.unsqueeze(1), texts)
        mu, logvar = found.mu, found.logvar
        if self.gamma > 0:
            mu = self._normalised(mu)
        if self.relative:
            mean, log_variance = prior.mu.unsqueeze(1), prior.logvar.unsqueeze(1)
            mu = mean + torch.exp(0.5 * log_variance) * mu
            logvar = (log_variance + logvar).clamp(*LOGVAR_RANGE)
        return Gaussian(mu, logvar)

    def _normalised(self, mu: Tensor) -> Tensor:
        mean, variance = self.get_buffer("mean"), self.get_buffer("variance")
        if self.training:
            variance, mean = torch.var_mean(mu[:, 0], dim=0, correction=0)
        scaled = self.gamma * (mu - mean) * torch.rsqrt(variance + _SMALLEST_VARIANCE)
        return scaled if self.relative else scaled + self.shift

    @torch.no_grad()
    def calibrate(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Set the statistics of evaluation mode to those of ``pairs``: h_x (B, d) and h_y (B, d) of true outputs.

        No running averages, which would follow the order of steps and the number of processes.
        """
        mu = torch.cat([self(h_x, h_y).mu for h_x, h_y in pairs])
        variance, mean = torch.var_mean(mu, dim=0, correction=0)
        self.get_buffer("mean").copy_(mean)
        self.get_buffer("variance").copy_(variance)


# Length at the start, where z is noise, in units of what W z is added to.
_ADDED = 0.15


class LatentEntry(nn.Module):
    """Learned maps of z (B, dz) to the places where the decoder reads it.

    ``memory+embed``: a slot beside the encoder's states, [Wm z ; H_x], and We z added to every input embedding.
    ``layers``: Wl z added to the input of each layer. Slot and embedding exist always, so that models may start from
    each other.
    """

    def __init__(self, config: HclConfig) -> None:
        super().__init__()
        size, width = config.latent.size, config.hidden_size
        self.by_layer, self.layers = config.latent.enters == "layers", config.num_hidden_layers
        self.slot = nn.Linear(size, width)  # Wm
        self.embedding = nn.Linear(size, width, bias=False)  # We
        if self.by_layer:
            self.inputs = nn.Linear(size, self.layers * width, bias=False)  # Wl of all layers, one below the other

    @torch.no_grad()
    def hush(self, words: Tensor) -> None:
        """Scale the maps to the word embeddings ``words`` (V, d), given that z is noise of variance 1.

        Else the image of z is several times as long as a word embedding, and the decoder sees no word.
        """
        maps = [(self.embedding, _ADDED * words.std())]
        if self.by_layer:
            maps.append((self.inputs, torch.tensor(_ADDED)))  # states are normalised to 1
        for layer, length in maps:
            layer.weight.mul_(length / (layer.weight.std() * layer.weight.shape[1] ** 0.5))

    def memory_slots(self, z: Tensor) -> list[Tensor]:
        """Return the slots (B, d) that join the memory."""
        return [] if self.by_layer else [self.slot(z)]

    def embedded(self, embedded: Tensor, z: Tensor) -> Tensor:
        """Return input embeddings (B, L, d) with z in them."""
        return embedded if self.by_layer else embedded + self.embedding(z).unsqueeze(1)

    def layer_inputs(self, z: Tensor) -> Sequence[Tensor] | None:
        """Return what is added to the input of each layer (B, 1, d); None where z enters otherwise."""
        return self.inputs(z).unsqueeze(1).chunk(self.layers, dim=-1) if self.by_layer else None
