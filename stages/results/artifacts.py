"""Where the results of models and runs lie: what trainings and evaluations left behind, read in this module alone.

What must be there is named, when it is not, with the stage that makes it.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from stages.artifacts.paths import COMPARISON, ModelPaths, RunPaths
from stages.artifacts.schemas import TableSchema
from stages.artifacts.tables import read_frame, read_table
from stages.results.comparison import EvaluatedRun
from stages.results.schemas import MCNEMAR, PAIRED
from stages.results.track import TrackResults
from stages.runtime.errors import InputError
from stages.runtime.settings import Params

ITEM_SCORES = ("bleu_1", "bleu_2", "bleu_4")    # those that stand beside an output


def read_json(path: Path, stage: str) -> dict[str, Any]:
    """Return the content of a metrics file that ``stage`` writes.

    Raises:
        InputError: it is missing, or no JSON object.
    """
    require(path, stage)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}). Remove it and run `keycontrast run {stage}`.") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: must hold names and values. Remove it and run `keycontrast run {stage}`.")
    return content


def require(path: Path, stage: str) -> Path:
    """Return ``path`` if something is there.

    Raises:
        InputError: nothing is; the message names the stage that makes it.
    """
    if not path.exists():
        raise InputError(f"{path}: no such artifact. Make it with `keycontrast run {stage}`.")
    return path


def run_metrics(track: TrackResults, run: str) -> dict[str, Any]:
    """Return what the evaluation of a run reported.

    Raises:
        InputError: it is missing, or of another kind.
    """
    path, stage = RunPaths(run).metrics, f"{track.evaluated_by}@{run}"
    metrics = read_json(path, stage)
    if not {"run", "floors", "counts", "settings"} <= set(metrics):
        raise InputError(f"{path}: not the metrics of a run. Make them again with `keycontrast stage {stage}`.")
    return metrics


def known_metrics(runs: Collection[str], root: Path = Path()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and metrics of those of ``runs`` that have been evaluated in the project at ``root``."""
    for name in runs:
        path = root / RunPaths(name).metrics
        if path.exists():
            yield name, json.loads(path.read_text(encoding="utf-8"))


def run_table(track: TrackResults, run: str, schema: TableSchema) -> pd.DataFrame:
    """Return a table that the evaluation of a run left behind."""
    return read_frame(require(RunPaths(run).table(schema.name), f"{track.evaluated_by}@{run}"), schema)


def first_predictions(track: TrackResults, run: str) -> pd.DataFrame:
    """Return the first sample that a run wrote for each item."""
    path = require(RunPaths(run).predictions, f"{track.computed_by}@{run}")
    predictions = read_frame(path, track.schemas["predictions"])
    return predictions[predictions["sample"] == 0].reset_index(drop=True)


def wrong_predictions(track: TrackResults, run: str) -> pd.DataFrame:
    """Return the texts that a classifier has wrong: id, text, both classes, and the probability of its own."""
    path = require(RunPaths(run).predictions, f"{track.computed_by}@{run}")
    table = read_table(path, track.schemas["predictions"], ["example_id", "text", "label", "predicted", "probability"])
    return table.filter(pc.not_equal(table["label"], table["predicted"])).to_pandas()


def said_classes(track: TrackResults, run: str) -> pd.DataFrame:
    """Return the class of every text and the one that a classifier says."""
    path = require(RunPaths(run).predictions, f"{track.computed_by}@{run}")
    return read_frame(path, track.schemas["predictions"], ["label", "predicted"])


def item_scores(run: str) -> dict[int, list[float | None]]:
    """Return by example the scores that stand beside the output of a run; nothing where they were not kept."""
    path = RunPaths(run).scores
    if not path.exists():
        return {}
    table = read_table(path, columns=["system", "example_id", *ITEM_SCORES])
    table = table.filter(pc.equal(table["system"], "run"))
    columns = [table[name].to_pylist() for name in ITEM_SCORES]
    return {number: [None if value is None else round(value, 3) for value in values]
            for number, *values in zip(table["example_id"].to_pylist(), *columns, strict=True)}


