"""Rewrite the evaluated split with a trained HCL model (METHODS A.8).

Reads the folder and the items of the run's model; writes predictions.parquet.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from stages.artifacts.paths import ModelPaths, RunPaths
from stages.artifacts.tables import Provenance, read_frame, write_table
from stages.runtime.errors import InputError
from stages.runtime.fingerprint import sha256_of
from stages.runtime.log import logger
from stages.runtime.precision import computed_in, computing
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.progress import progress
from stages.runtime.seeds import seed_everything
from stages.tracks.hcl.decoding import Paraphraser
from stages.tracks.hcl.keywords import unseen_remark, with_keywords

STAGE = "generate_hcl"


def run(items: pd.DataFrame, paraphraser: Paraphraser, decode: Mapping[str, Any], seed: int,
        track: Callable[[list[Any]], Iterable[Any]] = iter) -> pd.DataFrame:
    """Return table ``predictions`` for the split that ``decode`` names.

    Args:
        items: table ``items`` of the model.
        paraphraser: the model.
        decode: plain values of the block ``generate_hcl`` with the run's own.
        seed: for the draws of z and of random keywords.
        track: wraps the list of chunks, to show progress.

    Raises:
        InputError: the split is empty, or keywords are to be changed that the model does not use.
    """
    chosen = items[items["split"] == decode["split"]].sort_values("example_id")
    if chosen.empty:
        raise InputError(f"items.parquet: the {decode['split']} split is empty. Give it a larger share "
                         f"(ingest.{decode['split']}), or more data.")
    if decode["keyword"] != "own" and not paraphraser.uses_keyword:
        raise InputError(f"generate_hcl.keyword is {decode['keyword']!r}, but this model has no keyword "
                         f"(train_hcl.keyword.condition is false); set it to own.")
    conditioned = with_keywords(chosen, decode["keyword"], paraphraser.nodes.keywords, seed)
    return pd.concat(list(paraphraser.rewrite(conditioned, decode, seed, track)), ignore_index=True)


def _work(process: StageProcess) -> None:
    params, name = process.params, process.instance
    paths = ModelPaths(params.runs.hcl[name].model)
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    decode = params.decoding(name).plain()
    with computing(params.runtime) as device:
        paraphraser = Paraphraser(paths.weights, device)
        predictions = run(read_frame(paths.items, "items"), paraphraser, decode, params.seed,
                          lambda chunks: progress(chunks, process.name, unit="chunk"))
    weights = paths.weights / "model.safetensors"
    provenance = Provenance(process.name, process.params_hash,
                            {"model": {"name": paths.weights.as_posix(), "sha256": sha256_of(weights)}},
                            precision=computed_in(params.runtime.precision, params.runtime.tf32))
    remark = unseen_remark(decode["keyword"], paraphraser.nodes.keywords)
    if remark is not None:
        logger(STAGE).warning("%s", remark)
        provenance.fallbacks.append(remark)
    write_table(RunPaths(name).predictions, "predictions", predictions, provenance)


def main(argv: list[str] | None = None) -> int:
    """Generate for the run named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="RUN")


if __name__ == "__main__":
    sys.exit(main())
