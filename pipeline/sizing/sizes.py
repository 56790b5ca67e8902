"""``sizes: auto``: sizes of models and trainings that fit a machine and a data set, as plain numbers.

The one place where a machine decides a value that changes results: ``keycontrast use`` asks it once and writes what
comes out to ``params.yaml``. What a recipe spells out wins.

    values = fitting_sizes(params, {"mine": extent}, Machine(2, 24))   # nested like params.yaml
"""

from collections.abc import Mapping
from typing import Any

from pipeline.sizing.keyword_models import COSTS
from pipeline.sizing.machine import Machine
from stages.params import Params
from stages.tracks.common.cost import Extent, Kind
from stages.tracks.registry import TRACKS

_MANY_CORES, _LARGE_GIB, _MOST_THREADS = 8, 40, 8
_PAIRS = "pairs"    # what the models that score keywords are trained on


def kind_of(machine: Machine) -> Kind:
    """Return which row of the tables a machine is."""
    if machine.gpu_gib:
        return "large GPU" if machine.gpu_gib >= _LARGE_GIB else "GPU"
    return "many cores" if machine.cores >= _MANY_CORES else "few cores"


def sized_datasets(params: Params) -> dict[str, list[str]]:
    """Return, by track that has models, the data sets that its sizes go by; ``pairs`` has those of the classifier."""
    found = {track.name: list(dict.fromkeys(model.dataset for model in track.models(params).values()))
             for track in TRACKS.values()}
    ranked = params.ranked_datasets
    found[_PAIRS] = [name for name in params.datasets if name in ranked["attribution"] | ranked["psi"]]
    return {track: names for track, names in found.items() if names}


def fitting_sizes(params: Params, extents: Mapping[str, Extent], machine: Machine) -> dict[str, Any]:
    """Return values, nested like ``params.yaml``, for what params leave to ``sizes: auto``.

    Args:
        params: of the recipe, for its data sets, models and encoder.
        extents: of every data set in :func:`sized_datasets`; the largest of a track decides.
        machine: what they are to fit.
    """
    kind = kind_of(machine)
    values: dict[str, Any] = {"runtime": _runtime(kind, machine)}
    for track, names in sized_datasets(params).items():
        extent = max((extents[name] for name in names), key=lambda extent: extent.train)
        for cost in COSTS.values() if track == _PAIRS else (TRACKS[track].cost,):
            values |= cost.sizes(params, kind, extent)
    return values


def _runtime(kind: Kind, machine: Machine) -> dict[str, int]:
    """Return threads, half the cores, because two stages run at a time, and workers."""
    threads = 4 if kind in ("GPU", "large GPU") else machine.cores // 2
    return {"threads": max(1, min(threads, machine.cores, _MOST_THREADS)),
            "workers": min(machine.cores, _MOST_THREADS)}


def why(params: Params, extents: Mapping[str, Extent], machine: Machine) -> list[str]:
    """Return in words what was gone by: the machine, and the data sets."""
    lines = [f"sizes: auto, for a machine with {kind_of(machine)} ({machine})"]
    for track, names in sized_datasets(params).items():
        one = max(names, key=lambda name: extents[name].train)
        extent, classifies = extents[one], track in TRACKS and TRACKS[track].classifies
        output = "" if classifies else f" and {extent.outputs} of output"
        lines.append(f"  {track}: about {extent.train:,} training items of {one}, 95 in 100 with at most "
                     f"{extent.inputs} words of input{output}")
    return lines
