"""Rewrite the evaluated split with a trained HCL model (HCL section 4.2).

Reads the folder and the items of the run's model; writes predictions.parquet.
"""

import sys
from collections.abc import Mapping
from typing import Any

import pandas as pd

from keycontrast.errors import InputError
from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.run.process import StageProcess, run_stage
from stages.tracks.common.generating import Progress, Rewritten, generate, split_of
from stages.tracks.common.schemas.items import ITEMS
from stages.tracks.hcl.keywords import unseen_remark, with_keywords
from stages.tracks.hcl.rewriting import ItemRewriter, load_item_rewriter

STAGE = "generate_hcl"


def run(items: pd.DataFrame, rewriter: ItemRewriter, decode: Mapping[str, Any], seed: int,
        track: Progress = iter) -> pd.DataFrame:
    """Return table ``predictions`` for the split that ``decode`` names.

    Args:
        items: table ``items`` of the model.
        rewriter: the model.
        decode: plain values of the block ``generate_hcl`` with the run's own.
        seed: for the draws of z and of random keywords.
        track: wraps the list of chunks, to show progress.

    Raises:
        InputError: the split is empty, or keywords are to be changed that the model does not use.
    """
    chosen = split_of(items, decode["split"], "items").sort_values("example_id")
    if decode["keyword"] != "own" and not rewriter.uses_keyword:
        raise InputError(f"generate_hcl.keyword is {decode['keyword']!r}, but this model has no keyword "
                         f"(another architecture, or train_hcl.keyword.condition is false); set it to own.")
    conditioned = with_keywords(chosen, decode["keyword"], rewriter.keywords, seed)
    return pd.concat(list(rewriter.rewrite(conditioned, decode, seed, track)), ignore_index=True)


def _rewritten(params: Params, name: str, paths: ModelPaths, device: str, track: Progress) -> Rewritten:
    decode, rewriter = params.decoding(name).plain(), load_item_rewriter(paths.weights, device)
    predictions = run(read_frame(paths.items, ITEMS), rewriter, decode, params.seed, track)
    remark = unseen_remark(decode["keyword"], rewriter.keywords)
    return Rewritten(predictions, [] if remark is None else [remark])


def _work(process: StageProcess) -> None:
    generate(process, _rewritten)


def main(argv: list[str] | None = None) -> int:
    """Generate for the run named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="RUN")


if __name__ == "__main__":
    sys.exit(main())
