"""From artifacts to the model of results: every model, run and comparison that the params list."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pandas as pd

from stages.common.paths import ModelPaths, RunPaths
from stages.common.settings import Params
from stages.results.artifacts import (
    model_history,
    model_metrics,
    read_comparison,
    run_metrics,
    seeded_models,
    seeded_runs,
)
from stages.results.classifiers import read_classifier
from stages.results.model import Block, Model, Results, Run, System, compared_values, values_of
from stages.results.published import dataset_kind_of
from stages.results.track import TrackResults
from stages.results.tracks import TRACKS
from stages.results.tracks.texts import SAME_OUTPUT


def read_results(params: Params) -> Results:
    """Read what was trained and evaluated.

    Raises:
        InputError: a listed run has not been evaluated, or a file cannot be read.
    """
    models = {(track.name, paths): _model(params, track, name, paths) for track in TRACKS.values()
              for name, paths in seeded_models(params, track).items()}
    runs = [_run(params, track, name, paths, models[track.name, ModelPaths(model, paths.seed)])
            for track in TRACKS.values() for name, paths in seeded_runs(params, track).items()
            for model in [track.runs(params)[paths.name].model]]
    kinds = {name: dataset_kind_of(name, block.layout, block.source) for name, block in params.datasets.items()}
    comparison = read_comparison()
    blocks = [block for track in TRACKS.values()
              for block in blocks_of(track, [run for run in runs if run.track == track.name], kinds, *comparison)]
    return Results(params.recipe, params.seed, params.encoder.source, list(models.values()), runs, blocks)


def _model(params: Params, track: TrackResults, name: str, paths: ModelPaths) -> Model:
    block, settings = track.models(params)[paths.name], track.settings(params, paths.name)
    own = {key: settings[key] for key in track.named if key in settings}
    return Model(name, track.name, block.dataset, paths.seed, {**own, **block.overrides}, settings,
                 {group: settings[group] for group in track.shown(settings) if group in settings},
                 model_metrics(track.name, paths), model_history(track.name, paths))


def _run(params: Params, track: TrackResults, name: str, paths: RunPaths, model: Model) -> Run:
    decode = track.decoding(params, paths.name)
    given = getattr(track.runs(params)[paths.name], "decode", decode)
    return Run(name, track.name, model.name, model.dataset, model.seed, track.row(model.settings, decode),
               run_metrics(track, paths), model.overrides, model.settings, given,
               read_classifier(track, paths, model.paths) if track.classifies else None)


def blocks_of(track: TrackResults, runs: Sequence[Run], kinds: Mapping[str, str | None], comparison: Mapping[str, Any],
              paired: pd.DataFrame, exact: pd.DataFrame, strata: pd.DataFrame | None = None) -> list[Block]:
    """Return runs on the same items (hence with the same floors) together.

    Args:
        track: of the runs.
        runs: in the order of the params.
        kinds: which of the papers' data sets each data set is.
        comparison: what the comparison reported, by label; means and deviations over seeds are taken from it.
        paired, exact: tables ``paired`` and ``mcnemar``; may be empty.
        strata: table ``by_stratum``; None for none.
    """
    def place(run: Run) -> tuple[str, str, str, str]:
        metrics, split = run.metrics, str(run.metrics["settings"].get("split", ""))
        return (run.dataset, split, _label(comparison, run.dataset, split, run.name),
                json.dumps([metrics["floors"], metrics["counts"].get("examples")], sort_keys=True))

    # Runs keep their order within a block, blocks that of their first run.
    order: dict[tuple[str, str, str, str], int] = {}
    for run in runs:
        order.setdefault(place(run), len(order))
    placed = sorted(runs, key=lambda run: order[place(run)])
    return [_block(track, list(members), dataset, kinds.get(dataset), split, label, comparison.get(label, {}),
                   *(table[table["dataset"] == label] if len(table) else table
                     for table in (paired, exact, pd.DataFrame() if strata is None else strata)))
            for (dataset, split, label, _), members in groupby(placed, place)]


def _label(comparison: Mapping[str, Any], dataset: str, split: str, run: str) -> str:
    """Return the name under which a run was compared.

    Runs of one data set and split on different items were compared apart, under names that begin alike.
    """
    label = f"{dataset}/{split}"
    return next((name for name, found in comparison.items() if (name == label or name.startswith(f"{label} ("))
                 and any(run in group["runs"] for group in found.get("groups", {}).values())), label)


def _block(track: TrackResults, runs: Sequence[Run], dataset: str, kind: str | None, split: str, label: str,
           compared: Mapping[str, Any], paired: pd.DataFrame, exact: pd.DataFrame, strata: pd.DataFrame) -> Block:
    first, known = runs[0].metrics, {run.name: run for run in runs}
    groups = {name: group for name, group in compared.get("groups", {}).items()
              if not group["runs"] or known.keys() & set(group["runs"])}
    intervals = first.get("intervals", {}).get("floors", {})
    floors = [System(name, "floor", values_of([values], intervals.get(name, {})))
              for name, values in first["floors"].items()]
    single = [_system(track, run.name, [run], kind) for run in runs]
    places = {run.name: place for place, run in enumerate(runs)}
    pooled = [_system(track, name, [known[run] for run in group["runs"] if run in known], kind, group)
              for name, group in groups.items() if len(group["runs"]) > 1]
    pooled.sort(key=lambda system: places[system.runs[0]])
    tests = {frozenset((row["first"], row["second"])): float(row["p_value"]) for row in exact.to_dict("records")}
    of_runs = {name for name, group in groups.items() if group["runs"]}
    names = [*(one.name for one in (*pooled, *single) if one.name in of_runs), *sorted(groups.keys() - of_runs)]
    block = Block(track, dataset, kind, split, first["counts"], first["settings"], floors, single, pooled, label,
                  names if of_runs else [], paired if of_runs else paired.iloc[:0], tests)
    parts = {name: _part(block, found, strata[strata["stratum"] == name])
             for name, found in compared.get("strata", {}).items() if len(strata)}
    return replace(block, strata=parts)


def _part(block: Block, compared: Mapping[str, Any], paired: pd.DataFrame) -> Block:
    """Return ``block`` on the items of a stratum alone, with what the comparison says of them."""
    groups = {name: dict(compared_values(group)) for name, group in compared["groups"].items()}
    floors, runs, pooled = ([replace(system, values=groups.get(system.compared_as, {})) for system in systems]
                            for systems in (block.floors, block.runs, block.groups))
    return replace(block, counts={"examples": compared["items"]}, floors=floors, runs=runs, groups=pooled,
                   paired=paired, exact={})


def _system(track: TrackResults, name: str, runs: Sequence[Run], kind: str | None,
            compared: Mapping[str, Any] | None = None) -> System:
    """Return a run, or several that differ in their seed with what the comparison says of them."""
    first = runs[0]
    intervals = {} if compared else first.metrics.get("intervals", {}).get("run", {})
    values = values_of([run.metrics["run"] for run in runs], intervals) | dict(compared_values(compared or {}))
    decode = {key: value for key, value in first.decode.items() if key not in SAME_OUTPUT}
    return System(name, "seeds" if compared else "run", values, tuple(run.name for run in runs),
                  tuple(run.seed for run in runs), first.row, track.names.label(first.row),
                  {**first.overrides, **({"decode": decode} if decode else {})}, first.settings,
                  track.published_rows(first.row, kind))
