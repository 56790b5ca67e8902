"""Measurements of a model in validation, and named alarms from a training's history."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from models.common.losses import at_least_float32, gaussian_kl
from models.common.transformer import mean_pool
from models.hcl.graph import places_of
from models.hcl.hcl import IMPOSTOR_COSINES, VANISHED_LOSS, HclConfig, HclOutput, validation_loss
from models.hcl.model import HclModel
from models.hcl.settings import CONTRASTS

Row = Mapping[str, float]

ACTIVE_VARIANCE = 0.01  # a unit is active if its posterior mean varies more than this over inputs
EVERY = 4  # one item in four is probed: reconstructions from the prior, its mean and zero cost a decoder pass each


class Validation:
    """Collects the values of validation batches; negatives and output keywords change monitors alone, never ``loss``.

    One item in ``every`` is probed: reconstructed from the prior, its mean and zero, and given another keyword.
    """

    def __init__(self, model: HclModel, every: int = EVERY) -> None:
        self.model, self.every = model, every
        self._items = 0
        self._rows: dict[str, list[Tensor]] = {}

    @torch.no_grad()
    def add(self, batch: Mapping[str, Tensor]) -> None:
        """Add a batch, the model in evaluation mode; see :meth:`HclModel.forward`."""
        if self.model.training:
            raise ValueError("Validation: call eval() on the model, or dropout decides the values")
        output = self.model(batch, validating=True)
        self._append(loss=validation_loss(output, self.model.config), reconstruction=output.reconstruction)
        if (latent := output.latent) is not None:
            self._append(kl=latent.kl, _mu=latent.posterior.mu)
        for name, contrasted in output.contrasts.items():
            self._append(**{f"_{name}_loss": contrasted.loss, f"_{name}_mask": contrasted.mask})
        self._probe(output, batch)
        self._items += len(output.reconstruction)

    @torch.no_grad()
    def add_seen(self, batch: Mapping[str, Tensor]) -> None:
        """Add a batch of training items, with the plan of a training step, for their KL alone."""
        texts, batch = self.model.texts(batch, ["x", "y"]), self.model.planned(batch)
        prior, posteriors = self.model.gaussians(texts, self.model.keywords(batch))
        q = posteriors.of_text(0)
        self._append(kl_train=gaussian_kl(q.mu, q.logvar, prior.mu, prior.logvar))

    def values(self) -> dict[str, float]:
        """Return the values by name, means over items, ``swap_outputs`` over tokens; without a sample none.

        - ``loss`` selects checkpoints: L_rec(z ~ q) + KL over the mean target length.
        - ``reconstruction`` in nats; ``_prior``, ``_mean``, ``_zero`` of the probed items: z of the prior, its mean,
          and z = 0; ``swap_outputs``, total variation of the next token's distribution under another's keyword.
        - ``kl``, and ``kl_train`` of training items; ``active_units``, dimensions of z whose posterior mean varies.
        - for each contrast ``_masked``, share of samples that take no part; of the others ``_loss`` and ``_vanished``.
        """
        rows = {name: torch.cat(parts) for name, parts in self._rows.items()}
        values = {name: float(part.mean()) for name, part in rows.items() if len(part) and not name.startswith("_")}
        values |= {name: values["reconstruction"] + difference for name, difference in values.items()
                   if name.startswith("reconstruction_")}
        if "_mu" in rows:
            values["active_units"] = float((rows["_mu"].var(0, correction=0) > ACTIVE_VARIANCE).sum())
        for name in CONTRASTS:
            if f"_{name}_mask" in rows:
                mask = rows[f"_{name}_mask"]
                loss = rows[f"_{name}_loss"][mask]
                values[f"{name}_masked"] = float((~mask).float().mean())
                if len(loss):
                    values |= {f"{name}_loss": float(loss.mean()),
                               f"{name}_vanished": float((loss < VANISHED_LOSS).float().mean())}
        return values

    def _probe(self, output: HclOutput, batch: Mapping[str, Tensor]) -> None:
        """Measure how much worse some items are without the posterior, and what another keyword changes."""
        first = -self._items % self.every  # counts items over batches
        chosen = torch.arange(len(output.hidden), device=output.hidden.device)[first::self.every]
        if not len(chosen) or (output.latent is None and output.keyword is None):
            return
        part = {name: batch[name][chosen] for name in ("x_mask", "y_in", "y_in_mask", "y_out")}
        part |= places_of(part["y_in_mask"])
        hidden = output.hidden[chosen]

        def scores_of(u_in: Tensor | None, z: Tensor | None) -> Tensor:
            return self.model.token_scores(hidden, u_in, z, part)  # (N, V)

        def difference(scores: Tensor) -> Tensor:
            return self.model.target_nll(scores, part) - output.reconstruction[chosen]

        u_in, mean = None if output.keyword is None else output.keyword.u_in[chosen], None
        if output.latent is not None:
            prior, noise = output.latent.prior, self.model.noise(batch)
            mean = prior.mu[chosen]
            self._append(reconstruction_prior=difference(scores_of(u_in, prior.sample(noise)[chosen])),
                         reconstruction_zero=difference(scores_of(u_in, torch.zeros_like(mean))))
        scores = scores_of(u_in, mean)
        if output.latent is not None:
            self._append(reconstruction_mean=difference(scores))
        if output.keyword is None:
            return
        donors = _donors(output.keyword.u_in)[chosen]
        has_donor = donors >= 0
        if not has_donor.any():
            return
        other = output.keyword.u_in[donors.clamp(min=0)]
        if output.latent is not None:
            (full,) = at_least_float32(hidden)
            mean = self.model.prior(mean_pool(full, part["x_mask"]), other).mu
        moved = 0.5 * (scores.softmax(-1) - scores_of(other, mean).softmax(-1)).abs().sum(-1)  # (N,)
        self._append(swap_outputs=moved[has_donor[part["token_samples"]]])

    def _append(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            self._rows.setdefault(name, []).append(tensor.detach())


def _donors(vectors: Tensor) -> Tensor:
    """Return for each row of ``vectors`` (B, d) the number of the next one that differs, in a ring; -1 without one."""
    kinds = vectors.unique(dim=0, return_inverse=True)[1]
    places = torch.arange(len(kinds), device=kinds.device)
    ahead = (places.unsqueeze(1) + places) % len(kinds)  # (B, B), each row from its own number on
    differs = kinds[ahead] != kinds.unsqueeze(1)
    nearest = ahead.gather(1, differs.int().argmax(1, keepdim=True)).squeeze(1)
    return nearest.masked_fill(~differs.any(1), -1)


# Thresholds of the alarms

SMALL_KL = 0.2  # nats per item; by Pinsker's inequality, prior and posterior then differ in one draw of three at most
ABOVE_FREE_BITS = 1.1  # a posterior without information has a KL near the free bits; a tenth is noise over batches
ACTIVE_SHARE = 0.05  # of dz that varies over inputs; below, the rest of z is noise
IGNORED_MARGIN = 0.01  # share of a reconstruction of 20 to 30 nats: about SMALL_KL
LEAK_RATIO, LEAK_NATS = 2.0, 1.0  # KL on training and validation items; overfitting or chance alone come to less
# Share of items whose target's keyword is a neighbour of the input's, training above validation: on QQP 0.88 where the
# graph tells an item its target, 0.18 where siblings do, 0.04 where its component is hidden.
LEAK_SHARE = 0.15
IGNORED_SWAP = 0.01  # total variation of the next token: another keyword changes less than one token in a hundred
VANISHED_SHARE = 0.9  # of losses under 0.01; above, the contrast hardly trains the model
STUCK_CHANGE, STUCK_EPOCHS = 0.02, 3  # a contrast that trains falls by more in so many epochs
# Place of the impostor on the way from the easiest candidate to the hardest (a plain mean of candidates is above the
# middle), and the least difference of their cosines: below it, all candidates are about equally hard.
EASY_PLACE, EASY_SPREAD = 0.5, 0.02
EQUAL_VECTORS = 0.95  # cosine of output and impostor keyword; above, the contrast can hardly tell them apart
SHRUNK_LOG_SIGMA = 0.35  # half of log 2: at this fall of mean log s all distances double without a moving vector
_REC = "validation_reconstruction"


@dataclass(frozen=True)
class Alarm:
    """A problem of a training since ``epoch`` (from 1); ``advice`` says what to try."""

    name: str
    epoch: int
    message: str
    advice: str


class _Sign(NamedTuple):
    """A condition that raises an alarm; ``message`` is filled with the last row, ``first`` and ``config``."""

    name: str
    columns: Sequence[str]  # which the last epoch must have
    applies: Callable[[HclConfig], bool]
    holds: Callable[[Row, Row, HclConfig], bool]
    message: str
    advice: str


def _gain(row: Row) -> float:
    """Return how much worse the best other z is than the posterior's, relative to its reconstruction; 0 if unknown."""
    others = [row[name] for name in (f"{_REC}_prior", f"{_REC}_zero") if name in row]
    return min(others) / row[_REC] - 1.0 if len(others) == 2 else 0.0


