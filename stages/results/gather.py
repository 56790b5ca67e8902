"""Read the artifacts of every model, run and comparison of the params into the model of results."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from keycontrast.errors import InputError
from stages.common.paths import COMPARISON, ModelPaths, RunPaths, seeded_name
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.results.comparison import BY_STRATUM, PAIRED, EvaluatedRun
from stages.results.model import Block, Classifier, Model, Results, Run, System, compared_values, values_of
from stages.results.published import dataset_kind_of
from stages.results.track import TrackResults
from stages.results.tracks import TRACKS
from stages.results.tracks.texts import SAME_OUTPUT
from stages.tracks.clld.tables import CLASSES, CONFUSION, LABEL_DISTANCE
from stages.tracks.common.track import Track

if TYPE_CHECKING:
    from stages.params.root import Params as Validated


def read_json(path: Path, stage: str) -> dict[str, Any]:
    """Return the content of a metrics file that ``stage`` writes; a missing or invalid one is an ``InputError``."""
    require(path, stage)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}). Remove it and run `keycontrast run {stage}`.") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: must hold names and values. Remove it and run `keycontrast run {stage}`.")
    return content


def require(path: Path, stage: str) -> Path:
    """Return ``path`` if it exists; else raise an ``InputError`` that names the stage that makes it."""
    if not path.exists():
        raise InputError(f"{path}: no such artifact. Make it with `keycontrast run {stage}`.")
    return path


def seeded_models(params: "Params | Validated", track: Track) -> dict[str, ModelPaths]:
    """Return the paths of every model of a track under each of its seeds, by the name in results."""
    return {seeded_name(name, seed, model.seeds): ModelPaths(name, seed)
            for name, model in track.models(params).items() for seed in model.seeds}


def seeded_runs(params: "Params | Validated", track: Track) -> dict[str, RunPaths]:
    """Return the paths of every run of a track under each seed of its model, by the name in results."""
    return {seeded_name(name, seed, seeds): RunPaths(name, seed)
            for name in track.runs(params) for seeds in [params.run_seeds(name)] for seed in seeds}


def run_metrics(track: TrackResults, run: RunPaths) -> dict[str, Any]:
    """Return the metrics of a run; missing or invalid ones are an ``InputError``."""
    path, stage = run.metrics, f"{track.evaluated_by}@{run.name}"
    metrics = read_json(path, stage)
    if not {"run", "baselines", "counts", "settings"} <= set(metrics):
        raise InputError(f"{path}: not the metrics of a run. Make them again with `keycontrast run {stage}`.")
    return metrics


def first_predictions(track: TrackResults, run: RunPaths) -> pd.DataFrame:
    """Return the first sample that a run wrote for each item."""
    path = require(run.predictions, f"{track.computed_by}@{run.name}")
    predictions = read_frame(path, track.schemas["predictions"])
    return predictions[predictions["sample"] == 0].reset_index(drop=True)


def model_history(track: str, model: ModelPaths) -> pd.DataFrame | None:
    """Return one row per epoch; None if no history was kept. A history without epochs is an ``InputError``."""
    path = model.history
    history = pd.read_csv(path) if path.exists() else None
    if history is not None and "epoch" not in history:
        raise InputError(f"{path}: column 'epoch' is missing. Train the model again with "
                         f"`keycontrast run train_{track}@{model.name}`.")
    return history


def require_trained(params: Params, tracks: Iterable[TrackResults]) -> None:
    """Raise an ``InputError`` that names the training if a model of the params lacks metrics or history."""
    for track in tracks:
        for model in seeded_models(params, track).values():
            for path in (model.metrics, model.history):
                require(path, f"{track.trained_by}@{model.name}")


def read_evaluated(params: Params, track: TrackResults, name: str, paths: RunPaths) -> EvaluatedRun:
    """Return a run with its tables, for the comparison; missing tables are an ``InputError``."""
    evaluate = f"{track.evaluated_by}@{paths.name}"
    require(paths.predictions, f"{track.computed_by}@{paths.name}")
    require(paths.scores, evaluate)
    settings = read_json(paths.metrics, evaluate)["settings"]
    model = track.runs(params)[paths.name].model
    predictions = read_frame(paths.predictions, track.schemas["predictions"],
                             None if track.compared.read is None else list(track.compared.read))
    return EvaluatedRun(name, track.models(params)[model].dataset, settings["split"], paths, predictions,
                        read_frame(paths.scores, track.schemas["scores"]), track, settings)


def read_results(params: Params) -> Results:
    """Return all models, runs and comparisons of the params; missing or invalid files are an ``InputError``."""
    models = {(track.name, paths.name, paths.seed): _model(params, track, name, paths) for track in TRACKS.values()
              for name, paths in seeded_models(params, track).items()}
    runs = [_run(params, track, name, paths, models[track.name, model, paths.seed])
            for track in TRACKS.values() for name, paths in seeded_runs(params, track).items()
            for model in [track.runs(params)[paths.name].model]]
    kinds = {name: dataset_kind_of(name, block.layout, block.source) for name, block in params.datasets.items()}
    comparison = _comparison()
    blocks = [block for track in TRACKS.values()
              for block in blocks_of(track, [run for run in runs if run.track == track.name], kinds, *comparison)]
    return Results(params.recipe, params.seed, params.encoder.source, list(models.values()), runs, blocks)


def _model(params: Params, track: TrackResults, name: str, paths: ModelPaths) -> Model:
    block, settings = track.models(params)[paths.name], track.settings(params, paths.name)
    own = {key: settings[key] for key in track.named if key in settings}
    return Model(name, track.name, block.dataset, paths.seed, {**own, **block.overrides}, settings,
                 model_history(track.name, paths))


def _run(params: Params, track: TrackResults, name: str, paths: RunPaths, model: Model) -> Run:
    decode = track.decoding(params, paths.name)
    given = getattr(track.runs(params)[paths.name], "decode", decode)
    return Run(name, track.name, model.name, model.dataset, model.seed, track.row(model.settings, decode),
               run_metrics(track, paths), model.overrides, model.settings, given,
               _classifier(track, paths, model.paths) if track.classifies else None)


def _classifier(track: TrackResults, run: RunPaths, model: ModelPaths) -> Classifier:
    """Return the results of a run by class; tables that are missing, or of other classes, are an ``InputError``."""
    evaluated, trained = f"{track.evaluated_by}@{run.name}", f"train_{track.name}@{model.name}"
    classes, confusion = (read_frame(require(run.table(schema.name), evaluated), schema)
                          for schema in (CLASSES, CONFUSION))
    names = classes["class"].tolist()
    if sorted(names) != sorted(confusion["label"].unique()):
        raise InputError(f"run {run.name}: confusion.parquet is of other classes than classes.parquet. Make both again "
                         f"with `keycontrast run evaluate_clld@{run.name}`.")
    square = confusion.pivot(index="label", columns="predicted", values="texts").loc[names, names]
    distances = read_frame(require(model.table(LABEL_DISTANCE.name), trained), LABEL_DISTANCE)
    return Classifier(classes, square.to_numpy(np.int64), distances)


def _comparison() -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """Return the metrics of the comparison by label, and tables ``paired`` and ``by_stratum``; empty if missing."""
    path = COMPARISON / "metrics.json"
    tables = ((COMPARISON / f"{schema.name}.parquet", schema) for schema in (PAIRED, BY_STRATUM))
    paired, strata = (read_frame(path, schema) if path.exists() else pd.DataFrame() for path, schema in tables)
    return read_json(path, "compare") if path.exists() else {}, paired, strata


def blocks_of(track: TrackResults, runs: Sequence[Run], kinds: Mapping[str, str | None], comparison: Mapping[str, Any],
              paired: pd.DataFrame, strata: pd.DataFrame) -> list[Block]:
    """Return blocks of runs on the same items, in the order of the params; ``kinds`` names the paper's data sets."""
    def place(run: Run) -> tuple[str, str, str, str]:
        metrics, split = run.metrics, str(run.metrics["settings"].get("split", ""))
        return (run.dataset, split, _label(comparison, run.dataset, split, run.name),
                json.dumps([metrics["baselines"], metrics["counts"].get("examples")], sort_keys=True))

    # Runs keep their order within a block; blocks are in the order of their first runs.
    order: dict[tuple[str, str, str, str], int] = {}
    for run in runs:
        order.setdefault(place(run), len(order))
    placed = sorted(runs, key=lambda run: order[place(run)])
    return [_block(track, list(members), dataset, kinds.get(dataset), split, comparison.get(label, {}),
                   *(table[table["dataset"] == label] if len(table) else table for table in (paired, strata)))
            for (dataset, split, label, _), members in groupby(placed, place)]