def model_metrics(track: str, model: str) -> dict[str, Any]:
    """Return what the training of a model reported; nothing where that was not kept."""
    path = ModelPaths(model).metrics
    return read_json(path, f"train_{track}@{model}") if path.exists() else {}


def model_history(track: str, model: str) -> pd.DataFrame | None:
    """Return one row per epoch; None where no history was kept.

    Raises:
        InputError: there are no epochs in it.
    """
    path = ModelPaths(model).history
    history = pd.read_csv(path) if path.exists() else None
    if history is not None and "epoch" not in history:
        raise InputError(f"{path}: column 'epoch' is missing. Train the model again with "
                         f"`keycontrast stage train_{track}@{model}`.")
    return history


def model_config(model: str) -> dict[str, Any] | None:
    """Return the configuration of a model's weights; None where there are none."""
    path = ModelPaths(model).weights / "config.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def model_table(track: str, model: str, schema: TableSchema) -> pd.DataFrame:
    """Return a table that a training left behind."""
    return read_frame(require(ModelPaths(model).table(schema.name), f"train_{track}@{model}"), schema)


def require_trained(params: Params, tracks: Iterable[TrackResults]) -> None:
    """Check that every model of the params has left metrics and a history.

    Raises:
        InputError: one is missing; the message names its training.
    """
    for track in tracks:
        for model in track.models(params):
            for path in (ModelPaths(model).metrics, ModelPaths(model).history):
                require(path, f"{track.trained_by}@{model}")


def read_comparison() -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """Return what the comparison reported by label, and tables ``paired`` and ``mcnemar``; empty where there is none.
    """
    path = COMPARISON / "metrics.json"
    tables = ((COMPARISON / f"{schema.name}.parquet", schema) for schema in (PAIRED, MCNEMAR))
    paired, exact = (read_frame(path, schema) if path.exists() else pd.DataFrame() for path, schema in tables)
    return read_json(path, "compare") if path.exists() else {}, paired, exact


def require_comparison(params: Params, tracks: Collection[TrackResults]) -> None:
    """Check that the comparison is there and of the runs of the params.

    Raises:
        InputError: it is not.
    """
    exact = any(track.compared.exact and track.runs(params) for track in tracks)
    kinds = ["paired", *(["mcnemar"] if exact else [])]
    for path in (COMPARISON / "metrics.json", *(COMPARISON / f"{kind}.parquet" for kind in kinds)):
        require(path, "compare")
    path = COMPARISON / "metrics.json"
    known = {run for found in read_json(path, "compare").values() for group in found["groups"].values()
             for run in group["runs"]}
    strange = sorted(known ^ {run for track in tracks for run in track.runs(params)})
    if strange:
        where = "which params.yaml does not have" if strange[0] in known else "of params.yaml, is not in it"
        raise InputError(f"{path}: it is of other runs: {strange[0]}, {where}. Run `keycontrast run compare`.")


def read_evaluated(params: Params, track: TrackResults, name: str) -> EvaluatedRun:
    """Return run ``name`` with its tables, for the comparison.

    Raises:
        InputError: it was not decoded, or not evaluated.
    """
    paths, compared, evaluate = RunPaths(name), track.compared, track.evaluated_by
    for path, stage in ((paths.predictions, track.computed_by), (paths.scores, evaluate), (paths.metrics, evaluate)):
        if not path.exists():
            raise InputError(f"{path}: no such artifact. Make it with `keycontrast run {stage}@{name}`, or take the "
                             f"run out of runs.{track.name}.")
    settings = read_json(paths.metrics, f"{evaluate}@{name}")["settings"]
    model = track.runs(params)[name].model
    predictions = read_frame(paths.predictions, track.schemas["predictions"],
                             None if compared.read is None else list(compared.read))
    return EvaluatedRun(name, track.models(params)[model].dataset, settings["split"],
                        params.model_seed(model), json.dumps(track.family(params, name), sort_keys=True), predictions,
                        read_frame(paths.scores, track.schemas["scores"]), track, settings)
