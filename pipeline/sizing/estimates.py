"""How long a run will take and how much memory, roughly: said before it begins, and of no influence on any result.

Trainings are estimated from their floating-point operations; at the rates that trainings reached here before, if
``.keycontrast/records`` has any, else at those of a table. Everything else goes by items, at the seconds that the
same stage instance took here before, else by a table.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from pipeline.running.display import duration
from pipeline.running.workers import AT_ONCE
from pipeline.sizing.extent import extent_of
from pipeline.sizing.keyword_models import COSTS
from pipeline.sizing.machine import Machine
from pipeline.sizing.sizes import kind_of
from stages.common.methods import METHODS
from stages.params import Params
from stages.run.errors import InputError
from stages.tracks.common.cost import Extent, Kind
from stages.tracks.registry import TRACKS, all_models, all_runs, seeds_of_stage

# Seconds of a stage before and after its own work, DVC's included: with torch to be loaded, and without.
START_TORCH, START_PLAIN = 1.5, 0.7
# What trainings cost, by stage.
_TRAININGS = {**COSTS, **{track.trained_by: track.cost for track in TRACKS.values()}}
LAUNCH = 0.03     # seconds that a micro-batch takes on a GPU at least
# Seconds of one core: fixed, and per 1,000 items of the data set, or of the evaluated split for what a run does;
# measured on the sample, annotation and HCL's evaluation also on 36,000 question pairs and 500 test items, on the same
# processor as the rates.
SECONDS: dict[str, tuple[float, float]] = {
    "annotate": (2.0, 1.0), "attribution": (2.0, 28.0), "node_vectors": (2.0, 7.0), "side_by_side": (1.0, 5.0),
    "word_vectors": (1.0, 2.0), "ingest": (0.1, 0.2), "textrank": (0.2, 0.3), "graph": (0.3, 0.2), "report": (8.0, 0.0),
    "generate_hcl": (1.0, 50.0), "evaluate_hcl": (3.0, 20.0), "probe_hcl": (8.0, 0.0), "generate_pgkpr": (0.5, 8.0),
    "evaluate_pgkpr": (3.0, 70.0), "evaluate_clld": (0.5, 5.0), "linear_floor": (0.3, 1.0), "compare": (1.0, 0.0)}
# GiB of the processes that load torch but do not train, of a training beside what its sizes add, and of all others.
WITH_TORCH = {"attribution": 1.1, "node_vectors": 0.7, "generate_hcl": 0.8, "evaluate_hcl": 0.8, "probe_hcl": 1.0,
              "generate_pgkpr": 0.6, "evaluate_pgkpr": 0.8, "evaluate_clld": 0.6}
TRAINING, PLAIN = 0.5, 0.3
_RUNS = ("generate_", "evaluate_")
# Of disk: weights over the memory of a training that its sizes add; GiB of logs, and of Prefect's and DVC's records;
# bytes that a stage leaves per word that it reads. Rounded up from the sample.
_WEIGHTS, _STATE, _PER_WORD = 0.2, 0.05, 80
_SLOTS = 2  # of a checkpoint
_BESIDE_STEPS = 1.15  # validation and checkpoints: time of a training over that of its steps


@dataclass(frozen=True)
class Cost:
    """What a stage instance takes.

    Attributes:
        seconds: by the clock, if it runs alone.
        gib: of memory at its peak.
        left: GiB of disk that what it makes takes.
        scratch: GiB of disk that it needs besides until it is done.
    """

    seconds: float
    gib: float
    left: float = 0.0
    scratch: float = 0.0


@dataclass(frozen=True)
class Rates:
    """How fast this machine is.

    Attributes:
        flops: per second that the trainings of a stage do here, as far as they have been measured.
        seconds: that stage instances other than trainings took here.
        gib: that stage instances took here at their peak.
        speed: of this machine over that of the table.
        trainings: how many trainings this is drawn from.
    """

    flops: Mapping[str, float]
    seconds: Mapping[str, float]
    gib: Mapping[str, float]
    speed: float = 1.0
    trainings: int = 0


def measured_rates(folder: Path, kind: Kind, threads: int) -> Rates:
    """Return what the records in ``folder`` say of this machine; without any, the table's speed."""
    rates: dict[str, list[float]] = {}
    seconds, gib = {}, {}
    for path in sorted(folder.glob("*.json")):
        stage = path.stem.partition("@")[0]
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError:
            continue  # cut off while it was written; it would only have informed
        gib[path.stem] = record["peak_memory_mib"] / 1024
        training = record.get("training") or {}
        if {"flops_per_step", "seconds_per_step_median"} <= set(training):
            rates.setdefault(stage, []).append(training["flops_per_step"] / training["seconds_per_step_median"])
        elif stage not in _TRAININGS:
            seconds[path.stem] = record["seconds"]
    flops = {stage: median(found) for stage, found in rates.items()}
    ratios = [rate / _tabled(stage, kind, threads) for stage, rate in flops.items() if stage in _TRAININGS]
    return Rates(flops, seconds, gib, median(ratios) if ratios else 1.0, sum(map(len, rates.values())))