def _label(comparison: Mapping[str, Any], dataset: str, split: str, run: str) -> str:
    """Return the name under which a run was compared; runs on other items of the same split have another one."""
    label = f"{dataset}/{split}"
    return next((name for name, compared in comparison.items() if (name == label or name.startswith(f"{label} ("))
                 and any(run in group["runs"] for group in compared.get("groups", {}).values())), label)


def _block(track: TrackResults, runs: Sequence[Run], dataset: str, kind: str | None, split: str,
           compared: Mapping[str, Any], paired: pd.DataFrame, strata: pd.DataFrame) -> Block:
    first, known = runs[0].metrics, {run.name: run for run in runs}
    groups = {name: group for name, group in compared.get("groups", {}).items()
              if not group["runs"] or known.keys() & set(group["runs"])}
    intervals = first.get("intervals", {}).get("baselines", {})
    baselines = [System(name, "baseline", values_of([values], intervals.get(name, {})))
                 for name, values in first["baselines"].items()]
    single = [_system(track, run.name, [run], kind) for run in runs]
    places = {run.name: place for place, run in enumerate(runs)}
    pooled = [_system(track, name, [known[run] for run in group["runs"] if run in known], kind, group)
              for name, group in groups.items() if len(group["runs"]) > 1]
    pooled.sort(key=lambda system: places[system.runs[0]])
    were_compared = any(group["runs"] for group in groups.values())
    block = Block(track, dataset, kind, split, first["counts"], first["settings"], baselines, single, pooled,
                  paired if were_compared else paired.iloc[:0])
    parts = {name: _part(block, of_stratum, strata[strata["stratum"] == name])
             for name, of_stratum in compared.get("strata", {}).items() if len(strata)}
    return replace(block, strata=parts)


