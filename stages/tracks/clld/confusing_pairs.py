"""List the class pairs that a finished CT model confuses on the validation split, for static label distances."""

from functools import partial
from itertools import combinations
from math import ceil

import pandas as pd

from stages.common.paths import ModelPaths
from stages.common.tables import Provenance, read_frame, write_table
from stages.run.process import StageProcess, run_stage
from stages.tracks.clld.tables import CONFUSING_PAIRS, VALIDATION_CONFUSION

STAGE = "confusing_pairs"


def run(confusion: pd.DataFrame, share: float) -> pd.DataFrame:
    """Return table ``confusing_pairs``: both directions added up, the worst first, at least one pair chosen."""
    square = confusion.pivot(index="label", columns="predicted", values="texts")
    counts, classes = square.to_numpy(), list(square)
    both = counts + counts.T
    ranked = sorted((-int(both[a, b]), a, b) for a, b in combinations(range(len(classes)), 2) if both[a, b])
    chosen = max(1, ceil(round(share * len(ranked), 9)))  # 0.1 * 30 is a little more than 3
    rows = [(rank, classes[a], classes[b], counts[a, b], counts[b, a], -confused, rank <= chosen)
            for rank, (confused, a, b) in enumerate(ranked, 1)]
    return pd.DataFrame(rows, columns=CONFUSING_PAIRS.arrow().names)


def _work(process: StageProcess) -> None:
    params = process.params
    for seed in params.model_seeds(process.instance):
        seeded, paths = process.under(seed), ModelPaths(process.instance, seed)
        pairs = run(read_frame(paths.table("validation_confusion"), VALIDATION_CONFUSION), params.confusing_pairs.share)
        for row in pairs[pairs["chosen"]].to_dict("records"):
            seeded.log.info("%s and %s: %d texts confused", row["class"], row["other"], row["confused"])
        write_table(paths.confusing_pairs, CONFUSING_PAIRS, pairs,
                    Provenance(seeded.name, seeded.params_hash, counts={"chosen": int(pairs["chosen"].sum())}))


main = partial(run_stage, STAGE, _work, instance="MODEL")
