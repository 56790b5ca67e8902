"""Signs of collapse: is z used, do the contrasts still pull? And the loss that selects (METHODS A.5, A.6, A.8)."""

from collections.abc import Mapping

import torch
from torch import Tensor

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
            logvar = latent.posterior.logvar
            self._keep(kl=latent.kl, mu=latent.posterior.mu, sigma=torch.exp(0.5 * logvar).mean(-1),
                       log_sigma=0.5 * logvar.mean(-1))
        if latent is not None and latent.kl_negative is not None and latent.has_negative is not None:
            self._keep(kl_negative=latent.kl_negative[latent.has_negative])
        if output.keyword is not None:
            self._keep(likeness=output.keyword.likeness[:, output.keyword.mask].T)
        for name, found in output.contrasts.items():
            self._keep(**{f"{name}_{part}": getattr(found, part) for part in ("loss", "gap", "mask")})

    def values(self) -> dict[str, float]:
        """Return the monitors by name; those without any sample are left out.

        ``kl``, ``kl_negative`` mean KL(q+ || p) and KL(q- || p) in nats; ``active_units`` number of dimensions of
        z whose posterior mean varies over inputs; ``sigma``, ``mean_log_sigma`` mean spread of the posterior, and
        mean of its logarithm. For each contrast: ``_masked`` share of samples that take no part; of the others
        ``_loss`` mean loss, ``_vanished`` share with a loss below 0.01 (above 0.9: raise the temperature),
        ``_ahead`` share in which the right candidate is ahead, ``_gap`` mean difference, without sign, of the two
        candidates in units of the temperature. ``impostor_cosine``, ``impostor_hardest`` and ``impostor_easiest`` mean
        cosine to the output keyword of the impostor, and of the hardest and the easiest that it is made of.
        """
        rows = {name: torch.cat(parts) for name, parts in self._rows.items()}
        found: dict[str, float] = {}
        if "mu" in rows:
            found["kl"], found["sigma"] = float(rows["kl"].mean()), float(rows["sigma"].mean())
            found["mean_log_sigma"] = float(rows["log_sigma"].mean())
            found["active_units"] = float((rows["mu"].var(0, correction=0) > ACTIVE_VARIANCE).sum())
        if len(rows.get("kl_negative", ())):
            found["kl_negative"] = float(rows["kl_negative"].mean())
        if len(rows.get("likeness", ())):
            found |= dict(zip(_LIKENESS, rows["likeness"].mean(0).tolist(), strict=True))
        for name in CONTRASTS:
            if f"{name}_mask" in rows:
                found |= _contrast_values(name, *(rows[f"{name}_{part}"] for part in ("loss", "gap", "mask")))
        return found

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


# Reconstructions from the prior and from zero cost a pass of the decoder each; with those of every fourth item,
# validation takes about one and a half times as long as the selecting loss alone.
EVERY = 4


class Validation:
    """Adds up validation batches; see :class:`HclNetwork` for what a batch holds.

    The loss that selects checkpoints reads input, target and input keyword alone. Negatives and output keywords,
    where a batch has them, are read by monitors only (METHODS A.8), and so change no choice.

    >>> validation = Validation(model.eval())
    >>> for batch in batches:
    ...     validation.add(batch)
    >>> validation.values()["loss"]

    Args:
        model: on the device of the batches.
        every: reconstruct one item in so many from the prior and from zero as well.
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
        self._probe_latent(output, batch)
        self._items += len(output.reconstruction)

    def values(self) -> dict[str, float]:
        """Return the values by name.

        ``loss`` selects: L_rec(z ~ q) + KL over the mean target length, mean over items. ``reconstruction`` with
        z from the posterior, ``reconstruction_prior``, ``reconstruction_mean`` and ``reconstruction_zero`` with z from
        the prior, the prior's mean, from which texts are decoded, and z = 0, in nats per item; of the latter three,
        the difference to the first was measured on every fourth item. The rest is :meth:`Monitor.values`; keyword
        contrasts are those of items whose keywords are all nodes.
        """
        rows = {name: torch.cat(parts) for name, parts in self._rows.items()}
        found = {name: float(rows.pop(name).mean()) for name in ("loss", "reconstruction")}
        found |= {name: found["reconstruction"] + float(worse.mean()) for name, worse in rows.items()}
        return found | self._monitor.values()

    def _probe_latent(self, output: HclOutput, batch: Mapping[str, Tensor]) -> None:
        """Keep how much worse some items are reconstructed without the posterior."""
        if output.latent is None:
            return
        first = -self._items % self.every  # by the item's number, however items fall into batches
        chosen = torch.arange(first, len(output.hidden), self.every, device=output.hidden.device)
        if not len(chosen):
            return
        part = {name: batch[name][chosen] for name in ("x_mask", "y_in", "y_in_mask", "y_out")}
        u_in = output.keyword.u_in[chosen] if output.keyword is not None else None
        noise, targets, prior = self.model.noise(batch), Targets.of(part["y_in_mask"]), output.latent.prior
        for name, z in (("prior", prior.sample(noise)), ("mean", prior.mu), ("zero", torch.zeros_like(noise))):
            found = self.model.reconstruct(output.hidden[chosen], u_in, z[chosen], part, targets)
            self._keep(**{f"reconstruction_{name}": found - output.reconstruction[chosen]})

    def _keep(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            self._rows.setdefault(name, []).append(tensor)
