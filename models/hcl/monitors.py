"""Validation loss, monitors of a training, and named alarms from its history."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from models.common.encoders import mean_pool
from models.common.losses import at_least_float32, gaussian_kl
from models.hcl.config import CONTRASTS, HclConfig
from models.hcl.graph import places_of
from models.hcl.hcl import BatchTotals, HclNetwork, HclOutput, validation_loss

Row = Mapping[str, float]

ACTIVE_VARIANCE = 0.01  # a unit is active if its posterior mean varies more than this over inputs
VANISHED_LOSS = 0.01
EVERY = 4  # reconstructions from the prior, its mean and zero cost a pass of the decoder each: of every fourth item
_LIKENESS = ("impostor_cosine", "impostor_hardest", "impostor_easiest")  # as KeywordOutput.likeness has them


def training_monitors(output: HclOutput, totals: BatchTotals) -> dict[str, Tensor | float]:
    """Return a micro-batch's shares in the monitors of its batch, which has the sizes ``totals``.

    ``sigma``, ``mean_log_sigma``, ``impostor_*`` and, for each contrast, ``_masked``, ``_vanished`` and ``_gap`` as in
    :meth:`Validation.values`.
    """
    shares: dict[str, Tensor | float] = {}
    if output.latent is not None:
        half = 0.5 * output.latent.posterior.logvar.detach()  # log sigma (B, dz)
        spread = torch.stack([torch.exp(half), half]).sum((1, 2)) / (totals.items * half.shape[-1])
        shares["sigma"], shares["mean_log_sigma"] = spread.unbind()
    if output.keyword is not None:
        likeness = (output.keyword.likeness * output.keyword.mask).sum(1) / max(1, totals.impostors)  # (3,)
        shares |= dict(zip(_LIKENESS, likeness.unbind(), strict=True))
    part = len(output.reconstruction) / totals.items
    for name, found in output.contrasts.items():
        count = totals.of_contrast(name)
        weights = found.mask / max(1, count)
        shares[f"{name}_masked"] = part * (1 - count / totals.items)
        shares[f"{name}_vanished"] = ((found.loss.detach() < VANISHED_LOSS) * weights).sum()
        shares[f"{name}_gap"] = (found.gap.detach().abs() * weights).sum()
    return shares


class Validation:
    """Adds up validation batches; see :class:`HclNetwork` for what a batch holds.

    The loss that selects checkpoints reads input, target and input keyword alone. Negatives and output keywords,
    where a batch has them, are read by monitors only, and so change no choice.

    >>> validation = Validation(model.eval())
    >>> for batch in batches:
    ...     validation.add(batch)
    >>> validation.values()["loss"]

    One item in ``every`` is probed: reconstructed from the prior, its mean and zero, and given another keyword.
    """

    def __init__(self, model: HclNetwork, every: int = EVERY) -> None:
        self.model, self.every = model, every
        self._items = 0
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
        self.monitor(output)
        self._probe(output, batch)
        self._items += len(output.reconstruction)

    @torch.no_grad()
    def add_seen(self, batch: Mapping[str, Tensor]) -> None:
        """Take in a batch of training items, with the plan of a training step, for their KL alone."""
        texts, batch = self.model.texts(batch, ["x", "y"]), self.model.planned(batch)
        keyword = self.model.keywords(batch)
        prior, posteriors = self.model.gaussians(texts, keyword)
        q = posteriors.of_text(0)
        self._keep(kl_train=gaussian_kl(q.mu, q.logvar, prior.mu, prior.logvar))

    def values(self) -> dict[str, float]:
        """Return the values by name; those without any sample are left out.

        - ``loss`` selects: L_rec(z ~ q) + KL over the mean target length, mean over items.
        - ``reconstruction`` with z from the posterior, ``_prior``, ``_mean`` and ``_zero`` with z from the prior, its
          mean, and z = 0, in nats per item; the latter three differ from it as they do for every fourth item.
        - ``swap_prior``, ``swap_outputs``, of the same items given another's keyword: how far the prior's mean moves,
          in units of its spread, and the distribution of the next token (total variation).
        - ``kl``, ``kl_negative``: mean KL(q+ || p) and KL(q- || p) in nats; ``kl_train`` of training items.
        - ``active_units``: dimensions of z whose posterior mean varies over inputs (that of a relative posterior around
          the prior's, in its spread). ``under_floor``: share of dimensions whose mean KL the free bits cover.
        - ``sigma``, ``mean_log_sigma``: mean spread of the posterior, and mean of its logarithm.
        - ``impostor_cosine``, ``_hardest``, ``_easiest``: mean cosine to the output keyword of the impostor, and of the
          candidates that it is made of.
        - for each contrast ``_masked``, share of samples that take no part; of the others ``_loss``, ``_vanished``
          (share with a loss below 0.01), ``_ahead`` (share in which the right candidate is) and ``_gap`` (mean
          difference without sign, in units of the temperature). Contrasts of keywords are of items whose keywords are
          all nodes.
        """
        rows = {name: torch.cat(parts) for name, parts in self._rows.items()}
        found = {name: float(part.mean()) for name, part in rows.items()
                 if len(part) and not name.startswith(("_", *CONTRASTS))}
        found |= {name: found["reconstruction"] + worse for name, worse in found.items()
                  if name.startswith("reconstruction_")}
        if "_mu" in rows:
            found |= {name: float(rows[f"_{name}"].mean()) for name in ("kl", "sigma", "mean_log_sigma")}
            found["under_floor"] = self._under_floor(rows["_kl_dims"].mean(0))
            found["active_units"] = float((rows["_mu"].var(0, correction=0) > ACTIVE_VARIANCE).sum())
        if len(rows.get("_kl_negative", ())):
            found["kl_negative"] = float(rows["_kl_negative"].mean())
        if len(rows.get("_likeness", ())):
            found |= dict(zip(_LIKENESS, rows["_likeness"].mean(0).tolist(), strict=True))
        for name in CONTRASTS:
            if f"{name}_mask" in rows:
                found |= _contrast_values(name, *(rows[f"{name}_{part}"] for part in ("loss", "gap", "mask")))
        return found

    @torch.no_grad()
    def monitor(self, output: HclOutput) -> None:
        """Take in the monitors of a batch, from the model's output."""
        latent = output.latent
        if latent is not None:
            logvar, mu = latent.posterior.logvar, latent.posterior.mu
            if self.model.config.latent.posterior == "relative":  # in units of the prior's spread
                mu = (mu - latent.prior.mu) * torch.exp(-0.5 * latent.prior.logvar)
            self._keep(_kl=latent.kl, _kl_dims=latent.kl_dims, _mu=mu, _sigma=torch.exp(0.5 * logvar).mean(-1),
                       _mean_log_sigma=0.5 * logvar.mean(-1))
        if latent is not None and latent.kl_negative is not None and latent.has_negative is not None:
            self._keep(_kl_negative=latent.kl_negative[latent.has_negative])
        if output.keyword is not None:
            self._keep(_likeness=output.keyword.likeness[:, output.keyword.mask].T)
        for name, found in output.contrasts.items():
            self._keep(**{f"{name}_{part}": getattr(found, part) for part in ("loss", "gap", "mask")})

    def _under_floor(self, mean: Tensor) -> float:
        """Return the share of dimensions, of mean KL (dz,), that are not above the free bits."""
        free, by_total = self.model.config.latent.free_bits, self.model.config.latent.free_bits_by == "total"
        under = mean.sum() <= free if by_total else mean <= free / len(mean)
        return float(under.float().mean())

    def _probe(self, output: HclOutput, batch: Mapping[str, Tensor]) -> None:
        """Keep how much worse some items are reconstructed without the posterior, and what another keyword changes."""
        if output.latent is None and output.keyword is None:
            return
        first = -self._items % self.every  # by the item's number, however items fall into batches
        chosen = torch.arange(first, len(output.hidden), self.every, device=output.hidden.device)
        if not len(chosen):
            return
        part = {name: batch[name][chosen] for name in ("x_mask", "y_in", "y_in_mask", "y_out")}
        part |= places_of(part["y_in_mask"])
        hidden = output.hidden[chosen]

        def scores_of(u_in: Tensor | None, z: Tensor | None) -> Tensor:
            return self.model.token_scores(hidden, u_in, z, part)  # (N, V)

        def worse(scores: Tensor) -> Tensor:
            return self.model.surprise(scores, part) - output.reconstruction[chosen]

        u_in, mean = None if output.keyword is None else output.keyword.u_in[chosen], None
        if output.latent is not None:
            prior, noise = output.latent.prior, self.model.noise(batch)
            mean = prior.mu[chosen]
            self._keep(reconstruction_prior=worse(scores_of(u_in, prior.sample(noise)[chosen])),
                       reconstruction_zero=worse(scores_of(u_in, torch.zeros_like(mean))))
        scores = scores_of(u_in, mean)
        if output.latent is not None:
            self._keep(reconstruction_mean=worse(scores))
        if output.keyword is None:
            return
        donors = _donors(output.keyword.u_in)[chosen]
        has_donor = donors >= 0
        if not has_donor.any():
            return
        other = output.keyword.u_in[donors.clamp(min=0)]
        if output.latent is not None:
            prior, (full,) = output.latent.prior, at_least_float32(hidden)
            mean = self.model.prior(mean_pool(full, part["x_mask"]), other).mu
            shift = (mean - prior.mu[chosen]) * torch.exp(-0.5 * prior.logvar[chosen])
            self._keep(swap_prior=shift.square().mean(-1).sqrt()[has_donor])
        moved = 0.5 * (scores.softmax(-1) - scores_of(other, mean).softmax(-1)).abs().sum(-1)  # (N,)
        self._keep(swap_outputs=moved[has_donor[part["token_samples"]]])

    def _keep(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            self._rows.setdefault(name, []).append(tensor.detach())


def _donors(vectors: Tensor) -> Tensor:
    """Return for each row of ``vectors`` (B, d) the number of the next one that differs, in a ring; -1 if none does."""
    kinds = vectors.unique(dim=0, return_inverse=True)[1]
    places = torch.arange(len(kinds), device=kinds.device)
    ahead = (places.unsqueeze(1) + places) % len(kinds)  # (B, B), each row from its own number on
    differs = kinds[ahead] != kinds.unsqueeze(1)
    found = ahead.gather(1, differs.int().argmax(1, keepdim=True)).squeeze(1)
    return found.masked_fill(~differs.any(1), -1)


def _contrast_values(name: str, loss: Tensor, gap: Tensor, mask: Tensor) -> dict[str, float]:
    values = {f"{name}_masked": float((~mask).float().mean())}
    if mask.any():
        loss, gap = loss[mask], gap[mask]
        values |= {f"{name}_loss": float(loss.mean()),
                   f"{name}_vanished": float((loss < VANISHED_LOSS).float().mean()),
                   f"{name}_ahead": float((gap > 0).float().mean()), f"{name}_gap": float(gap.abs().mean())}
    return values


# Thresholds of the alarms, each with its reason.

# Nats per item. Below, posterior and prior are told apart in hardly one draw of three: their total variation is at
# most sqrt(KL / 2), by Pinsker's inequality.
SMALL_KL = 0.2
# Free bits hold the KL up without anything to say, unless the decoder shows that it reads z; a tenth above them is
# their noise over batches.
ABOVE_FREE_BITS = 1.1
# Fewer units than this share of dz varying over inputs: the rest of z is noise.
ACTIVE_SHARE = 0.05
# One percent of a reconstruction of 20 to 30 nats is 0.2 to 0.3 nats, about the KL that is called small above.
IGNORED_MARGIN = 0.01
# Above this share of dimensions without a gradient of KL, prior, keyword and graph hardly learn from it.
FLOOR_SHARE = 0.9
# Half the KL on training items, in nats of which by chance, of means over a few hundred items, there is less than one:
# overfitting alone comes to less while the validation loss still falls.
LEAK_RATIO, LEAK_NATS = 2.0, 1.0
# Of the items with two different keywords, those whose target's is a neighbour of the input's, training above
# validation: on QQP 0.88 where the graph tells an item its target, 0.18 where siblings do, 0.04 where its component is
# hidden.
LEAK_SHARE = 0.15
# Total variation of the next token's distribution: below, not one of a hundred tokens is another under another keyword.
IGNORED_SWAP = 0.01
# Above this share of losses under 0.01 the contrast teaches nobody.
VANISHED_SHARE = 0.9
# A contrast that teaches falls by more than two percent in three epochs.
STUCK_CHANGE, STUCK_EPOCHS = 0.02, 3
# Of the way from the easiest candidate to the hardest; a plain mean of candidates lies above the middle, since a mean
# is nearer to anything than its parts are. Candidates closer together than the second figure leave nothing to choose.
EASY_PLACE, EASY_SPREAD = 0.5, 0.02
# Distances go by 1 / s^2: at this fall of mean log s (half of log 2) all of them have doubled, and no vector moved.
SHRUNK_LOG_SIGMA = 0.35
_RECONSTRUCTION, _MEAN = "validation_reconstruction", "validation_reconstruction_mean"
_PRIOR, _ZERO = "validation_reconstruction_prior", "validation_reconstruction_zero"


@dataclass(frozen=True)
class Alarm:
    """Something that a training should be looked at for.

    ``epoch`` is the first, from 1, since which the sign has been there; ``advice`` says what to try.
    """

    name: str
    epoch: int
    message: str
    advice: str


class _Sign(NamedTuple):
    """An alarm that stands if the last epoch has all ``columns`` and ``holds`` is true of it.

    ``message`` is filled with the values of that epoch, and with ``config``.
    """

    name: str
    columns: Sequence[str]
    applies: Callable[[HclConfig], bool]
    holds: Callable[[Row, HclConfig], bool]
    message: str
    advice: str


def _gain(row: Row) -> float:
    """Return what z from the posterior is worth at least, as a share of the reconstruction; 0 if nobody measured it."""
    if not {_RECONSTRUCTION, _PRIOR, _ZERO} <= row.keys():
        return 0.0
    return min(row[_PRIOR], row[_ZERO]) / row[_RECONSTRUCTION] - 1.0


def _collapsed(row: Row, config: HclConfig) -> bool:
    kl = row["validation_kl"]
    if kl <= SMALL_KL or row["validation_active_units"] < ACTIVE_SHARE * config.latent.size:
        return True
    return kl <= ABOVE_FREE_BITS * config.latent.free_bits and _gain(row) < IGNORED_MARGIN


def _ignored(row: Row, config: HclConfig) -> bool:
    mean_is_idle = _MEAN in row and (row[_ZERO] - row[_MEAN]) / row[_RECONSTRUCTION] < IGNORED_MARGIN
    return _gain(row) < IGNORED_MARGIN or mean_is_idle


def _leaks(row: Row, config: HclConfig) -> bool:
    small, large = sorted((row["validation_kl_train"], row["validation_kl"]))
    return large > LEAK_RATIO * small and large - small > LEAK_NATS


def _easy(row: Row, config: HclConfig) -> bool:
    impostor, hardest, easiest = (row[f"train_{name}"] for name in _LIKENESS)
    return hardest - easiest > EASY_SPREAD and impostor - easiest < EASY_PLACE * (hardest - easiest)


_SIGNS = (
    _Sign(
        "posterior_collapse", ("validation_kl", "validation_active_units"), lambda config: config.latent.enabled,
        _collapsed,
        "KL(q || p) is {validation_kl:.3g} nats per item (free bits: {config.latent.free_bits:g}) with "
        "{validation_active_units:.0f} of {config.latent.size} units active: z says little of the target",
        "lengthen latent.annealing_steps or the training, raise latent.free_bits or decoder.source_dropout, or set "
        "latent.batch_norm"),
    _Sign(
        "latent_ignored", (_RECONSTRUCTION, _PRIOR, _ZERO), lambda config: config.latent.enabled, _ignored,
        "reconstruction is {validation_reconstruction:.4g} nats with z from the posterior, "
        "{validation_reconstruction_prior:.4g} with z from the prior, {validation_reconstruction_mean:.4g} with its "
        "mean and {validation_reconstruction_zero:.4g} with z = 0: the decoder hardly reads z, or it is decoded from "
        "the prior's mean, which is hardly better than no z at all",
        "let z enter in another place (latent.enters), write a share of the texts from the prior's mean "
        "(latent.prior_share), or raise decoder.source_dropout or latent.free_bits"),
    _Sign(
        "kl_under_floor", ("validation_under_floor",),
        lambda config: config.latent.enabled and config.latent.posterior == "absolute"  # else it is taught all the same
        and config.latent.free_bits_for == "both",
        lambda row, config: row["validation_under_floor"] > FLOOR_SHARE,
        "KL is under its free bits ({config.latent.free_bits:g} nats by {config.latent.free_bits_by}) in "
        "{validation_under_floor:.0%} of the dimensions, where it has no gradient: prior, keyword and graph learn from "
        "the contrasts alone",
        "set latent.free_bits_for posterior, set latent.free_bits_by total, or lower latent.free_bits"),
    _Sign(
        "leak", ("validation_kl_train", "validation_kl"),
        # the KL of a relative posterior does not read the prior
        lambda config: config.latent.enabled and config.latent.posterior == "absolute", _leaks,
        "KL(q || p) is {validation_kl_train:.3g} nats on training items and {validation_kl:.3g} on validation items: "
        "the prior knows of the target on one side what it does not know on the other",
        "if it knows more in training, hide each item's own edges and target from its prior (the leave-one-out graph), "
        "see whether the splits share texts, and stop earlier if the model overfits; else see whether validation items "
        "are easier, or their texts occur in training"),
    _Sign(
        "keyword_ignored", ("validation_swap_outputs",), lambda config: config.uses_keyword,
        lambda row, config: row["validation_swap_outputs"] < IGNORED_SWAP,
        "given another item's keyword, the distribution of the next token moves by {validation_swap_outputs:.2%}: "
        "outputs do not depend on the keyword",
        "let the decoder see the keyword (decoder.kw_memory), let reconstruction teach it (latent.prior_share, or "
        "latent.free_bits_for posterior), or hide more of the source (decoder.source_dropout)"),
    _Sign(
        "impostor_easy", [f"train_{name}" for name in _LIKENESS],
        lambda config: not {"keyword", "mahalanobis"}.isdisjoint(config.contrasts_used), _easy,
        "the impostor's cosine to the output keyword is {train_impostor_cosine:.3g}, nearer to the easiest "
        "candidate's ({train_impostor_easiest:.3g}) than to the hardest's ({train_impostor_hardest:.3g}): it is made "
        "of what is easily told apart",
        "set keyword.imp_weight to cosine, since a matrix that the contrasts train seeks what is easy; raise "
        "graph.max_nbr or read the edges"),
    *(_Sign(
        f"contrast_vanished_{name}", (f"train_{name}_vanished",),
        lambda config, name=name: name in config.contrasts_used,  # type: ignore[misc]
        lambda row, config, name=name: row[f"train_{name}_vanished"] > VANISHED_SHARE,  # type: ignore[misc]
        f"the {name} contrast is below {VANISHED_LOSS} for {{train_{name}_vanished:.0%}} of the items that take part: "
        f"it no longer teaches them anything",
        f"raise contrasts.{name}.temperature, or take harder negatives") for name in CONTRASTS),
)


def find_alarms(rows: Sequence[Row], config: HclConfig) -> list[Alarm]:
    """Return the alarms that stand after the last of ``rows``, a training's history by epoch.

    None for what the configuration leaves out, and none whose columns are missing.
    """
    found = [alarm for sign in _SIGNS if (alarm := _standing(sign, rows, config)) is not None]
    vanished = {alarm.name for alarm in found}
    found += [alarm for name in config.contrasts_used if f"contrast_vanished_{name}" not in vanished
              if (alarm := _stuck(rows, config, name)) is not None]
    if "mahalanobis" in config.contrasts_used and (shrinking := _shrinking(rows)) is not None:
        found.append(shrinking)
    return found


def leak_of_graph(seen: float, held_out: float, config: HclConfig) -> Alarm | None:
    """Return the alarm of a graph that tells training items their target, whatever posterior and prior make of it.

    ``seen`` is the share of training items, of those with two different keywords, whose target's keyword is a neighbour
    of the input's; ``held_out`` that of validation items. A model that does not read the graph has no alarm.
    """
    if not config.uses_keyword or config.graph.iterations == 0 or seen - held_out <= LEAK_SHARE:
        return None
    return Alarm("leak", 1, f"the graph has the target's keyword beside the input's for {seen:.0%} of the training "
                            f"items with two different keywords, and for {held_out:.0%} of those of validation: it "
                            f"tells a training item its target",
                 "hide from each item what its component gave to the graph (graph.own_edges component)")


def _standing(sign: _Sign, rows: Sequence[Row], config: HclConfig) -> Alarm | None:
    epoch = _since(rows, sign.columns, lambda row: sign.holds(row, config)) if sign.applies(config) else None
    if epoch is None:
        return None
    return Alarm(sign.name, epoch, sign.message.format(config=config, **{_MEAN: float("nan"), **rows[-1]}), sign.advice)


def _since(rows: Sequence[Row], columns: Sequence[str], holds: Callable[[Row], bool]) -> int | None:
    """Return the epoch since which ``holds`` has been true up to the last row; None if it is not true there."""
    epoch = None
    for row in reversed(rows):
        if not all(column in row for column in columns) or not holds(row):
            break
        epoch = int(row["epoch"])
    return epoch


def _stuck(rows: Sequence[Row], config: HclConfig, name: str) -> Alarm | None:
    values = [row[f"train_{name}"] for row in rows if f"train_{name}" in row]
    largest = max(values, default=0.0)
    if len(values) < STUCK_EPOCHS or largest <= 0 or (largest - min(values)) / largest >= STUCK_CHANGE:
        return None
    advice = (f"lower contrasts.{name}.temperature, raise its weight or the learning rate, and look at "
              f"train_{name}_masked: few items may take part")
    if name == "keyword" and config.graph.iterations == 0:
        advice = ("without graph attention (graph.iterations 0) keyword vectors are the constants h0, and the contrast "
                  "has nothing to move: set its weight to 0, which changes no other term, or bring the graph back")
    return Alarm(f"contrast_stuck_{name}", int(rows[0]["epoch"]),
                 f"the {name} contrast stayed between {min(values):.4g} and {largest:.4g} for {len(values)} epochs "
                 f"(log 2 = 0.693 is where its two sides are equal)", advice)


def _shrinking(rows: Sequence[Row]) -> Alarm | None:
    """Return an alarm if the Mahalanobis contrast fell by a spread that shrank, which moves no vector."""
    spread, contrast = "train_mean_log_sigma", "train_mahalanobis"
    known = [row for row in rows if spread in row and contrast in row]
    if len(known) < 2 or known[-1][contrast] >= known[0][contrast]:
        return None
    first, last = known[0], known[-1]
    epoch = _since(known, (spread,), lambda row: row[spread] < first[spread] - SHRUNK_LOG_SIGMA)
    return None if epoch is None else Alarm(
        "spread_shrinking", epoch,
        f"mean log s of the posterior fell from {first[spread]:.3g} to {last[spread]:.3g} while the Mahalanobis "
        f"contrast fell from {first[contrast]:.3g} to {last[contrast]:.3g}: both distances grow as s shrinks, so the "
        f"contrast may fall without any vector moving",
        "compare with contrasts.mahalanobis.weight 0; raise contrasts.mahalanobis.temperature or lower its weight, "
        "so that the KL term holds the spread (it does not keep posterior and prior from narrowing together)")
