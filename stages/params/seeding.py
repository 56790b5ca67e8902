"""The seeds that the models of the params are trained with, spelt out before anything else is looked at.

Each row then says its own, so that DVC sees a seed that is added as a change of that row alone.
"""

from collections.abc import Mapping
from typing import Any

# What names the model that another one begins with, or takes its pairs of classes from.
_EARLIER = ("init_from", "pairs_of")


def seed_of_earlier(seed: int, seeds: list[int]) -> int:
    """Return which of the ``seeds`` of an earlier model goes with ``seed`` of a later one: the same, else the first."""
    return seed if seed in seeds else seeds[0]


def with_seeds(models: Mapping[str, Any], seed: Any) -> dict[str, Any]:
    """Return ``models`` of one track as read, with ``seeds`` and ``earlier_seeds`` filled in.

    Args:
        models: by name.
        seed: the project's.

    Raises:
        ValueError: a model has no seed, or other ``earlier_seeds`` than its ``seeds`` ask for.
    """
    if not all(isinstance(model, Mapping) for model in models.values()):
        return dict(models)
    seeds = {name: [seed] if model.get("seeds") is None else model["seeds"] for name, model in models.items()}
    filled = {}
    for name, model in models.items():
        if seeds[name] == []:
            raise ValueError(f"{name}.seeds: names no seed; name one, or write null for the project's")
        filled[name] = {**model, "seeds": seeds[name]}
        earlier = next((str(model[key]) for key in _EARLIER if model.get(key) is not None), "")
        if isinstance(seeds[name], list) and isinstance(given := seeds.get(earlier), list) and given:
            wanted = [seed_of_earlier(one, given) for one in seeds[name]]
            if model.get("earlier_seeds") not in (None, [], wanted):
                raise ValueError(f"{name}.earlier_seeds: is {model['earlier_seeds']}, and the seeds of {name} and "
                                 f"{earlier} ask for {wanted}; write that, or leave it out and `keycontrast use` fills "
                                 f"it in")
            filled[name]["earlier_seeds"] = wanted
    return filled
