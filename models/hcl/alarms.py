"""Named alarms from a training history: a latent variable or keyword without use, a leak, contrasts that teach nothing.

Every threshold is a named constant with its reason. An alarm stands if its sign is there in the last epoch; it
names the epoch since which it has been.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from models.hcl.config import HclConfig
    from models.hcl.contrasts import Contrast

Row = Mapping[str, float]

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
_LIKENESS = ("train_impostor_cosine", "train_impostor_hardest", "train_impostor_easiest")
_MEAN = "validation_reconstruction_mean"
_RECONSTRUCTIONS = ("validation_reconstruction", "validation_reconstruction_prior", "validation_reconstruction_zero")


@dataclass(frozen=True)
class Alarm:
    """Something that a training should be looked at for.

    Attributes:
        name: ``posterior_collapse``, ``latent_ignored``, ``kl_under_floor``, ``leak``, ``keyword_ignored``,
            ``contrast_vanished_<contrast>``, ``contrast_stuck_<contrast>``, ``impostor_easy``, or an alarm that one
            contrast has beside these (``spread_shrinking``).
        epoch: 1-based epoch since which the sign has been there.
        message: what was seen, with figures.
        advice: what to try.
    """

    name: str
    epoch: int
    message: str
    advice: str


def find_alarms(rows: Sequence[Row], config: "HclConfig") -> list[Alarm]:
    """Return the alarms that stand after the last of ``rows``; none for what the configuration leaves out.

    Args:
        rows: history of a training, one mapping per epoch with ``epoch``, ``train_*`` and ``validation_*``; signs
            whose columns are missing are not looked for.
        config: the model's configuration.
    """
    if not rows:
        return []
    found: list[Alarm | None] = []
    if config.latent["enabled"]:
        found += [_collapse(rows, config), _ignored(rows, config), _under_floor(rows, config)]
        if config.latent["posterior"] == "absolute":  # the KL of a relative one does not read the prior
            found.append(_leak(rows))
    if config.uses_keyword:
        found.append(_keyword_ignored(rows, config))
    if any(contrast.needs_keyword for contrast in config.contrasts_used):
        found.append(_easy(rows, config))
    for contrast in config.contrasts_used:
        vanished = _vanished(rows, config, contrast.name)
        found += [vanished, _stuck(rows, config, contrast) if vanished is None else None, *contrast.alarms(rows)]
    return [alarm for alarm in found if alarm is not None]


def leak_of_graph(seen: float, held_out: float, config: "HclConfig") -> Alarm | None:
    """Return the alarm of a graph that tells training items their target, whatever posterior and prior make of it.

    Args:
        seen: share of training items, of those with two different keywords, whose target's keyword is a neighbour of
            the input's.
        held_out: the same of validation items.
        config: the model's configuration; one that does not read the graph has no alarm.
    """
    if not config.uses_keyword or config.graph["iterations"] == 0 or seen - held_out <= LEAK_SHARE:
        return None
    return Alarm(
        "leak", 1,
        f"the graph has the target's keyword beside the input's for {100 * seen:.0f} % of the training items with two "
        f"different keywords, and for {100 * held_out:.0f} % of those of validation: it tells a training item its "
        f"target",
        "hide from each item what its component gave to the graph (graph.own_edges component)",
    )


def holds_since(rows: Sequence[Row], columns: Sequence[str], holds: Callable[[Row], bool]) -> int | None:
    """Return the epoch since which ``holds`` has been true up to the last row; None if it is not true there."""
    epoch = None
    for row in reversed(rows):
        if not all(column in row for column in columns) or not holds(row):
            break
        epoch = int(row["epoch"])
    return epoch


def _collapse(rows: Sequence[Row], config: "HclConfig") -> Alarm | None:
    free, fewest = ABOVE_FREE_BITS * config.latent["free_bits"], ACTIVE_SHARE * config.latent_size

    def collapsed(row: Row) -> bool:
        if row["validation_kl"] <= SMALL_KL or row["validation_active_units"] < fewest:
            return True
        return row["validation_kl"] <= free and _gain(row) < IGNORED_MARGIN

    epoch = holds_since(rows, ("validation_kl", "validation_active_units"), collapsed)
    if epoch is None:
        return None
    last = rows[-1]
    return Alarm(
        "posterior_collapse", epoch,
        f"KL(q || p) is {last['validation_kl']:.3g} nats per item (free bits: {config.latent['free_bits']:g}) with "
        f"{last['validation_active_units']:.0f} of {config.latent_size} units active: z says little of the target",
        _advice("lengthen latent.annealing_share", "raise latent.free_bits or decoder.source_dropout",
                "set latent.batch_norm" if not config.latent["batch_norm"] else ""),
    )


def _advice(*steps: str) -> str:
    """Return what to try in one line; a step that the configuration has taken already comes empty and is not given."""
    *others, last = [step for step in steps if step]
    return f"{', '.join(others)}, or {last}" if others else last


def _losses(row: Row) -> list[float]:
    """Return how much worse the reconstruction is, as shares, with z from the prior and with z = 0."""
    return [row[column] / row[_RECONSTRUCTIONS[0]] - 1.0 for column in _RECONSTRUCTIONS[1:]]


def _gain(row: Row) -> float:
    """Return what z from the posterior is worth at least, as a share of the reconstruction; 0 if nobody measured it."""
    return min(_losses(row)) if all(column in row for column in _RECONSTRUCTIONS) else 0.0


def _mean_gain(row: Row) -> float | None:
    """Return what the prior's mean is worth against z = 0, as a share of the reconstruction; None if not measured."""
    if _MEAN not in row or not all(column in row for column in _RECONSTRUCTIONS):
        return None
    return (row[_RECONSTRUCTIONS[-1]] - row[_MEAN]) / row[_RECONSTRUCTIONS[0]]