def _tabled(stage: str, kind: Kind, threads: int) -> float:
    """Return the table's operations per second; threads help each other less, the more they are."""
    return _TRAININGS[stage].rates[kind] * (threads**0.8 if "cores" in kind else 1.0)


def instances(params: Params, dvc: Mapping[str, Any]) -> list[str]:
    """Return the stage instances that ``dvc`` (parsed ``dvc.yaml``) makes of the params."""
    values, found = params.model_dump(mode="json"), []
    for stage, entry in dvc["stages"].items():
        keys: Any = values
        for part in str(entry.get("foreach", "")).strip("${}").split("."):
            keys = keys[part] if part else {"": None}
        found += [f"{stage}@{key}" if key else stage for key in keys]
    return found


def costs(params: Params, names: Iterable[str], extents: Mapping[str, Extent], machine: Machine,
          rates: Rates) -> dict[str, Cost]:
    """Return what each stage instance of ``names`` takes.

    Args:
        params: in force.
        names: stage instances, such as ``train_hcl@hcl``; of a stage that no table has, its start alone is counted.
        extents: of every data set.
        machine: that they run on.
        rates: measured on it, or none.
    """
    kind, threads = kind_of(machine), params.runtime.threads
    found = {}
    for name in names:
        stage, _, key = name.partition("@")
        extent = extents.get(dataset_of(params, stage, key))
        seeds = len(seeds_of_stage(params, stage, key)) or 1
        if extent is not None and stage in _TRAININGS:
            work = _TRAININGS[stage].work(params, key, extent)
            rate = rates.flops.get(stage) or rates.speed * _tabled(stage, kind, threads)
            launches = 0.0 if "cores" in kind else LAUNCH * work.passes
            found[name] = Cost(START_TORCH + seeds * _BESIDE_STEPS * max(work.flops / rate, launches),
                               TRAINING + work.gib, seeds * _WEIGHTS * work.gib, _SLOTS * _WEIGHTS * work.gib)
            continue
        # A run, a model may be called as one of another recipe was; what a data set's name stands for stays.
        seconds = rates.seconds.get(name) if key in params.datasets else None
        if seconds is None:
            fixed, each = SECONDS.get(stage, (0.1, 0.1))
            items = 0 if extent is None else extent.test if stage.startswith(_RUNS) else extent.items
            ranked = params.ranked_datasets.get(stage, {}).get(key)
            # A source stands beside itself and its target; where all texts are scored, so do target and negative.
            items *= 2 if ranked is not None and METHODS[stage].needs_pairs and ranked.texts == "all" else 1
            seconds = seeds * (fixed + each * items / 1000) / rates.speed
        start = START_TORCH if stage in WITH_TORCH else START_PLAIN
        words = 0 if extent is None else extent.items * (extent.inputs + extent.outputs)
        found[name] = Cost(start + seconds, rates.gib.get(name, WITH_TORCH.get(stage, PLAIN)),
                           _PER_WORD * words / 2**30)
    return found


def disk_gib(found: Mapping[str, Cost]) -> float:
    """Return the GiB of disk that must be free before stage instances begin, roughly, and rather too few."""
    scratch = sorted((cost.scratch for cost in found.values()), reverse=True)[:AT_ONCE]
    return _STATE + sum(cost.left for cost in found.values()) + sum(scratch)


