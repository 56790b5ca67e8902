"""Named alarms from a training history: collapse of the posterior, contrasts that vanish or never move.

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
# METHODS A.6: above this share of losses under 0.01 the contrast teaches nobody.
VANISHED_SHARE = 0.9
# A contrast that teaches falls by more than two percent in three epochs.
STUCK_CHANGE, STUCK_EPOCHS = 0.02, 3
# Of the way from the easiest candidate to the hardest; a plain mean of candidates lies above the middle, since a mean
# is nearer to anything than its parts are. Candidates closer together than the second figure leave nothing to choose.
EASY_PLACE, EASY_SPREAD = 0.5, 0.02
_LIKENESS = ("train_impostor_cosine", "train_impostor_hardest", "train_impostor_easiest")
_RECONSTRUCTIONS = ("validation_reconstruction", "validation_reconstruction_prior", "validation_reconstruction_zero")


@dataclass(frozen=True)
class Alarm:
    """Something that a training should be looked at for.

    Attributes:
        name: ``posterior_collapse``, ``latent_ignored``, ``contrast_vanished_<contrast>``,
            ``contrast_stuck_<contrast>``, ``impostor_easy``, or an alarm that one contrast has beside these
            (``spread_shrinking``).
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
        found += [_collapse(rows, config), _ignored(rows)]
    if any(contrast.needs_keyword for contrast in config.contrasts_used):
        found.append(_easy(rows))
    for contrast in config.contrasts_used:
        vanished = _vanished(rows, config, contrast.name)
        found += [vanished, _stuck(rows, config, contrast) if vanished is None else None, *contrast.alarms(rows)]
    return [alarm for alarm in found if alarm is not None]


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
        "lengthen latent.annealing_share or set latent.annealing_cycles, raise latent.free_bits or "
        "latent.word_dropout, set latent.bow_loss",
    )


def _losses(row: Row) -> list[float]:
    """Return how much worse the reconstruction is, as shares, with z from the prior and with z = 0."""
    return [row[column] / row[_RECONSTRUCTIONS[0]] - 1.0 for column in _RECONSTRUCTIONS[1:]]


def _gain(row: Row) -> float:
    """Return what z from the posterior is worth at least, as a share of the reconstruction; 0 if nobody measured it."""
    return min(_losses(row)) if all(column in row for column in _RECONSTRUCTIONS) else 0.0


def _ignored(rows: Sequence[Row]) -> Alarm | None:
    epoch = holds_since(rows, _RECONSTRUCTIONS, lambda row: _gain(row) < IGNORED_MARGIN)
    if epoch is None:
        return None
    prior, zero = (100 * share for share in _losses(rows[-1]))
    return Alarm(
        "latent_ignored", epoch,
        f"reconstruction is {prior:+.2f} % with z from the prior and {zero:+.2f} % with z = 0, against z from the "
        f"posterior: the decoder hardly reads z",
        "let z enter in another place too (latent.enters: memory+embed), raise latent.word_dropout or "
        "latent.free_bits, set latent.bow_loss",
    )


def _easy(rows: Sequence[Row]) -> Alarm | None:
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
        "set keyword.imp_weight to cosine or mean: weights that the contrasts train seek the easiest candidate",
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
        f"the {contrast.name} contrast stayed between {min(values):.4g} and {largest:.4g} for {len(values)} epochs "
        f"(log 2 = 0.693 is where its two sides are equal)",
        contrast.advice_if_stuck(config),
    )
