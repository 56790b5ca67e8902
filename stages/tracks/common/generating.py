"""The frame of every generation: params, seed, model folder, precision and provenance around a track's own.

    def _work(process):
        generate(process, _rewritten)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from keycontrast.progress import progress
from stages.common.device import computed_in, computing
from stages.common.paths import ModelPaths, RunPaths
from stages.common.seeds import seed_everything
from stages.common.settings import Params
from stages.common.tables import Provenance, write_table
from stages.run.process import StageProcess
from stages.tracks.common.frame import for_each_seed
from stages.tracks.common.schemas import PREDICTIONS

# Wraps the list of chunks, to show progress.
Progress = Callable[[list[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Rewritten:
    """What a model has made of the evaluated split.

    Attributes:
        predictions: table of that name.
        remarks: sentences, one per fall-back taken.
    """

    predictions: pd.DataFrame
    remarks: Sequence[str] = ()


def generate(process: StageProcess, rewritten: Callable[[Params, str, ModelPaths, str, Progress], Rewritten]) -> None:
    """Write the predictions of the run that ``process`` is an instance of, with its model under each seed.

    Args:
        process: of the stage.
        rewritten: given params, the run's name, the paths of its model, the device and what shows progress.

    Raises:
        InputError: as of ``rewritten``.
    """
    for_each_seed(process, partial(_generate, rewritten), lambda run: [run.predictions.parent])


def _generate(rewritten: Callable[[Params, str, ModelPaths, str, Progress], Rewritten], process: StageProcess,
              paths: ModelPaths) -> None:
    """Write the predictions of the run with one of the models of its row."""
    params, name = process.params, process.instance
    runtime = params.runtime
    seed_everything(params.seed, runtime.threads, runtime.deterministic, runtime.tf32)
    with computing(runtime) as device:
        found = rewritten(params, name, paths, device, lambda chunks: progress(chunks, process.name, unit="chunk"))
    for remark in found.remarks:
        process.log.warning("%s", remark)
    model = {"name": paths.weights.as_posix(), "sha256": sha256_of(paths.weights / "model.safetensors")}
    write_table(RunPaths(name, paths.seed).predictions, PREDICTIONS, found.predictions, Provenance(
        process.name, process.params_hash, {"model": model}, fallbacks=list(found.remarks),
        precision=computed_in(runtime.precision, runtime.tf32)))


def split_of(items: pd.DataFrame, split: str, table: str) -> pd.DataFrame:
    """Return the rows of ``items`` of the split that is evaluated.

    Raises:
        InputError: there are none; ``table`` is named.
    """
    chosen = items[items["split"] == split]
    if chosen.empty:
        raise InputError(f"{table}.parquet: the {split} split is empty. Give it a larger share (ingest.{split}), or "
                         f"more data.")
    return chosen
