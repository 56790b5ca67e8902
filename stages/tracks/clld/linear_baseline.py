"""Classify the texts of a data set by logistic regression on TF-IDF, a baseline that papers omit.

The regularisation strength is chosen on the validation split; if accuracies are equal, the strongest one is chosen.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from keycontrast.errors import InputError
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, write_json, write_table
from stages.metrics.classification import class_statistics
from stages.run.process import StageProcess, run_stage
from stages.tracks.clld.tables import LINEAR_BASELINE, class_numbers, classes_of, read_labelled_texts

STAGE = "linear_baseline"
# Words with their inner apostrophes and hyphens, or single signs: those of TextCNN (models.clld.textcnn).
WORD = r"\w+(?:['’-]\w+)*|[^\w\s]"
STRENGTHS = (1.0, 10.0, 100.0)  # inverse regularisation C; if accuracies are equal, the smallest is chosen
_ITERATIONS = 1000  # of the solver (L-BFGS)
_DECIMALS = 6


def run(items: pd.DataFrame, min_count: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return table ``linear_baseline`` of the validation and test texts, and metrics; ``items`` are of all splits."""
    classes = classes_of(items)
    parts = {split: items[items["split"] == split] for split in ("train", "validation", "test")}
    numbers = {split: np.array(class_numbers(part["label"], classes)) for split, part in parts.items()}
    words = TfidfVectorizer(token_pattern=WORD, min_df=min_count, sublinear_tf=True)
    try:
        features = words.fit_transform(parts["train"]["text"])
    except ValueError as error:
        raise InputError(f"linear_baseline.min_count: {min_count}: no word is in so many training texts; lower it."
                         ) from error
    held = {split: words.transform(parts[split]["text"]) for split in ("validation", "test") if len(parts[split])}
    with threadpool_limits(1), warnings.catch_warnings():  # sums of several threads differ in their last digits
        warnings.simplefilter("ignore", ConvergenceWarning)  # `unfinished` says so
        fitted = {strength: LogisticRegression(C=strength, max_iter=_ITERATIONS).fit(features, numbers["train"])
                  for strength in STRENGTHS}
        accuracies = {strength: float(np.mean(model.predict(held["validation"]) == numbers["validation"]))
                      for strength, model in fitted.items()}
        best = max(accuracies, key=lambda strength: (accuracies[strength], -strength))
        predictions = {split: _probabilities(fitted[best], rows, len(classes), features.shape[0])
                       for split, rows in held.items()}
    tables, measured = [], {}
    for split, rows in predictions.items():
        tables.append(parts[split][["example_id", "text_id", "split", "label"]].assign(
            predicted=[classes[number] for number in rows.argmax(1)], probabilities=list(rows)))
        statistics = class_statistics(numbers[split], rows.argmax(1), len(classes))
        measured[split] = {"texts": len(rows), **{
            name: round(statistic.value(), _DECIMALS) for name, statistic in statistics.items()}}
    return pd.concat(tables, ignore_index=True), {
        **measured, "strength": best, "features": features.shape[1], "classes": len(classes),
        "validation_accuracy": {f"{strength:g}": round(value, _DECIMALS) for strength, value in accuracies.items()},
        "unfinished": [strength for strength, model in fitted.items() if model.n_iter_.max() >= _ITERATIONS]}


def _probabilities(model: LogisticRegression, rows: Any, n_classes: int, texts: int) -> np.ndarray:
    """Return (n p + 1) / (n + N), Laplace's rule of succession, for the model's probabilities p of N classes (rows, N).

    n is the number of training ``texts``, so a class without any costs at most log(n + N) nats.
    """
    probabilities = np.zeros((rows.shape[0], n_classes))
    probabilities[:, model.classes_] = model.predict_proba(rows)
    return (texts * probabilities + 1) / (texts + n_classes)


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    predictions, metrics = run(read_labelled_texts(paths), params.linear_baseline.min_count)
    if metrics["unfinished"]:
        process.log.warning("%s: not finished after %d iterations with C of %s", process.name, _ITERATIONS,
                            ", ".join(map(str, metrics["unfinished"])))
    write_table(paths.table(STAGE), LINEAR_BASELINE, predictions,
                Provenance(process.name, process.params_hash, counts={"features": metrics["features"]}))
    write_json(paths.metrics(STAGE), metrics)


main = partial(run_stage, STAGE, _work)
