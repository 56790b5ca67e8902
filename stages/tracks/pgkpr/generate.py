"""Rewrite the evaluated split with a trained model of the PGKPR track.

Reads the folder and the evaluated pairs of the run's model; writes predictions.parquet. Sources, outputs and references
are words in lower case, joined by spaces, so that nothing but their words sets them apart.
"""

import sys
from collections.abc import Mapping
from typing import Any

import pandas as pd

from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.run.process import StageProcess, run_stage
from stages.tracks.common.generating import Progress, Rewritten, generate, split_of
from stages.tracks.pgkpr.generation import Paraphraser, evaluated_items
from stages.tracks.pgkpr.items import PARAPHRASE_ITEMS

STAGE = "generate_pgkpr"


def run(pairs: pd.DataFrame, paraphraser: Paraphraser, decode: Mapping[str, Any], seed: int,
        track: Progress = iter) -> pd.DataFrame:
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
    chosen = split_of(pairs, decode["split"], "paraphrase_items")
    items = evaluated_items(chosen, which, seed, on.mark_all, on.max_length)
    return pd.concat(list(paraphraser.rewrite(items, decode, track)), ignore_index=True)


def _rewritten(params: Params, name: str, paths: ModelPaths, device: str, track: Progress) -> Rewritten:
    pairs = read_frame(paths.paraphrase_items, PARAPHRASE_ITEMS)
    return Rewritten(run(pairs, Paraphraser(paths.weights, device), params.decoding(name).plain(),
                         params.seed, track))


def _work(process: StageProcess) -> None:
    generate(process, _rewritten)


def main(argv: list[str] | None = None) -> int:
    """Generate for the run named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="RUN")


if __name__ == "__main__":
    sys.exit(main())