def _collapsed(row: Row, _: Row, config: HclConfig) -> bool:
    kl = row["validation_kl"]
    if kl <= SMALL_KL or row["validation_active_units"] < ACTIVE_SHARE * config.latent.size:
        return True
    return kl <= ABOVE_FREE_BITS * config.latent.free_bits and _gain(row) < IGNORED_MARGIN


def _leaks(row: Row, *_: object) -> bool:
    seen, unseen = row["validation_kl_train"], row["validation_kl"]
    return unseen > max(LEAK_RATIO * seen, seen + LEAK_NATS)


def _easy(row: Row, *_: object) -> bool:
    impostor, hardest, easiest = (row[f"train_{name}"] for name in IMPOSTOR_COSINES)
    return hardest - easiest > EASY_SPREAD and impostor - easiest < EASY_PLACE * (hardest - easiest)


def _vanished(name: str) -> _Sign:
    return _Sign(
        f"contrast_vanished_{name}", (f"train_{name}_vanished",), lambda config: name in config.contrasts_used,
        lambda row, *_: row[f"train_{name}_vanished"] > VANISHED_SHARE,
        f"the {name} contrast is below {VANISHED_LOSS} for {{train_{name}_vanished:.0%}} of the items that take part: "
        f"it hardly trains the model any more", f"raise contrasts.{name}.temperature, or use harder negatives")


