"""Write the headline metrics of each run and the curve of each model to ``metrics/RECIPE/``, for git and DVC."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from keycontrast.files import atomic_folder
from stages.common.paths import HeadlinePaths, RunPaths
from stages.common.tables import read_frame, write_json
from stages.results.gather import model_history, require, require_trained, run_metrics, seeded_models, seeded_runs
from stages.results.model import values_of
from stages.results.track import FEW
from stages.results.tracks import TRACKS
from stages.run.process import StageProcess, run_stage

DIGITS = 4


def headlines(metrics: Mapping[str, Sequence[Mapping[str, Any]]], names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the metrics ``names`` of each run, means over its seeds, rounded."""
    names, values = list(names), {run: values_of([seed["run"] for seed in seeds], {}) for run, seeds in metrics.items()}
    return {run: {name: round(seeds[name].mean, DIGITS) for name in names if name in seeds}
            for run, seeds in values.items()}


def curves(histories: Mapping[str, pd.DataFrame], judged_by: str) -> pd.DataFrame:
    """Return columns epoch, model and validation (column ``judged_by``) of all histories, rounded."""
    parts = [pd.DataFrame({"epoch": history["epoch"], "model": model, "validation": history[judged_by].round(DIGITS)})
             for model, history in histories.items()]
    return pd.concat(parts) if parts else pd.DataFrame(columns=["epoch", "model", "validation"])


def _work(process: StageProcess) -> None:
    params = process.params
    require_trained(params, TRACKS.values())
    paths, trained = HeadlinePaths(params.recipe), {}
    for key, track in TRACKS.items():
        metrics: dict[str, list[dict[str, Any]]] = {}
        for run in seeded_runs(params, track).values():
            metrics.setdefault(run.name, []).append(run_metrics(track, run))
        write_json(paths.metrics(key), headlines(metrics, [column.key for column in track.headlines[:FEW]]))
        if models := seeded_models(params, track):
            histories = {name: model_history(key, model) for name, model in models.items()}
            trained[key] = curves({name: history for name, history in histories.items() if history is not None},
                                  track.judged_by[0])
    _write_tables(paths.curves, trained.items())
    _write_tables(paths.confusion, (
        (run, pd.concat([
            read_frame(require(RunPaths(run, seed).predictions, f"{track.computed_by}@{run}"),
                       track.schemas["predictions"], ["label", "predicted"]) for seed in params.run_seeds(run)])
         .rename(columns={"label": "actual"}).sort_values(["actual", "predicted"]))
        for track in TRACKS.values() if track.classifies for run in track.runs(params)))


def _write_tables(folder: Path, tables: Iterable[tuple[str, pd.DataFrame]]) -> None:
    with atomic_folder(folder) as temporary:
        for name, rows in tables:
            rows.to_csv(temporary / f"{name}.csv", index=False)


main = partial(run_stage, "headlines", _work, instance=None)