def dataset_of(params: Params, stage: str, key: str) -> str:
    """Return the data set that a stage instance works on; empty for one without."""
    models, runs = all_models(params), {**all_runs(params), **params.probes.hcl}
    if stage.startswith((*_RUNS, "probe_")) and key in runs:
        key = runs[key].model
    elif key in params.datasets:
        return key
    return str(models[key].dataset) if key in models else ""


def total_seconds(params: Params, found: Mapping[str, Cost], machine: Machine) -> float:
    """Return the time by the clock: stages run two at a time, but none before what it reads."""
    at_once = min(AT_ONCE, machine.cores)
    way: dict[str, float] = {"": 0.0}
    last = 0.0
    for name, cost in found.items():
        stage, _, key = name.partition("@")
        dataset = dataset_of(params, stage, key)
        if not key:
            last += cost.seconds
        elif key in params.datasets:
            way[dataset] = way.get(dataset, 0.0) + cost.seconds
    chains = [way.get(dataset, 0.0) + sum(found[name].seconds for name in chain if name in found)
              for dataset, chain in _chains(params)]
    return max(sum(cost.seconds for cost in found.values()) / at_once, max([*chains, *way.values()]) + last)


def _chains(params: Params) -> Iterator[tuple[str, list[str]]]:
    """Yield, for each run, its data set and the stage instances that it waits for, trainings before its own too."""
    for track in TRACKS.values():
        models = track.models(params)
        for run, entry in track.runs(params).items():
            chain, model = [*dict.fromkeys((f"{track.computed_by}@{run}", f"{track.evaluated_by}@{run}"))], entry.model
            while model is not None:
                chain.append(f"{track.trained_by}@{model}")
                model = next(iter(track.follows(params, model).values()), None)
            yield models[entry.model].dataset, chain


def in_words(params: Params, found: Mapping[str, Cost], machine: Machine, rates: Rates) -> str:
    """Return the estimate as a sentence for a person: time, memory, what takes longest, and what it is drawn from."""
    longest = sorted(found, key=lambda name: -found[name].seconds)[:2]
    gib = sum(sorted((cost.gib for cost in found.values()), reverse=True)[:AT_ONCE])
    shown = ", ".join(f"{name} {duration(round(found[name].seconds))}" for name in longest)
    table = "rates of another machine" if "cores" in kind_of(machine) else "rates that nobody has measured"
    count = f"{rates.trainings} training{'s' if rates.trainings > 1 else ''}"
    source = f"what {count} took here" if rates.trainings else table
    return (f"About {duration(round(total_seconds(params, found, machine)))} for {len(found)} stages "
            f"({machine}), at most {gib:.1f} GiB of memory; longest: {shown}. Trainings are estimated from {source}.")


@dataclass(frozen=True)
class Estimate:
    """What to tell a person of the time and memory of some stage instances; as far as known, the seconds of each, and
    the GiB of disk that must be free before they begin.
    """

    sentence: str
    seconds: Mapping[str, float]
    disk_gib: float = _STATE


def estimate(params: Params, names: Iterable[str], machine: Machine, records: Path, root: Path = Path()) -> Estimate:
    """Return what stage instances ``names`` will take.

    Without data that can be read there is no estimate, and the sentence says why: what is wrong with the data is for
    the stage ``ingest`` to say in full.
    """
    try:
        extents = {name: extent_of(params, name, root) for name in params.datasets}
    except InputError as error:
        return Estimate(f"No estimate of time and memory: {str(error).splitlines()[0]}", {})
    rates = measured_rates(root / records, kind_of(machine), params.runtime.threads)
    found = costs(params, names, extents, machine, rates)
    return Estimate(in_words(params, found, machine, rates), {name: cost.seconds for name, cost in found.items()},
                    disk_gib(found))


def estimate_of_all(params: Params, machine: Machine, records: Path, root: Path = Path()) -> str:
    """Return the sentence of :func:`estimate` for everything that ``dvc.yaml`` in ``root`` makes of the params."""
    dvc = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))
    return estimate(params, instances(params, dvc), machine, records, root).sentence
