"""CVAE (Zhao et al. 2017, Learning Discourse-level Diversity for Neural Dialog Models)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init

from models.common.decoding import Decodable, project_in_full
from models.common.losses import at_least_float32, bow_loss, gaussian_kl
from models.common.precision import recurrent
from models.common.rows import RealTokens
from models.common.task import Step
from models.hcl.baselines.base import Batch, OwnPieceModel, PieceConfig, item_sums, piece_nll
from models.hcl.baselines.recurrent import Given, RecurrentSteps, State, lengths_of, read

_BOUND = 0.08
_ANNEALING = 10_000  # steps
_LOGVAR = (-8.0, 8.0)  # our choice, as in HCL


class Cvae(OwnPieceModel):
    """A conditional variational autoencoder of GRUs, without attention, whose sizes are those of the released code.

    ``sizes`` is a block :class:`stages.tracks.hcl.params.Cvae`. One GRU, both ways, makes a vector of a text, its
    two last states; another reads that of the source as a context of one utterance, whose state is c (B, dc). The prior
    p(z | x) is a tanh layer of width max(2 dz, 100) and a linear one on c; the posterior q(z | x, y) one linear layer
    on [c; vector of y]. The decoder starts from a linear layer on [c; z], and the bag of words is predicted by tanh and
    a linear layer from the same. Texts are written from the prior's mean (our choice), as HCL's are.
    """

    def __init__(self, config: PieceConfig) -> None:
        super().__init__(config)
        sizes, words = config.sizes, config.vocab_size
        embedding, context, latent = sizes["embedding"], sizes["context"], sizes["latent"]
        vector, width, hidden = 2 * sizes["encoder"], sizes["width"], max(2 * latent, 100)
        self.noise_size = latent
        self.embedding = nn.Embedding(words, embedding)
        self.encoder = nn.GRU(embedding, sizes["encoder"], batch_first=True, bidirectional=True)
        self.context = nn.GRU(vector, context, batch_first=True)
        self.prior = nn.Sequential(nn.Linear(context, hidden), nn.Tanh(), nn.Linear(hidden, 2 * latent))
        self.posterior = nn.Linear(context + vector, 2 * latent)
        self.bridge = nn.Linear(context + latent, width)
        self.decoder = nn.GRU(embedding, width, batch_first=True)
        self.words = nn.Linear(width, words)
        self.bag = nn.Sequential(nn.Linear(context + latent, sizes["bag"]), nn.Tanh(), nn.Linear(sizes["bag"], words))
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw everything uniformly, as the released code does."""
        for parameter in module.parameters(recurse=False):
            init.uniform_(parameter, -_BOUND, _BOUND)

    def settled(self, total: int) -> int:
        """Return the step from which the KL counts in full."""
        return annealing_steps(self.config.sizes, total)

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with the places of target words, and the order in which its texts are read."""
        found = {**super().planned(batch)}
        for name in ("x", "y"):
            if f"{name}_mask" in batch and f"{name}_lengths" not in batch:
                found |= lengths_of(batch[f"{name}_mask"], name)
        return found

    def vector(self, batch: Batch, name: str) -> Tensor:
        """Return the last states of texts ``name`` of a planned batch, both ways (B, d)."""
        return read(self.encoder, self.embedding(batch[f"{name}_ids"]), batch, name)[1][0]

    def condition(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return c (B, dc), and mean and log variance of p(z | x) (B, dz)."""
        c = recurrent(self.context, self.vector(batch, "x").unsqueeze(1))[0][:, 0]
        return c, *_gaussian(self.prior(c))

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``reconstruction`` with z from the posterior, ``kl`` of it from the prior, and ``bow``, (B,) each."""
        batch = self.planned(batch)
        c, mu_p, logvar_p = self.condition(batch)
        mu, logvar = _gaussian(self.posterior(torch.cat([c, self.vector(batch, "y")], dim=-1)))
        noise = batch["eps"] if "eps" in batch else torch.randn_like(mu)
        given = torch.cat([c, mu + torch.exp(0.5 * logvar) * noise], dim=-1)
        states, _ = recurrent(self.decoder, self.embedding(batch["y_in"]), self.bridge(given).unsqueeze(0))
        tokens = RealTokens.given(batch, "y")
        cost = piece_nll(self.words(tokens.rows(states)), tokens.rows(batch["y_out"]))
        return {"reconstruction": item_sums(cost, tokens), "kl": gaussian_kl(mu, logvar, mu_p, logvar_p),
                "bow": bow_loss(self.bag(given), batch["y_out"], batch["y_in_mask"].bool())}

    def nll(self, batch: Batch) -> Tensor:
        """Return a bound above -log p(y | x) of each item (B,): reconstruction plus the whole KL."""
        return self.validation(batch)["loss"]

    def validation(self, batch: Batch) -> dict[str, Tensor]:
        """Return the bound, and its parts."""
        found = self.parts(batch)
        return {"loss": found["reconstruction"] + found["kl"], **found}

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return reconstruction + w KL + bag of words, w rising from 0 to 1 with the steps, and the parts."""
        found = self.parts(batch)
        weight = kl_weight(step.number, annealing_steps(self.config.sizes, step.total))
        return {"loss": found["reconstruction"] + weight * found["kl"] + found["bow"], **found}

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources, z at the prior's mean; see :meth:`PieceModel.begin`."""
        c, mu, _ = self.condition(self.planned(batch))
        state = self.bridge(torch.cat([c, mu], dim=-1)).unsqueeze(1)
        return RecurrentSteps(self._advanced, self._scored, [state], []), self.first(batch)

    def _advanced(self, tokens: Tensor, state: State, given: Given) -> tuple[Tensor, State]:
        rows = self.embedding(tokens).flatten(0, 1).unsqueeze(1)
        states, _ = recurrent(self.decoder, rows, state[0].flatten(0, 1).unsqueeze(0))
        states = states.view(*tokens.shape, -1)
        return states, (states,)

    def _scored(self, states: Tensor, given: Given) -> Tensor:
        return project_in_full(states, self.words.weight, self.words.bias)


def _gaussian(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and log variance (B, dz) of values (B, 2 dz), in float32 at least."""
    mu, logvar = at_least_float32(*values.chunk(2, dim=-1))
    return mu, logvar.clamp(*_LOGVAR)


def kl_weight(step: int, steps: int) -> float:
    """Return the weight w of the KL at a 0-based optimiser step: it rises linearly from 0 to 1 within ``steps``.

    >>> kl_weight(5_000, 10_000)
    0.5
    """
    return 1.0 if step >= steps else step / steps


def annealing_steps(sizes: Mapping[str, Any], total: int) -> int:
    """Return within how many of ``total`` steps w rises: a share of all, but no more than in the released code."""
    return min(_ANNEALING, round(sizes["annealing_share"] * total))
