"""What blocks of the CLLD track must have in common, which no block sees by itself, and what is filled in for DVC.

Each fault would stop a stage hours after others have run; so it is told before any work.
"""

from collections.abc import Mapping
from typing import Any

from stages.params.clld import NO_PAIRS, ClldModel, TrainClld
from stages.runtime.errors import nearest

PAIRS = "artifacts/confusing_pairs/{model}"


def with_watched_pairs(models: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``models.clld`` as read, with ``pairs_from`` filled in from ``pairs_of``.

    Raises:
        ValueError: a value that was given is another one.
    """
    filled = {}
    for name, model in models.items():
        if not isinstance(model, Mapping):
            return dict(models)
        other = model.get("pairs_of")
        watched = NO_PAIRS if other is None else PAIRS.format(model=other)
        given = model.get("pairs_from", watched)
        if given != watched:
            raise ValueError(f"models.clld.{name}.pairs_from: is {given!r}, and pairs_of asks for {watched!r}; write "
                             f"that, or leave it out and `keycontrast use` fills it in")
        filled[name] = {**model, "pairs_from": watched}
    return filled


def with_data_sets(runs: Mapping[str, Any], models: Any) -> dict[str, Any]:
    """Return ``runs.clld`` as read, with the data set of each run's model filled in.

    Raises:
        ValueError: a data set that was given is another one.
    """
    filled = {}
    for name, run in runs.items():
        model = models.get(run.get("model")) if isinstance(run, Mapping) and isinstance(models, Mapping) else None
        own = model.get("dataset") if isinstance(model, Mapping) else None
        if own is not None and run.get("dataset", own) != own:
            raise ValueError(f"runs.clld.{name}.dataset: is {run['dataset']!r}, and its model is of {own!r}; write "
                             f"that, or leave it out and `keycontrast use` fills it in")
        filled[name] = run if own is None else {**run, "dataset": own}
    return filled


def consulted(models: Any) -> list[str]:
    """Return the models that others take their pairs from, each once, in the order of ``models`` (as read)."""
    if not isinstance(models, Mapping):
        return []
    named = {model.get("pairs_of") for model in models.values() if isinstance(model, Mapping)}
    return [name for name in models if name in named]


def unfit_sources(models: Mapping[str, ClldModel]) -> list[str]:
    """Return what is wrong with the models that others take their pairs from: they must be CT of the same data set."""
    problems = []
    for name, model in models.items():
        other = model.pairs_of
        if other is None:
            continue
        place = f"models.clld.{name}.pairs_of"
        plain = [one for one, found in models.items() if found.contrast == "none" and found.dataset == model.dataset]
        if other not in models:
            problems.append(f"{place}: no model {other!r}; {nearest(other, plain or models)}")
        elif models[other].contrast != "none":
            problems.append(f"{place}: model {other!r} has contrast {models[other].contrast}, and pairs are read off a "
                            f"plain CT model (contrast none); {nearest(other, plain)}")
        elif models[other].dataset != model.dataset:
            problems.append(f"{place}: model {other!r} is of data set {models[other].dataset}, and this one of "
                            f"{model.dataset}; {nearest(other, plain)}")
    return problems


def lonely_texts(name: str, contrast: str, values: TrainClld) -> list[str]:
    """Return what is wrong if model ``name`` has a contrast and batches of one text, so no negatives."""
    if contrast == "none" or values.contrast.weight == 1 or values.training.batch_size > 1:
        return []
    return [f"models.clld.{name}: training.batch_size of 1 leaves the contrast nothing but the two views of a text; "
            f"give at least 2, or set contrast to none"]
