"""What is kept of the items of an evaluated run, by track, and the metrics that follow from it; no text of a data set.

Columns are scores of single items, and sums from which BLEU of the corpus follows; of classifiers the places of
classes among their names: ``confused_0_1`` is the share of texts of one of the first two classes taken for the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from stages.common.columns.graph import NODES
from stages.common.paths import DatasetPaths, ModelPaths, RunPaths
from stages.common.schemas import TableSchema
from stages.common.tables import read_frame
from stages.metrics.bleu import ORDERS, RELEASED_WEIGHTS, corpus_bleu_of_sums, corpus_columns, count_matches
from stages.metrics.classification import Sureness, class_statistics
from stages.metrics.corpus_statistics import ibleu_of_sums
from stages.metrics.resampling import Statistic, mean_statistic
from stages.tracks.clld.schemas.evaluated import CLASS_SCORES
from stages.tracks.common.schemas.items import ITEMS
from stages.tracks.common.schemas.predictions import PREDICTIONS
from stages.tracks.common.schemas.scores import PARAPHRASE_SCORES, SCORES
from stages.tracks.pgkpr.normalisation import as_words

_WIDTH = 2 * ORDERS + 2     # of the sums from which BLEU of the corpus follows
_TEXTS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "extrema", "average", "greedy", "rouge_1", "rouge_l", "bertscore",
          "source_bleu_4")
_HCL = (*_TEXTS, "keyword_kept")
_PGKPR = (*_TEXTS, "rouge_2", "released_py_rouge_1", "released_py_rouge_2", "released_py_rouge_l", "keywords_kept")


@dataclass(frozen=True)
class KeptItems:
    """How a track's items are kept.

    Attributes:
        schema: of the table of scores.
        columns: returns what is kept, a row per item, from the scores of a run, sorted by example, and what ``beside``
            reads.
        beside: returns what ``columns`` needs beside the scores, from the paths of the run and of its model and the
            model's data set.
        statistics: returns the metrics of items kept so, by name.
        shown: metrics that a table shows unless told otherwise.
    """

    schema: TableSchema
    columns: Callable[..., pd.DataFrame]
    statistics: Callable[[pd.DataFrame], dict[str, Statistic]]
    shown: Sequence[str]
    beside: Callable[[RunPaths, ModelPaths, str], Sequence[object]] = lambda run, model, dataset: ()


def _scores(scores: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    return scores[["example_id", *names]].astype(dict.fromkeys(names, "float32"))


def _means(items: pd.DataFrame, names: Sequence[str]) -> dict[str, Statistic]:
    return {name: mean_statistic(items[name].to_numpy(dtype=np.float64)) for name in names if name in items}


def _hcl(scores: pd.DataFrame, items: pd.DataFrame, nodes: set[str]) -> pd.DataFrame:
    """Keep, beside scores, how many training inputs share an item's keyword, and whether the graph knows it."""
    inputs = items.loc[items["split"] == "train", "keyword"].value_counts()
    keyword = items.set_index("example_id").loc[scores["example_id"], "keyword"]
    return _scores(scores, _HCL).assign(cluster=keyword.map(inputs).fillna(0).astype("int32").to_numpy(),
                                        known=keyword.isin(nodes).to_numpy())


def _graph(run: RunPaths, model: ModelPaths, dataset: str) -> Sequence[object]:
    nodes = read_frame(DatasetPaths(dataset).table("nodes"), NODES)
    return read_frame(model.items, ITEMS), set(nodes["keyword"])


def _pgkpr(scores: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """Keep, beside scores, the sums of three BLEUs of the corpus: of the released form, raw, and against sources."""
    predicted = predictions[predictions["sample"] == 0].set_index("example_id").loc[scores["example_id"]]
    outputs = [as_words(text) for text in scores["output"]]
    against = {
        "released": count_matches([as_words(text) for text in scores["released_output"]],
                                  [[as_words(text) for text in texts] for texts in scores["released_references"]]),
        "corpus": count_matches(outputs, [[as_words(text) for text in texts] for texts in predicted["references"]]),
        "source": count_matches(outputs, [[as_words(text)] for text in predicted["source"]])}
    sums = {f"{name}_{place}": column.astype("int16") for name, counts in against.items()
            for place, column in enumerate(corpus_columns(counts).T)}
    return _scores(scores, _PGKPR).assign(**sums)


def _pgkpr_statistics(items: pd.DataFrame) -> dict[str, Statistic]:
    sums = {name: items[[f"{name}_{place}" for place in range(_WIDTH)]].to_numpy(dtype=np.float64)
            for name in ("released", "corpus", "source")}

    def bleu(name: str, order: int, weights: Sequence[Sequence[float]] | None = None) -> Statistic:
        return Statistic(sums[name], lambda whole: corpus_bleu_of_sums(whole, weights)[..., order - 1])

    found = _means(items, _PGKPR)
    for order in range(1, ORDERS + 1):
        found |= {f"released_bleu_{order}": bleu("released", order, RELEASED_WEIGHTS),
                  f"corpus_bleu_{order}": bleu("corpus", order)}
    return found | {"source_bleu": bleu("source", ORDERS),
                    "ibleu": Statistic(np.concatenate([sums["corpus"], sums["source"]], axis=1), ibleu_of_sums)}


def _clld(scores: pd.DataFrame) -> pd.DataFrame:
    names = sorted({*scores["label"], *scores["predicted"]})
    places = {name: place for place, name in enumerate(names)}
    return _scores(scores, ("probability", "nll", "brier")).assign(
        **{column: scores[column].map(places).astype("int16").to_numpy() for column in ("label", "predicted")})


def _clld_statistics(items: pd.DataFrame) -> dict[str, Statistic]:
    label, predicted = (items[column].to_numpy(np.int64) for column in ("label", "predicted"))
    sureness = Sureness(*(items[column].to_numpy(np.float64) for column in ("probability", "nll", "brier")))
    count = int(max(label.max(), predicted.max())) + 1
    low, high = np.minimum(label, predicted), np.maximum(label, predicted)
    confused = {f"confused_{first}_{second}": mean_statistic(((low == first) & (high == second)).astype(np.float64))
                for first, second in combinations(range(count), 2)}
    return class_statistics(label, predicted, count, sureness) | confused


KEPT_ITEMS: Mapping[str, KeptItems] = {
    "hcl": KeptItems(SCORES, _hcl, lambda items: _means(items, _HCL),
                     ("bleu_1", "bleu_4", "bertscore", "source_bleu_4"), _graph),
    "pgkpr": KeptItems(PARAPHRASE_SCORES, _pgkpr, _pgkpr_statistics,
                       ("released_bleu_4", "ibleu", "bertscore", "keywords_kept"),
                       lambda run, model, dataset: [read_frame(run.predictions, PREDICTIONS)]),
    "clld": KeptItems(CLASS_SCORES, _clld, _clld_statistics, ("accuracy", "macro_f1", "nll")),
}
