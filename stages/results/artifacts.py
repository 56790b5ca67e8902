"""Where the results of models and runs lie: what trainings and evaluations left behind, read in this module alone.

What must be there is named, when it is not, with the stage that makes it.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.compute as pc

from keycontrast.errors import InputError
from stages.common.paths import COMPARISON, ModelPaths, RunPaths, seeded_name
from stages.common.schemas import TableSchema
from stages.common.settings import Params
from stages.common.tables import read_frame, read_table
from stages.results.comparison import EvaluatedRun
from stages.results.schemas import BY_STRATUM, MCNEMAR, PAIRED
from stages.results.track import TrackResults
from stages.tracks.common.track import Track

if TYPE_CHECKING:
    from stages.params.root import Params as Validated


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


def seeded_models(params: "Params | Validated", track: Track) -> dict[str, ModelPaths]:
    """Return every model of a track under each of its seeds, as results call it."""
    return {seeded_name(name, seed, model.seeds): ModelPaths(name, seed)
            for name, model in track.models(params).items() for seed in model.seeds}


def seeded_runs(params: "Params | Validated", track: Track) -> dict[str, RunPaths]:
    """Return every run of a track under each seed of its model, as results call it."""
    return {seeded_name(name, seed, seeds): RunPaths(name, seed)
            for name in track.runs(params) for seeds in [params.run_seeds(name)] for seed in seeds}


def run_metrics(track: TrackResults, run: RunPaths) -> dict[str, Any]:
    """Return what the evaluation of a run reported.

    Raises:
        InputError: it is missing, or of another kind.
    """
    path, stage = run.metrics, f"{track.evaluated_by}@{run.name}"
    metrics = read_json(path, stage)
    if not {"run", "floors", "counts", "settings"} <= set(metrics):
        raise InputError(f"{path}: not the metrics of a run. Make them again with `keycontrast stage {stage}`.")
    return metrics


def known_metrics(runs: Mapping[str, RunPaths], root: Path = Path()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and metrics of those of ``runs`` that have been evaluated in the project at ``root``."""
    for name, run in runs.items():
        path = root / run.metrics
        if path.exists():
            yield name, json.loads(path.read_text(encoding="utf-8"))


def run_table(track: TrackResults, run: RunPaths, schema: TableSchema) -> pd.DataFrame:
    """Return a table that the evaluation of a run left behind."""
    return read_frame(require(run.table(schema.name), f"{track.evaluated_by}@{run.name}"), schema)


def first_predictions(track: TrackResults, run: RunPaths) -> pd.DataFrame:
    """Return the first sample that a run wrote for each item."""
    path = require(run.predictions, f"{track.computed_by}@{run.name}")
    predictions = read_frame(path, track.schemas["predictions"])
    return predictions[predictions["sample"] == 0].reset_index(drop=True)


def wrong_predictions(track: TrackResults, run: RunPaths) -> pd.DataFrame:
    """Return the texts that a classifier has wrong: id, text, both classes, and the probability of its own."""
    path = require(run.predictions, f"{track.computed_by}@{run.name}")
    table = read_table(path, track.schemas["predictions"], ["example_id", "text", "label", "predicted", "probability"])
    return table.filter(pc.not_equal(table["label"], table["predicted"])).to_pandas()


def said_classes(track: TrackResults, run: RunPaths) -> pd.DataFrame:
    """Return the class of every text and the one that a classifier says."""
    path = require(run.predictions, f"{track.computed_by}@{run.name}")
    return read_frame(path, track.schemas["predictions"], ["label", "predicted"])


def model_metrics(track: str, model: ModelPaths) -> dict[str, Any]:
    """Return what the training of a model reported; nothing where that was not kept."""
    path = model.metrics
    return read_json(path, f"train_{track}@{model.name}") if path.exists() else {}


def model_history(track: str, model: ModelPaths) -> pd.DataFrame | None:
    """Return one row per epoch; None where no history was kept.

    Raises:
        InputError: there are no epochs in it.
    """
    path = model.history
    history = pd.read_csv(path) if path.exists() else None
    if history is not None and "epoch" not in history:
        raise InputError(f"{path}: column 'epoch' is missing. Train the model again with "
                         f"`keycontrast stage train_{track}@{model.name}`.")
    return history


def model_table(track: str, model: ModelPaths, schema: TableSchema) -> pd.DataFrame:
    """Return a table that a training left behind."""
    return read_frame(require(model.table(schema.name), f"train_{track}@{model.name}"), schema)


def require_trained(params: Params, tracks: Iterable[TrackResults]) -> None:
    """Check that every model of the params has left metrics and a history.

    Raises:
        InputError: one is missing; the message names its training.
    """
    for track in tracks:
        for model in seeded_models(params, track).values():
            for path in (model.metrics, model.history):
                require(path, f"{track.trained_by}@{model.name}")


def read_comparison() -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return what the comparison reported by label, and tables ``paired``, ``mcnemar`` and ``by_stratum``.

    Each is empty where there is none.
    """
    path = COMPARISON / "metrics.json"
    tables = ((COMPARISON / f"{schema.name}.parquet", schema) for schema in (PAIRED, MCNEMAR, BY_STRATUM))
    paired, exact, strata = (read_frame(path, schema) if path.exists() else pd.DataFrame() for path, schema in tables)
    return read_json(path, "compare") if path.exists() else {}, paired, exact, strata


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
    strange = sorted(known ^ {run for track in tracks for run in seeded_runs(params, track)})
    if strange:
        where = "which params.yaml does not have" if strange[0] in known else "of params.yaml, is not in it"
        raise InputError(f"{path}: it is of other runs: {strange[0]}, {where}. Run `keycontrast run compare`.")


def read_evaluated(params: Params, track: TrackResults, name: str, paths: RunPaths) -> EvaluatedRun:
    """Return the run that results call ``name`` with its tables, for the comparison.

    Raises:
        InputError: it was not decoded, or not evaluated.
    """
    compared, evaluate = track.compared, track.evaluated_by
    row = "the model out of models" if track.name == "clld" else "the run out of runs"
    for path, stage in ((paths.predictions, track.computed_by), (paths.scores, evaluate), (paths.metrics, evaluate)):
        if not path.exists():
            raise InputError(f"{path}: no such artifact. Make it with `keycontrast run {stage}@{paths.name}`, or take "
                             f"{row}.{track.name}.")
    settings = read_json(paths.metrics, f"{evaluate}@{paths.name}")["settings"]
    model = track.runs(params)[paths.name].model
    predictions = read_frame(paths.predictions, track.schemas["predictions"],
                             None if compared.read is None else list(compared.read))
    return EvaluatedRun(name, track.models(params)[model].dataset, settings["split"], paths, predictions,
                        read_frame(paths.scores, track.schemas["scores"]), track, settings)
