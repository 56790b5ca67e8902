"""What the results document is made from: artifacts of the project in the working folder, read and put in order."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.results_tracks import CLLD, HCL, PGKPR, TRACKS, Track
from stages.artifacts.paths import COMPARISON, DatasetPaths, ModelPaths, RunPaths
from stages.artifacts.tables import read_frame
from stages.results.reporting.differences import Exact, exact_tests
from stages.results.reporting.gather_clld import ClassifierMaterial, RowKind, read_classifier, row_kind
from stages.results.reporting.published import PublishedRow, dataset_kind_of, published_row, removed_parts
from stages.results.reporting.published_clld import clld_rows
from stages.results.reporting.published_pgkpr import FULL, keywords_of, pgkpr_row, pgkpr_row_name, removed_terms
from stages.runtime.errors import InputError
from stages.runtime.process import RECORDS
from stages.runtime.settings import Params

# Data stages whose counts are told, by track.
_COUNTS = {"hcl": ("ingest", "graph", "keywords"), "pgkpr": ("ingest", "paraphrase_items"),
           "clld": ("ingest", "linear_floor")}
# Rows of PGKPR that are no ablation, and what they do otherwise than the full model.
_OTHERWISE = {"PGKPR-ref": "keywords from the source alone: these are from the reference too, an oracle",
              "PGKPR-PSI+X": "keywords by attribution: these are by PSI",
              "PGKPR-PSI+S": "keywords by attribution: these are by PSI, as the S-Tagger sees it",
              "IANet+X": "the method: another model", "IANet+S": "the method: another model",
              "LBOW-Topk": "the method: another model", "LBOW-gumbel": "the method: another model",
              "Residual-LSTM": "the method: another model", "Transformer": "the method: another model"}
# Decoding settings that leave the scored output as it is.
_SAME_OUTPUT = ("samples", "batch_size", "split")
Interval = tuple[float, float] | None


@dataclass(frozen=True)
class Value:
    """A metric of a system: mean over its seeds, their standard deviation (None for one), interval (or None)."""

    mean: float
    sd: float | None = None
    interval: Interval = None


@dataclass(frozen=True)
class System:
    """A row of results: a floor, a run, or several runs that differ in their seed alone.

    Attributes:
        name: as the comparison has it.
        runs: names of its runs; none for a floor.
        seeds: of its models.
        without: parts of the method that it does without, in words; empty for the full method.
        full: it is the full method, as the params or another reading of the paper have it, decoded as usual.
        changes: overrides of the model and decoding settings of the run that make it what it is.
        values: by metric.
        published: row of the paper that it corresponds to.
        kind: which row of CLLD's table it is; None on other tracks.
    """

    name: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    without: str
    full: bool
    changes: dict[str, Any]
    values: dict[str, Value]
    published: PublishedRow | None = None
    kind: RowKind | None = None


@dataclass(frozen=True)
class Evaluated:
    """Runs on the same items of a data set.

    Attributes:
        label: data set and split, as the comparison has it.
        track: of the runs.
        paired: rows of table ``paired`` on them.
        base: the full method, with which the others are compared; None if there is none. CLLD has none: its rows are
            compared step by step.
        exact: p of McNemar's exact test by pair of runs and floors; of classifiers.
    """

    label: str
    track: Track
    dataset: str
    kind: str | None
    counts: dict[str, Any]
    settings: dict[str, Any]
    floors: list[System]
    systems: list[System]
    paired: pd.DataFrame
    base: System | None
    exact: Exact = field(default_factory=dict)

    @property
    def split(self) -> str:
        """The split that was evaluated."""
        return str(self.settings["split"])


@dataclass(frozen=True)
class Trained:
    """A model: its track, what its training reported, and its history."""

    name: str
    track: str
    metrics: dict[str, Any]
    history: pd.DataFrame


@dataclass(frozen=True)
class Material:
    """Everything the document shows.

    Attributes:
        counts: of each data set, the metrics of the data stages that its tracks tell of.
        seconds: recorded duration of each stage instance.
        devices: where those ran that did not run on this machine.
        classifiers: by run of CLLD, what it says of each class.
    """

    params: Params
    counts: dict[str, dict[str, dict[str, Any]]]
    evaluated: list[Evaluated]
    trained: list[Trained]
    seconds: dict[str, float]
    devices: list[str]
    classifiers: dict[str, ClassifierMaterial] = field(default_factory=dict)


def read_material(params: Params) -> Material:
    """Read what the project in the working folder has made.

    Raises:
        InputError: something is missing or broken; the message names the stage to run.
    """
    used: dict[str, dict[str, None]] = {}
    for track in TRACKS:
        models, runs = own(params, track)
        for run in runs.values():
            used.setdefault(models[run.model].dataset, {}).update(dict.fromkeys(_COUNTS[track.key]))
    if not used:
        raise InputError("params.yaml: runs.hcl, runs.pgkpr and runs.clld are empty, so that there are no results. "
                         "Take a recipe with runs: `keycontrast use cpu-hcl-qqp --data DIR`.")
    names = {name for track in TRACKS for block in own(params, track) for name in block}
    records = _records({*used, *names, "all"})
    return Material(
        params,
        {name: {stage: read_json(DatasetPaths(name).metrics(stage), f"{stage}@{name}") for stage in stages}
         for name, stages in used.items()},
        _evaluated(params), [_trained(name, track.key) for track in TRACKS for name in own(params, track)[0]],
        {name: float(record["seconds"]) for name, record in records.items() if "seconds" in record},
        sorted({str(record["device"]) for record in records.values() if "device" in record}),
        {run: read_classifier(run, params) for run in params.runs.clld})


def own(params: Params, track: Track) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the models and the runs of one track."""
    return getattr(params.models, track.key), getattr(params.runs, track.key)