def _ignored(rows: Sequence[Row], config: "HclConfig") -> Alarm | None:
    def ignored(row: Row) -> bool:
        mean = _mean_gain(row)
        return _gain(row) < IGNORED_MARGIN or (mean is not None and mean < IGNORED_MARGIN)

    epoch = holds_since(rows, _RECONSTRUCTIONS, ignored)
    if epoch is None:
        return None
    last, (prior, zero) = rows[-1], (100 * share for share in _losses(rows[-1]))
    what = "the decoder hardly reads z"
    if _gain(last) >= IGNORED_MARGIN:
        what = "it is decoded from the prior's mean, which is hardly better than no z at all"
    relative = config.latent["posterior"] == "relative" and config.latent["batch_norm"] > 0
    entries = " or ".join(one for one in ("memory+embed", "layers") if one != config.latent["enters"])
    known = f", {100 * (last[_MEAN] / last[_RECONSTRUCTIONS[0]] - 1.0):+.2f} % with its mean" if _MEAN in last else ""
    return Alarm(
        "latent_ignored", epoch,
        f"reconstruction is {prior:+.2f} % with z from the prior{known} and {zero:+.2f} % with z = 0, against z from "
        f"the posterior: {what}",
        f"let z enter in another place (latent.enters: {entries}), raise decoder.source_dropout "
        "or latent.free_bits" + ("" if relative else "; so that the prior learns what the "
        "posterior tells the decoder, set latent.posterior relative, with latent.batch_norm"),
    )


def _under_floor(rows: Sequence[Row], config: "HclConfig") -> Alarm | None:
    latent, column = config.latent, "validation_under_floor"
    if latent["free_bits_for"] == "posterior" or latent["posterior"] == "relative":
        return None  # the prior has its gradient all the same
    epoch = holds_since(rows, (column,), lambda row: row[column] > FLOOR_SHARE)
    if epoch is None:
        return None
    return Alarm(
        "kl_under_floor", epoch,
        f"KL is under its free bits ({latent['free_bits']:g} nats by {latent['free_bits_by']}) in "
        f"{100 * rows[-1][column]:.0f} % of the dimensions, where it has no gradient: prior, keyword and graph learn "
        f"from the contrasts alone",
        _advice("set latent.free_bits_for posterior", "set latent.posterior relative",
                "set latent.free_bits_by total" if latent["free_bits_by"] != "total" else "",
                "lower latent.free_bits"),
    )


