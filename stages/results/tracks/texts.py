"""Result tables and metrics that are shared by the tracks that generate texts."""

import numpy as np
import pandas as pd

from stages.metrics.registered import METRICS, family
from stages.metrics.resampling import Statistic, mean_statistic
from stages.results.track import TableLayout

AS_HCL = TableLayout(
    "As HCL reports them", "BLEU-n here is the mean of sentence BLEU with order n alone and NLTK's smoothing "
    "method 7. It lifts low scores, and identical texts score above 1, up to 4/3: never compare it with ordinary "
    "BLEU.", (family("bleu"), family("similarity")))
CUMULATIVE = TableLayout(
    "Cumulative sentence BLEU", "Smoothing method 7, with even weights on orders 1 to n.", (family("cumulative_m7"),))
VARIETY = TableLayout(
    "Variety and keywords", "Over all outputs of a system; self-BLEU compares each output with the others and is high "
    "if they are alike.",
    tuple(family(name) for name in ("distinct", "within", "sameness", "kept", "length")))
# Decoding settings that do not change the scored output.
SAME_OUTPUT = ("samples", "batch_size", "split")


def item_statistics(scores: pd.DataFrame) -> dict[str, Statistic]:
    """Return the mean of every metric that has a column in rows of a table of scores; all null counts as none."""
    columns = {name: scores[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in scores if name in METRICS}
    return {str(name): mean_statistic(values) for name, values in columns.items() if not np.isnan(values).all()}