_SIGNS = (
    _Sign(
        "posterior_collapse", ("validation_kl", "validation_active_units"), lambda config: config.latent.enabled,
        _collapsed,
        "KL(q || p) is {validation_kl:.3g} nats per item (free bits: {config.latent.free_bits:g}) with "
        "{validation_active_units:.0f} of {config.latent.size} units active: z has little information about the target",
        "lengthen latent.annealing_steps or the training, or raise latent.free_bits or decoder.source_dropout"),
    _Sign(
        "latent_ignored", (_REC, f"{_REC}_prior", f"{_REC}_mean", f"{_REC}_zero"),
        lambda config: config.latent.enabled,
        lambda row, *_: _gain(row) < IGNORED_MARGIN
        or (row[f"{_REC}_zero"] - row[f"{_REC}_mean"]) / row[_REC] < IGNORED_MARGIN,
        "reconstruction is {validation_reconstruction:.4g} nats with z from the posterior, "
        "{validation_reconstruction_prior:.4g} with z from the prior, {validation_reconstruction_mean:.4g} with its "
        "mean and {validation_reconstruction_zero:.4g} with z = 0: the decoder hardly uses z, or the prior's mean",
        "reconstruct a share of the texts from the prior's mean (latent.prior_share), or raise decoder.source_dropout "
        "or latent.free_bits"),
    _Sign(
        "kl_under_floor", ("validation_kl",),
        lambda config: config.latent.enabled and config.latent.free_bits_for == "both",
        lambda row, _, config: row["validation_kl"] <= config.latent.free_bits,
        "KL(q || p) is {validation_kl:.3g} nats per item, under its free bits ({config.latent.free_bits:g}), where it "
        "has no gradient: prior, keyword and graph learn from the contrasts alone",
        "set latent.free_bits_for posterior, or lower latent.free_bits"),
    _Sign(
        "leak", ("validation_kl_train", "validation_kl"),
        lambda config: config.latent.enabled, _leaks,
        "KL(q || p) is {validation_kl_train:.3g} nats on training items and {validation_kl:.3g} on validation items: "
        "the prior has information about the targets of training items that it lacks for validation items",
        "hide each item's own edges and target from its prior (graph.own_edges), see whether the splits share texts, "
        "and stop earlier if the model overfits"),
    _Sign(
        "keyword_ignored", ("validation_swap_outputs",), lambda config: config.uses_keyword,
        lambda row, *_: row["validation_swap_outputs"] < IGNORED_SWAP,
        "given another item's keyword, the distribution of the next token moves by {validation_swap_outputs:.2%}: "
        "outputs do not depend on the keyword",
        "give the decoder the keyword (decoder.kw_memory), train the prior by reconstruction (latent.prior_share "
        "or latent.free_bits_for posterior), or hide more of the source (decoder.source_dropout)"),
    _Sign(
        "impostor_easy", [f"train_{name}" for name in IMPOSTOR_COSINES],
        lambda config: not {"keyword", "mahalanobis"}.isdisjoint(config.contrasts_used), _easy,
        "the impostor's cosine to the output keyword is {train_impostor_cosine:.3g}, nearer to the easiest "
        "candidate's ({train_impostor_easiest:.3g}) than to the hardest's ({train_impostor_hardest:.3g}): the contrast "
        "is too easy",
        "set keyword.impostor_weight to cosine, since the contrasts train a matrix towards the easiest candidates; "
        "raise max_neighbours of the stage graph, or inspect the edges"),
    *map(_vanished, CONTRASTS),
    _Sign(
        "spread_shrinking", ("train_mean_log_sigma", "train_mahalanobis"),
        lambda config: "mahalanobis" in config.contrasts_used,
        lambda row, first, _: row["train_mahalanobis"] < first["train_mahalanobis"]
        and row["train_mean_log_sigma"] < first["train_mean_log_sigma"] - SHRUNK_LOG_SIGMA,
        "mean log s of the posterior fell from {first[train_mean_log_sigma]:.3g} to {train_mean_log_sigma:.3g} while "
        "the Mahalanobis contrast fell from {first[train_mahalanobis]:.3g} to {train_mahalanobis:.3g}: both distances "
        "grow as s shrinks, so the contrast may fall without any vector moving",
        "compare with contrasts.mahalanobis.weight 0; raise its temperature or lower its weight"),
)