def read_json(path: Path, stage: str) -> dict[str, Any]:
    """Return the content of a metrics file that ``stage`` writes.

    Raises:
        InputError: it is missing, or no JSON object.
    """
    if not path.exists():
        raise InputError(f"{path}: no such artifact. Make it with `keycontrast run {stage}`.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}). Remove it and run `keycontrast run {stage}`.") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: must hold names and values. Remove it and run `keycontrast run {stage}`.")
    return content


def _evaluated(params: Params) -> list[Evaluated]:
    path = COMPARISON / "metrics.json"
    compared, paired = read_json(path, "compare"), read_frame(COMPARISON / "paired.parquet", "paired")
    exact = read_frame(COMPARISON / "mcnemar.parquet", "mcnemar") if params.runs.clld else pd.DataFrame()
    groups = {label: found["groups"] for label, found in compared.items()}
    runs = {label: {run for group in found.values() for run in group["runs"]} for label, found in groups.items()}
    known = set().union(*runs.values())
    strange = sorted(known ^ {run for track in TRACKS for run in own(params, track)[1]})
    if strange:
        where = "which params.yaml does not have" if strange[0] in known else "of params.yaml, is not in it"
        raise InputError(f"{path}: it is of other runs: {strange[0]}, {where}. Run `keycontrast run compare`.")
    found = []
    for track in TRACKS:
        order = list(own(params, track)[1])
        places = [(label, [run for run in order if run in members]) for label, members in runs.items()]
        found += [replace(_place(params, track, label, mine, groups[label], paired[paired["dataset"] == label]),
                          exact=exact_tests(exact, label))
                  for label, mine in sorted((place for place in places if place[1]),
                                            key=lambda place: order.index(place[1][0]))]
    return found


def _place(params: Params, track: Track, label: str, runs: list[str], groups: Mapping[str, Any],
           paired: pd.DataFrame) -> Evaluated:
    metrics = {run: read_json(RunPaths(run).metrics, f"evaluate_{track.key}@{run}") for run in runs}
    models, all_runs = own(params, track)
    dataset = models[all_runs[runs[0]].model].dataset
    block = params.datasets[dataset]
    kind = dataset_kind_of(dataset, block.layout, block.source)
    first = metrics[runs[0]]
    intervals = first.get("intervals", {}).get("floors", {})
    floors = [System(name, (), (), "", False, {}, _own_values([values], intervals.get(name, {})))
              for name, values in first["floors"].items()]
    systems = _systems(params, track, runs, groups, metrics, kind)
    # Another reading of the paper removes nothing either: what changes nothing comes first.
    full = sorted((system for system in systems if system.full), key=lambda system: bool(system.changes))
    return Evaluated(label, track, dataset, kind, first["counts"], first["settings"], floors, systems, paired,
                     full[0] if full else None)