def _part(block: Block, compared: Mapping[str, Any], paired: pd.DataFrame) -> Block:
    """Return ``block`` on the items of one stratum, with the values of the comparison."""
    groups = {name: dict(compared_values(group)) for name, group in compared["groups"].items()}
    # The paper has values for all items, and for no stratum.
    baselines, runs, pooled = (
        [replace(system, values=groups.get(system.compared_as, {}), published=()) for system in systems]
        for systems in (block.baselines, block.runs, block.groups))
    return replace(block, counts={"examples": compared["items"]}, baselines=baselines, runs=runs, groups=pooled,
                   paired=paired)


def _system(track: TrackResults, name: str, runs: Sequence[Run], kind: str | None,
            compared: Mapping[str, Any] | None = None) -> System:
    """Return the system of one run, or of several seeds of a run with their values from the comparison."""
    first = runs[0]
    intervals = {} if compared else first.metrics.get("intervals", {}).get("run", {})
    values = values_of([run.metrics["run"] for run in runs], intervals) | dict(compared_values(compared or {}))
    decode = {key: value for key, value in first.decode.items() if key not in SAME_OUTPUT}
    return System(name, "seeds" if compared else "run", values, tuple(run.name for run in runs),
                  tuple(run.seed for run in runs), first.row, track.names.label(first.row),
                  {**first.overrides, **({"decode": decode} if decode else {})}, first.settings,
                  track.published_rows(first.row, kind))