def _leak(rows: Sequence[Row]) -> Alarm | None:
    seen, held_out = "validation_kl_train", "validation_kl"

    def leaking(row: Row) -> bool:
        small, large = sorted((row[seen], row[held_out]))
        return large > LEAK_RATIO * small and large - small > LEAK_NATS

    epoch = holds_since(rows, (seen, held_out), leaking)
    if epoch is None:
        return None
    below = rows[-1][seen] < rows[-1][held_out]
    what = ("the prior knows of the target in training what it does not know here" if below
            else "the prior lacks in training what it has here")
    return Alarm(
        "leak", epoch,
        f"KL(q || p) is {rows[-1][seen]:.3g} nats on training items and {rows[-1][held_out]:.3g} on validation items: "
        f"{what}",
        "hide each item's own edges and target from its prior in training (the leave-one-out graph), see whether the "
        "splits share texts, and stop earlier if the model overfits" if below
        else "see whether validation items are easier, or their texts occur in training",
    )


def _keyword_ignored(rows: Sequence[Row], config: "HclConfig") -> Alarm | None:
    column, of_prior = "validation_swap_outputs", "validation_swap_prior"
    epoch = holds_since(rows, (column,), lambda row: row[column] < IGNORED_SWAP)
    if epoch is None:
        return None
    last, latent = rows[-1], config.latent
    # Of both the prior has its gradient, by which reconstruction reaches the keyword.
    taught = not latent["enabled"] or latent["posterior"] == "relative" or latent["free_bits_for"] == "posterior"
    way = f" (the prior's mean moves by {last[of_prior]:.2g} of its spread)" if of_prior in last else ""
    return Alarm(
        "keyword_ignored", epoch,
        f"given another item's keyword, the distribution of the next token moves by {100 * last[column]:.2g} %{way}: "
        f"outputs do not depend on the keyword",
        _advice("let the decoder see the keyword (decoder.kw_memory)" if not config.decoder["kw_memory"] else "",
                "" if taught else "let reconstruction teach it (latent.posterior relative, or latent.free_bits_for "
                "posterior)",
                f"hide {'more' if config.decoder['source_dropout'] else 'some'} of the source "
                f"(decoder.source_dropout)"),
    )


def _easy(rows: Sequence[Row], config: "HclConfig") -> Alarm | None:
    def easy(row: Row) -> bool:
        impostor, hardest, easiest = (row[column] for column in _LIKENESS)
        return hardest - easiest > EASY_SPREAD and impostor - easiest < EASY_PLACE * (hardest - easiest)

    epoch = holds_since(rows, _LIKENESS, easy)
    if epoch is None:
        return None
    impostor, hardest, easiest = (rows[-1][column] for column in _LIKENESS)
    return Alarm(
        "impostor_easy", epoch,
        f"the impostor's cosine to the output keyword is {impostor:.3g}, nearer to the easiest candidate's "
        f"({easiest:.3g}) than to the hardest's ({hardest:.3g}): it is made of what is easily told apart",
        _advice("set keyword.imp_weight to cosine: a matrix that the contrasts train seeks what is easy"
                if config.keyword["imp_weight"] != "cosine" else "", "raise graph.max_nbr or read the edges"),
    )


def _vanished(rows: Sequence[Row], config: "HclConfig", name: str) -> Alarm | None:
    column = f"train_{name}_vanished"
    epoch = holds_since(rows, (column,), lambda row: row[column] > VANISHED_SHARE)
    if epoch is None:
        return None
    temperature = config.contrasts[name]["temperature"]
    return Alarm(
        f"contrast_vanished_{name}", epoch,
        f"the {name} contrast is below 0.01 for {100 * rows[-1][column]:.0f} % of the items that take part: it no "
        f"longer teaches them anything",
        f"raise contrasts.{name}.temperature (now {temperature:g}), or take harder negatives",
    )


def _stuck(rows: Sequence[Row], config: "HclConfig", contrast: "Contrast") -> Alarm | None:
    column = f"train_{contrast.name}"
    values = [row[column] for row in rows if column in row]
    largest = max(values, default=0.0)
    if len(values) < STUCK_EPOCHS or largest <= 0 or (largest - min(values)) / largest >= STUCK_CHANGE:
        return None
    return Alarm(
        f"contrast_stuck_{contrast.name}", int(rows[0]["epoch"]),
        f"the {contrast.name} contrast stayed between {min(values):.4g} and {largest:.4g} for {len(values)} epochs"
        + (" (log 2 = 0.693 is where its two sides are equal)" if contrast.two_sided else ""),
        contrast.advice_if_stuck(config),
    )
