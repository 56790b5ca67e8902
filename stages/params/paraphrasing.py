"""What blocks of the PGKPR track must have in common, which no block sees by itself.

Each fault would stop a stage, or spoil a model, hours after others have run; so it is told before any work.
"""

from collections.abc import Mapping
from typing import Any

from stages.params.data import Attribution, Psi
from stages.params.pgkpr import READING, GeneratePgkpr, TrainPgkpr


def missing_modes(attribution: Attribution, psi: Psi, paraphrased: bool, tagged: bool) -> list[str]:
    """Return which modes of keyword scores are not computed although a stage reads them.

    Args:
        attribution: its block.
        psi: its block.
        paraphrased: there are models of the PGKPR track, whose pairs have scores of both modes.
        tagged: there are data sets for which the S-Tagger is trained.
    """
    problems = []
    for block, modes in (("attribution", attribution.modes), ("psi", psi.modes)):
        lacking = [mode for mode in ("xx", "xy") if mode not in modes]
        if lacking and paraphrased:
            problems.append(f"{block}.modes: {' and '.join(lacking)} missing, and models.pgkpr needs the scores of "
                            f"both; write [xx, xy]")
        elif "xy" in lacking and tagged and block == "psi":
            problems.append("psi.modes: xy missing, from which the S-Tagger learns; write [xx, xy], or set "
                            "side_by_side of the data sets to false")
    return problems


def idle_contrast(name: str, model: TrainPgkpr) -> list[str]:
    """Return what is wrong if model ``name`` has a contrast and batches of one pair, so no negatives."""
    if model.architecture != "pgkpr" or not model.contrast.weight or model.training.batch_size > 1:
        return []
    return [f"models.pgkpr.{name}: training.batch_size of 1 leaves the contrast without negatives; give at least 2, or "
            f"set contrast.weight to 0"]


def unread_keywords(name: str, own: Mapping[str, Any], decoding: GeneratePgkpr, architecture: str,
                    model: str) -> list[str]:
    """Return what is wrong if run ``name`` says which keywords its model reads, and that reads none.

    Args:
        name: of the run.
        own: what the run lays over the block ``generate_pgkpr``.
        decoding: both together.
        architecture: of the run's model.
        model: its name.
    """
    if decoding.keywords is None or architecture in READING:
        return []
    said = f"{decoding.keywords!r} is given, and model {model!r} ({architecture}) reads no keywords"
    if own.get("keywords") is not None:
        return [f"runs.pgkpr.{name}.decode.keywords: {said}; take it out"]
    return [f"generate_pgkpr.keywords: {said}; write `keywords: null` under runs.pgkpr.{name}.decode, or here"]
