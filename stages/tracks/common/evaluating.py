"""The frame of every evaluation of outputs that are texts: params, seed, what similarity is measured by, provenance.

    def _work(process):
        evaluate(process, SCORES, _scored)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pandas as pd

from stages.common.device import computed_in, computing
from stages.common.manifest import write_manifest
from stages.common.paths import MODELS, PREDICTED, RUNS, ModelPaths, RunPaths
from stages.common.schemas import TableSchema
from stages.common.seeds import seed_everything
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.metrics.tokens import Text
from stages.run.process import StageProcess
from stages.tracks.common.evaluation import (
    Evaluation,
    Resampling,
    Similarity,
    similarity_of,
    similarity_sources,
    write_evaluation,
)
from stages.tracks.common.frame import for_each_seed
from stages.tracks.common.schemas import ITEMS, PREDICTIONS


@dataclass(frozen=True)
class Evaluated:
    """A run that is evaluated.

    Attributes:
        predictions: table of that name.
        items: table ``items`` of its model.
        paths: of its model.
        similarity: what similarity is measured by.
        resampling: of intervals, and seed.
    """

    predictions: pd.DataFrame
    items: pd.DataFrame
    paths: ModelPaths
    similarity: Similarity
    resampling: Resampling


def evaluate(process: StageProcess, schema: TableSchema, scored: Callable[[Params, Evaluated], Evaluation],
             cut: Callable[[str], Text] = str) -> None:
    """Write scores and metrics of the run that ``process`` is an instance of, for each seed of its model.

    Args:
        process: of the stage.
        schema: of its scores.
        scored: returns them.
        cut: makes a text what is scored.

    Raises:
        InputError: as of ``scored``, or an encoder or a file of vectors cannot be had.
    """
    for_each_seed(process, partial(_evaluate, schema, scored, cut), lambda run: [run.folder],
                  lambda run: [run.predictions], similarity=similarity_sources(process.params))
    write_run_manifest(process)


def write_run_manifest(process: StageProcess) -> None:
    """List what there is of the run that ``process`` is an instance of: its model, its outputs and their scores."""
    name = process.instance
    write_manifest(process, "runs", [MODELS / process.params.run_model(name), PREDICTED / name, RUNS / name])


def _evaluate(schema: TableSchema, scored: Callable[[Params, Evaluated], Evaluation], cut: Callable[[str], Text],
              process: StageProcess, paths: ModelPaths) -> None:
    """Write scores and metrics of what one of the models of the row has made."""
    params, runtime, run = process.params, process.params.runtime, RunPaths(process.instance, paths.seed)
    predictions, items = read_frame(run.predictions, PREDICTIONS), read_frame(paths.items, ITEMS)
    seed_everything(params.seed, runtime.threads, runtime.deterministic, runtime.tf32)
    with computing(runtime) as device:
        similarity = similarity_of(params, predictions, items, device, cut)
        result = scored(params, Evaluated(predictions, items, paths, similarity, Resampling.of(params)))
    result.metrics["settings"] |= {"model": paths.name, **similarity.description}
    write_evaluation(run, schema, result, process.name, process.params_hash,
                     computed_in(runtime.precision, runtime.tf32))