def find_alarms(rows: Sequence[Row], config: HclConfig) -> list[Alarm]:
    """Return the alarms that hold after the last of ``rows``, a training's history by epoch."""
    alarms = []
    for sign in _SIGNS:
        measured = [row for row in rows if all(column in row for column in sign.columns)]
        if not sign.applies(config) or not measured or measured[-1] is not rows[-1]:
            continue
        epochs = [*(sign.holds(row, measured[0], config) for row in reversed(measured)), False].index(False)
        if epochs:
            message = sign.message.format(config=config, first=measured[0], **rows[-1])
            alarms.append(Alarm(sign.name, int(measured[-epochs]["epoch"]), message, sign.advice))
    vanished = {alarm.name for alarm in alarms}
    return alarms + [alarm for name in config.contrasts_used if f"contrast_vanished_{name}" not in vanished
                     if (alarm := _stuck(rows, config, name)) is not None]


def leak_of_graph(seen: float, held_out: float, config: HclConfig) -> Alarm | None:
    """Return the alarm of a graph that tells training items their target; None for a model that does not read it.

    ``seen`` and ``held_out`` are shares of training and validation items whose target's keyword is a neighbour.
    """
    if not config.uses_keyword or config.graph.iterations == 0 or seen - held_out <= LEAK_SHARE:
        return None
    return Alarm("leak", 1, f"in the graph, the target's keyword is a neighbour of the input's for {seen:.0%} of the "
                            f"training items with two different keywords, and for {held_out:.0%} of such validation "
                            f"items: the graph reveals the targets of training items",
                 "hide from each item what its component contributed to the graph (graph.own_edges component)")


def _stuck(rows: Sequence[Row], config: HclConfig, name: str) -> Alarm | None:
    values = [row[f"train_{name}"] for row in rows if f"train_{name}" in row]
    largest = max(values, default=0.0)
    if len(values) < STUCK_EPOCHS or largest <= 0 or (largest - min(values)) / largest >= STUCK_CHANGE:
        return None
    advice = (f"lower contrasts.{name}.temperature, raise its weight or the learning rate, and look at "
              f"train_{name}_masked: few items may take part")
    if name == "keyword" and config.graph.iterations == 0:
        advice = ("without graph attention (graph.iterations 0) keyword vectors are constants, and the contrast has "
                  "nothing to train: set its weight to 0, or graph.iterations above 0")
    elif name == "keyword" and rows[-1].get("train_impostor_cosine", 0.0) >= EQUAL_VECTORS:
        advice = ("output and impostor keyword have nearly the same vector, as happens if many keywords share their "
                  "neighbours: lower max_neighbours of the stage graph, or set contrasts.keyword.weight to 0")
    return Alarm(f"contrast_stuck_{name}", int(rows[0]["epoch"]),
                 f"the {name} contrast stayed between {min(values):.4g} and {largest:.4g} for {len(values)} epochs "
                 f"(log 2 = 0.693 is where its two sides are equal)", advice)