def _systems(params: Params, track: Track, runs: list[str], groups: Mapping[str, Any],
             metrics: Mapping[str, dict[str, Any]], kind: str | None) -> list[System]:
    """Return each run in the largest group that it belongs to, in the order of the params."""
    names = {run: max((name for name in groups if run in groups[name]["runs"]),
                      key=lambda name: len(groups[name]["runs"])) for run in runs}
    models, all_runs = own(params, track)
    made = []
    for name in dict.fromkeys(names.values()):
        mine = [run for run in runs if names[run] == name]
        model = all_runs[mine[0]].model
        decode = {key: value for key, value in getattr(all_runs[mine[0]], "decode", {}).items()
                  if key not in _SAME_OUTPUT}
        intervals = metrics[mine[0]].get("intervals", {}).get("run", {}) if len(mine) == 1 else {}
        values = _own_values([metrics[run]["run"] for run in mine], intervals) | _group_values(groups[name])
        changes = models[model].overrides | ({"decode": decode} if decode else {})
        seeds = tuple(params.model_seed(all_runs[run].model) for run in mine)
        if track is CLLD:
            made.append(_classifying(params, mine[0], System(name, tuple(mine), seeds, "", False, changes, values),
                                     kind))
            continue
        described = _described(params, mine[0], kind) if track is HCL else _rewriting(params, mine[0], kind)
        made.append(System(name, tuple(mine), seeds, described[0], described[1], changes, values, described[2]))
    return made


def _described(params: Params, run: str, kind: str | None) -> tuple[str, bool, PublishedRow | None]:
    """Return what a run of HCL does without, whether it is the full method, and the row that it corresponds to."""
    settings = params.model(params.runs.hcl[run].model).plain()
    removed = sorted(removed_parts(settings))
    decoded = any(key not in _SAME_OUTPUT for key in params.runs.hcl[run].decode)
    return (" and ".join(HCL.parts[part] for part in removed), not removed and not decoded,
            None if decoded else published_row(settings, kind))


def _rewriting(params: Params, run: str, kind: str | None) -> tuple[str, bool, PublishedRow | None]:
    """Return the same of a run of PGKPR; a baseline does without the method."""
    settings = params.model(params.runs.pgkpr[run].model).plain()
    decode = {"keywords": keywords_of(settings, params.decoding(run).plain())}
    row = pgkpr_row_name(settings, decode)
    removed = " and ".join(PGKPR.parts[term] for term in sorted(removed_terms(settings)))
    without = removed or _OTHERWISE.get(str(row), "" if row == FULL else "keywords as PGKPR has them")
    decoded = any(key not in (*_SAME_OUTPUT, "keywords") for key in params.runs.pgkpr[run].decode)
    return without, row == FULL and not decoded, pgkpr_row(settings, decode, kind)


def _classifying(params: Params, run: str, system: System, kind: str | None) -> System:
    """Return ``system``, of which ``run`` is one, with what it is; of two published rows, the one of the ablation."""
    model, own = params.runs.clld[run].model, row_kind(params.runs.clld[run].model, params)
    pairs_of = params.models.clld[model].pairs_of
    rows = clld_rows(own.contrast, own.encoder, kind) if params.runs.clld[run].split == "test" else []
    changes = {"row": own.label, "encoder": own.encoder, **({"pairs_of": pairs_of} if pairs_of else {}),
               **system.changes}
    return replace(system, changes=changes, published=rows[-1] if rows else None, kind=own)


def _group_values(group: Mapping[str, Any]) -> dict[str, Value]:
    return {name: Value(found["mean"], found.get("sd"), _interval(found.get("low"), found.get("high")))
            for name, found in group.items() if isinstance(found, Mapping)}


def _own_values(runs: Sequence[Mapping[str, Any]], intervals: Mapping[str, Any]) -> dict[str, Value]:
    """Return mean and standard deviation over ``runs`` of the metrics that all of them have."""
    found = {}
    for name in runs[0]:
        values = [float(value) for run in runs if isinstance(value := run.get(name), int | float)]
        if len(values) == len(runs):
            sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
            found[name] = Value(float(np.mean(values)), sd, _interval(*intervals.get(name, (None, None))))
    return found


def _interval(low: float | None, high: float | None) -> Interval:
    return None if low is None or high is None else (float(low), float(high))


def _trained(name: str, track: str) -> Trained:
    paths = ModelPaths(name)
    metrics = read_json(paths.metrics, f"train_{track}@{name}")
    if not paths.history.exists():
        raise InputError(f"{paths.history}: no such artifact. Make it with `keycontrast run train_{track}@{name}`.")
    return Trained(name, track, metrics, pd.read_csv(paths.history))


def _records(instances: set[str]) -> dict[str, dict[str, Any]]:
    """Return what is recorded of each stage instance (duration, memory, device); records are no artifacts.

    Args:
        instances: those of the params; records of other recipes may lie beside theirs.
    """
    return {path.stem: read_json(path, path.stem.removesuffix("@all")) for path in sorted(RECORDS.glob("*.json"))
            if path.stem.partition("@")[2] in instances}
