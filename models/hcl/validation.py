"""Signs of collapse: is z used, do the contrasts still pull? And the loss that selects."""

from collections.abc import Mapping

import torch
from torch import Tensor

from models.common.encoders import mean_pool
from models.common.losses import at_least_float32, gaussian_kl
from models.hcl.config import HclConfig
from models.hcl.contrasts import CONTRASTS
from models.hcl.network import HclNetwork
from models.hcl.objective import validation_loss
from models.hcl.output import BatchTotals, HclOutput
from models.hcl.plan import Targets

ACTIVE_VARIANCE = 0.01  # a unit is active if its posterior mean varies more than this over inputs
VANISHED_LOSS = 0.01
_LIKENESS = ("impostor_cosine", "impostor_hardest", "impostor_easiest")  # as KeywordOutput.likeness has them


class Monitor:
    """Collects outputs of an epoch's validation batches and sums them up.

    >>> monitor = Monitor(model.config)
    >>> for batch in batches:
    ...     monitor.add(model(batch))
    >>> monitor.values()

    Args:
        config: the model's configuration.
    """

    def __init__(self, config: HclConfig) -> None:
        self.config = config
        self._rows: dict[str, list[Tensor]] = {}

    def add(self, output: HclOutput) -> None:
        """Take in a batch."""
        latent = output.latent
        if latent is not None:
            logvar, mu = latent.posterior.logvar, latent.posterior.mu
            if self.config.latent["posterior"] == "relative":  # whose unit is the prior's spread, however small that is
                mu = (mu - latent.prior.mu) * torch.exp(-0.5 * latent.prior.logvar)
            self._keep(kl=latent.kl, kl_dims=latent.kl_dims, mu=mu,
                       sigma=torch.exp(0.5 * logvar).mean(-1), log_sigma=0.5 * logvar.mean(-1))
        if latent is not None and latent.kl_negative is not None and latent.has_negative is not None:
            self._keep(kl_negative=latent.kl_negative[latent.has_negative])
        if output.keyword is not None:
            self._keep(likeness=output.keyword.likeness[:, output.keyword.mask].T)
        for name, found in output.contrasts.items():
            self._keep(**{f"{name}_{part}": getattr(found, part) for part in ("loss", "gap", "mask")})

    def values(self) -> dict[str, float]:
        """Return the monitors by name; those without any sample are left out.

        ``kl``, ``kl_negative`` mean KL(q+ || p) and KL(q- || p) in nats; ``active_units`` number of dimensions of z
        whose posterior mean varies over inputs (that of a relative posterior around the prior's, in its spread);
        ``under_floor`` share of dimensions whose mean KL the free bits cover, so that it has no gradient, all or none
        where the floor is one of the total; ``sigma``, ``mean_log_sigma`` mean spread of the posterior, and mean of its
        logarithm. For each contrast: ``_masked`` share of samples that take no part; of the others ``_loss`` mean loss,
        ``_vanished`` share with a loss below 0.01 (above 0.9: raise the temperature), ``_ahead`` share in which the
        right candidate is ahead, ``_gap`` mean difference, without sign, of the two candidates in units of the
        temperature. ``impostor_cosine``, ``impostor_hardest`` and ``impostor_easiest`` mean cosine to the output
        keyword of the impostor, and of the hardest and the easiest that it is made of.
        """
        rows = {name: torch.cat(parts) for name, parts in self._rows.items()}
        found: dict[str, float] = {}
        if "mu" in rows:
            found["kl"], found["sigma"] = float(rows["kl"].mean()), float(rows["sigma"].mean())
            found["mean_log_sigma"] = float(rows["log_sigma"].mean())
            found["under_floor"] = self._under_floor(rows["kl_dims"].mean(0))
            found["active_units"] = float((rows["mu"].var(0, correction=0) > ACTIVE_VARIANCE).sum())
        if len(rows.get("kl_negative", ())):
            found["kl_negative"] = float(rows["kl_negative"].mean())
        if len(rows.get("likeness", ())):
            found |= dict(zip(_LIKENESS, rows["likeness"].mean(0).tolist(), strict=True))
        for name in CONTRASTS:
            if f"{name}_mask" in rows:
                found |= _contrast_values(name, *(rows[f"{name}_{part}"] for part in ("loss", "gap", "mask")))
        return found

    def _under_floor(self, mean: Tensor) -> float:
        """Return the share of dimensions, of mean KL (dz,), that are not above the free bits."""
        free, by_total = self.config.latent["free_bits"], self.config.latent["free_bits_by"] == "total"
        under = mean.sum() <= free if by_total else mean <= free / len(mean)
        return float(under.float().mean())

    def _keep(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            self._rows.setdefault(name, []).append(tensor.detach())


def _contrast_values(name: str, loss: Tensor, gap: Tensor, mask: Tensor) -> dict[str, float]:
    values = {f"{name}_masked": float((~mask).float().mean())}
    if mask.any():
        loss, gap = loss[mask], gap[mask]
        values |= {f"{name}_loss": float(loss.mean()),
                   f"{name}_vanished": float((loss < VANISHED_LOSS).float().mean()),
                   f"{name}_ahead": float((gap > 0).float().mean()), f"{name}_gap": float(gap.abs().mean())}
    return values


def training_monitors(output: HclOutput, totals: BatchTotals) -> dict[str, Tensor | float]:
    """Return a micro-batch's shares in the monitors of its batch; over the micro-batches they add up.

    ``sigma``, ``mean_log_sigma``, ``impostor_*`` and, for each contrast, ``_masked``, ``_vanished`` and ``_gap`` as in
    :meth:`Monitor.values`. Active units and the mean KL need no share: the one needs all items at once, the other
    is a part of the objective.

    Args:
        output: of the model's training pass.
        totals: sizes of the whole batch.
    """
    shares: dict[str, Tensor | float] = {}
    if output.latent is not None:
        half = 0.5 * output.latent.posterior.logvar.detach()  # log sigma (B, dz)
        spread = torch.stack([torch.exp(half), half]).sum((1, 2)) / (totals.items * half.shape[-1])
        shares["sigma"], shares["mean_log_sigma"] = spread.unbind()
    if output.keyword is not None:
        likeness = (output.keyword.likeness * output.keyword.mask).sum(1) / max(1, totals.impostors)  # (3,)
        shares |= dict(zip(_LIKENESS, likeness.unbind(), strict=True))
    if not output.contrasts:
        return shares
    counts = {name: CONTRASTS[name].count(totals) for name in output.contrasts}
    weights: dict[int, Tensor] = {}  # of samples, by mask: several contrasts share one
    for name, found in output.contrasts.items():
        if id(found.mask) not in weights:
            weights[id(found.mask)] = found.mask / max(1, counts[name])
    every = output.contrasts.values()
    vanished = torch.stack([found.loss.detach() for found in every]) < VANISHED_LOSS  # (C, B)
    gaps = torch.stack([found.gap.detach() for found in every]).abs()
    shared = torch.stack([weights[id(found.mask)] for found in every])
    sums = torch.stack([vanished * shared, gaps * shared]).sum(-1)  # (2, C)
    part = len(output.reconstruction) / totals.items
    for number, name in enumerate(output.contrasts):
        shares[f"{name}_masked"] = part * (1 - counts[name] / totals.items)
        shares[f"{name}_vanished"], shares[f"{name}_gap"] = sums[0, number], sums[1, number]
    return shares


# Reconstructions from the prior, its mean and zero, and outputs under another keyword, cost a pass of the decoder each;
# so they are those of every fourth item.
EVERY = 4


class Validation:
    """Adds up validation batches; see :class:`HclNetwork` for what a batch holds.

    The loss that selects checkpoints reads input, target and input keyword alone. Negatives and output keywords,
    where a batch has them, are read by monitors only, and so change no choice.

    >>> validation = Validation(model.eval())
    >>> for batch in batches:
    ...     validation.add(batch)
    >>> validation.values()["loss"]

    Args:
        model: on the device of the batches.
        every: probe one item in so many: reconstruct it from the prior, from its mean and from zero, and swap its
            keyword.
    """

    def __init__(self, model: HclNetwork, every: int = EVERY) -> None:
        self.model, self.every = model, every
        self._items = 0
        self._monitor = Monitor(model.config)
        self._rows: dict[str, list[Tensor]] = {}

    @torch.no_grad()
    def add(self, batch: Mapping[str, Tensor]) -> None:
        """Take in a batch; see :meth:`HclNetwork.passed`.

        Raises:
            ValueError: the model is in training mode.
        """
        model = self.model
        if model.training:
            raise ValueError("Validation: call eval() on the model, or dropout decides the values")
        output = model.passed(batch, validating=True)
        self._keep(loss=validation_loss(output, model.config), reconstruction=output.reconstruction)
        self._monitor.add(output)
        self._probe(output, batch)
        self._items += len(output.reconstruction)

    @torch.no_grad()
    def add_seen(self, batch: Mapping[str, Tensor]) -> None:
        """Take in a batch of training items, with the plan of a training step, for their KL alone."""
        texts = self.model.texts(batch, ["x", "y"])
        keyword = self.model.keywords(batch, self.model.plan(batch).keywords)
        prior, posteriors = self.model.gaussians(texts, keyword)
        q = posteriors.of_text(0)
        self._keep(kl_train=gaussian_kl(q.mu, q.logvar, prior.mu, prior.logvar))

    def values(self) -> dict[str, float]:
        """Return the values by name.

        ``loss`` selects: L_rec(z ~ q) + KL over the mean target length, mean over items. ``reconstruction`` with
        z from the posterior, ``reconstruction_prior``, ``reconstruction_mean`` and ``reconstruction_zero`` with z from
        the prior, the prior's mean, from which texts are decoded, and z = 0, in nats per item; of the latter three,
        the difference to the first was measured on every fourth item. Of the same items: ``swap_prior``, how far the
        prior's mean moves when the item is given the keyword of another one of its batch, root mean square over
        dimensions in units of the prior's spread; ``swap_outputs``, how far the distribution of each next token of the
        target moves with z at the prior's mean, total variation, mean over tokens. ``kl_train``, the KL of training
        items, as the training pass has it but in evaluation mode: far below that of validation items, the prior is
        told in training what it is not told here. The rest is :meth:`Monitor.values`; keyword contrasts are those of
        items whose keywords are all nodes.
        """
        rows = {name: torch.cat(parts) for name, parts in self._rows.items()}
        found = {name: float(values.mean()) for name, values in rows.items() if len(values)}
        found |= {name: found["reconstruction"] + worse for name, worse in found.items()
                  if name.startswith("reconstruction_")}
        return found | self._monitor.values()

    def _probe(self, output: HclOutput, batch: Mapping[str, Tensor]) -> None:
        """Keep how much worse some items are reconstructed without the posterior, and what another keyword changes."""
        if output.latent is None and output.keyword is None:
            return
        first = -self._items % self.every  # by the item's number, however items fall into batches
        chosen = torch.arange(first, len(output.hidden), self.every, device=output.hidden.device)
        if not len(chosen):
            return
        part = {name: batch[name][chosen] for name in ("x_mask", "y_in", "y_in_mask", "y_out")}
        probed = _Probed(self.model, output.hidden[chosen], part, Targets.of(part["y_in_mask"]))
        u_in, mean = None if output.keyword is None else output.keyword.u_in[chosen], None
        if output.latent is not None:
            prior, noise = output.latent.prior, self.model.noise(batch)
            mean = prior.mu[chosen]
            for name, z in (("prior", prior.sample(noise)[chosen]), ("zero", torch.zeros_like(mean))):
                self._keep(**{f"reconstruction_{name}": probed.surprise(probed.scores(u_in, z))
                              - output.reconstruction[chosen]})
        scores = probed.scores(u_in, mean)
        if output.latent is not None:
            self._keep(reconstruction_mean=probed.surprise(scores) - output.reconstruction[chosen])
        if output.keyword is not None:
            self._swap(probed, scores, output, chosen)

    def _swap(self, probed: "_Probed", scores: Tensor, output: HclOutput, chosen: Tensor) -> None:
        """Keep what changes when items ``chosen`` are given the keyword of another item of the batch."""
        assert output.keyword is not None
        u_in, mean = output.keyword.u_in, None
        donors = _donors(u_in)[chosen]
        has_donor = donors >= 0
        if not has_donor.any():
            return
        other = u_in[donors.clamp(min=0)]
        if output.latent is not None:
            prior = output.latent.prior
            mean = self.model.prior(probed.vector, other).mu
            shift = (mean - prior.mu[chosen]) * torch.exp(-0.5 * prior.logvar[chosen])
            self._keep(swap_prior=shift.square().mean(-1).sqrt()[has_donor])
        moved = 0.5 * (scores.softmax(-1) - probed.scores(other, mean).softmax(-1)).abs().sum(-1)  # (N,)
        self._keep(swap_outputs=moved[has_donor[probed.targets.samples.index]])

    def _keep(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            self._rows.setdefault(name, []).append(tensor)


class _Probed:
    """Items that are decoded several times, from the same states.

    Args:
        model: in evaluation mode.
        hidden: encoder states (B, Lx, d).
        batch: ``x_mask``, ``y_in``, ``y_in_mask``, ``y_out`` of the items.
        targets: places of their tokens.
    """

    def __init__(self, model: HclNetwork, hidden: Tensor, batch: Mapping[str, Tensor], targets: Targets) -> None:
        self.model, self.hidden, self.batch, self.targets = model, hidden, batch, targets

    @property
    def vector(self) -> Tensor:
        """h_x (B, d)."""
        (full,) = at_least_float32(self.hidden)
        return mean_pool(full, self.batch["x_mask"])

    def scores(self, u_in: Tensor | None, z: Tensor | None) -> Tensor:
        """Return the scores (N, V) of the targets' tokens."""
        return self.model.token_scores(self.hidden, u_in, z, self.batch, self.targets)

    def surprise(self, scores: Tensor) -> Tensor:
        """Return the reconstruction (B,) that scores give."""
        return self.model.surprise(scores, self.batch, self.targets)


def _donors(vectors: Tensor) -> Tensor:
    """Return for each row of ``vectors`` (B, d) the number of the next one that differs, in a ring; -1 if none does."""
    kinds = vectors.unique(dim=0, return_inverse=True)[1]
    places = torch.arange(len(kinds), device=kinds.device)
    ahead = (places.unsqueeze(1) + places) % len(kinds)  # (B, B), each row from its own number on
    differs = kinds[ahead] != kinds.unsqueeze(1)
    found = ahead.gather(1, differs.int().argmax(1, keepdim=True)).squeeze(1)
    return found.masked_fill(~differs.any(1), -1)
