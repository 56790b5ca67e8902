"""Rewrite the evaluated split with a trained model of the PGKPR track (METHODS C.5-C.7).

Reads the folder and the evaluated pairs of the run's model; writes predictions.parquet. Sources, outputs and references
are words in lower case, joined by spaces, so that nothing but their words sets them apart.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from stages.artifacts.paths import ModelPaths, RunPaths
from stages.artifacts.tables import Provenance, read_frame, write_table
from stages.runtime.errors import InputError
from stages.runtime.fingerprint import sha256_of
from stages.runtime.precision import computed_in, computing
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.progress import progress
from stages.runtime.seeds import seed_everything
from stages.tracks.pgkpr.generation import Paraphraser, evaluated_items

STAGE = "generate_pgkpr"


def run(pairs: pd.DataFrame, paraphraser: Paraphraser, decode: Mapping[str, Any], seed: int,
        track: Callable[[list[Any]], Iterable[Any]] = iter) -> pd.DataFrame:
    """Return table ``predictions`` for the split that ``decode`` names.

    Args:
        pairs: the model's table ``paraphrase_items``.
        paraphraser: the model.
        decode: plain values of the block ``generate_pgkpr`` with the run's own.
        seed: of the coins that make keywords of scores.
        track: wraps the list of chunks, to show progress.

    Raises:
        InputError: the split is empty, or keywords are named that the model does not read.
    """
    which, on = paraphraser.which_keywords(decode["keywords"]), paraphraser.on
    chosen = pairs[pairs["split"] == decode["split"]]
    if chosen.empty:
        raise InputError(f"paraphrase_items.parquet: the {decode['split']} split is empty. Give it a larger share "
                         f"(ingest.{decode['split']}), or more data.")
    items = evaluated_items(chosen, which, seed, on.mark_all, on.max_length)
    return pd.concat(list(paraphraser.rewrite(items, decode, track)), ignore_index=True)


def _work(process: StageProcess) -> None:
    params, name = process.params, process.instance
    paths = ModelPaths(params.runs.pgkpr[name].model)
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    pairs = read_frame(paths.paraphrase_items, "paraphrase_items")
    with computing(params.runtime) as device:
        predictions = run(pairs, Paraphraser(paths.weights, device), params.decoding(name).plain(),
                          params.seed, lambda chunks: progress(chunks, process.name, unit="chunk"))
    digest = sha256_of(paths.weights / "model.safetensors")
    write_table(RunPaths(name).predictions, "predictions", predictions, Provenance(
        process.name, process.params_hash,
        {"model": {"name": paths.weights.as_posix(), "sha256": digest}},
        precision=computed_in(params.runtime.precision, params.runtime.tf32)))


def main(argv: list[str] | None = None) -> int:
    """Generate for the run named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="RUN")


if __name__ == "__main__":
    sys.exit(main())
