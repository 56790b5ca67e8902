"""Predict the evaluated split with a classifier of the CLLD track, and score it and the baselines, with intervals."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from keycontrast.errors import InputError
from keycontrast.progress import progress
from stages.common.device import computed_in, computing
from stages.common.paths import DatasetPaths, ModelPaths, RunPaths
from stages.common.seeds import derived_seed, seed_everything
from stages.common.tables import Provenance, read_frame, write_json, write_table
from stages.metrics.classification import Confidence, bin_of, class_statistics
from stages.metrics.resampling import Statistic, intervals
from stages.run.process import StageProcess, run_stage
from stages.tracks.clld import tables as clld
from stages.tracks.clld.export import ROWS, TrainedOn, class_probabilities, load_classifier
from stages.tracks.clld.tables import row_name, row_of
from stages.tracks.common.evaluation import Resampling, rounded, write_run_manifest
from stages.tracks.common.frame import for_each_seed, split_of

STAGE = "evaluate_clld"
LEADING = ["accuracy", "macro_f1"]
BINS = 15  # of equal width, for calibration
_SMALLEST = float(np.finfo(np.float64).tiny)
# The predicted class index of each text (n,), and the class probabilities (n, N) if the system has any.
System = tuple[np.ndarray, np.ndarray | None]


def run(items: pd.DataFrame, probabilities: np.ndarray, baselines: Mapping[str, System], classes: Sequence[str],
        resampling: Resampling) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Return tables by kind, and metrics, of a classifier and of the baselines on the same texts.

    ``items`` are the evaluated rows of table ``labelled_items``, ``probabilities`` (n, N) are those of their classes.
    """
    labels, n_classes = np.array(clld.class_numbers(items["label"], classes)), len(classes)
    systems: dict[str, System] = {"run": (probabilities.argmax(1), probabilities), **baselines}
    scores: dict[str, pd.DataFrame] = {}
    statistics: dict[str, dict[str, Statistic]] = {}
    for name, (predicted, given) in systems.items():
        rows = scores[name] = pd.DataFrame({
            "system": name, "example_id": items["example_id"], "label": items["label"],
            "predicted": [classes[number] for number in predicted], "correct": predicted == labels,
            "probability": None if given is None else given.max(1),
            "nll": None if given is None else nll(labels, given),
            "brier": None if given is None else brier(labels, given)})
        confidence = None if given is None else Confidence(
            rows["probability"].to_numpy(), rows["nll"].to_numpy(), rows["brier"].to_numpy(), BINS)
        statistics[name] = class_statistics(labels, predicted, n_classes, confidence)
    values = {name: {metric: statistic.value() for metric, statistic in measured.items()}
              for name, measured in statistics.items()}
    seed = derived_seed(resampling.seed, STAGE, "resamples")
    # No interval of the calibration error: it is a sum of absolute values, which are larger on resamples.
    ends = {name: intervals({key: metrics[key] for key in metrics if key != "ece"}, resampling.resamples,
                            resampling.level, seed) for name, metrics in statistics.items()}
    counts = clld.counted(labels, systems["run"][0], n_classes)
    tables = {"class_predictions": items[["example_id", "text_id", "text", "label"]].assign(
                  **scores["run"][["predicted", "probability"]], probabilities=list(probabilities)),
              "class_scores": pd.concat(list(scores.values()), ignore_index=True),
              "classes": clld.class_table(counts, classes), "confusion": clld.confusion_table(counts, classes),
              "calibration": calibration_table(probabilities.max(1), scores["run"]["correct"].to_numpy(), BINS)}
    return tables, {
        "run": values["run"], "baselines": {name: values[name] for name in baselines},
        "intervals": {"run": ends["run"], "baselines": {name: ends[name] for name in baselines}},
        "counts": {"examples": len(items), "classes": n_classes,
                   "classes_evaluated": int((counts.sum(1) > 0).sum()),
                   "classes_predicted": int((counts.sum(0) > 0).sum())},
        "settings": {"leading": LEADING, "bins": BINS, "seed": resampling.seed, "resamples": resampling.resamples,
                     "level": resampling.level}}


def nll(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return -log of the probability of the right class (n,), in nats; of a probability of 0, some 700."""
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], _SMALLEST))


def brier(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the squared distance of probabilities (n, N) from the right class (n,), in [0, 2] (Brier 1950)."""
    return ((probabilities - np.eye(probabilities.shape[1])[labels]) ** 2).sum(1)


def calibration_table(probability: np.ndarray, correct: np.ndarray, bins: int) -> pd.DataFrame:
    """Return table ``calibration`` from probability and correctness of each prediction (n,) (Guo et al. 2017)."""
    placed = bin_of(probability, bins)
    texts = np.bincount(placed, minlength=bins)
    filled = np.where(texts > 0, texts, np.nan)
    return pd.DataFrame({
        "bin": np.arange(1, bins + 1, dtype=np.int32), "from": np.arange(bins) / bins,
        "to": np.arange(1, bins + 1) / bins, "texts": texts,
        "confidence": np.bincount(placed, probability, bins) / filled,
        "accuracy": np.bincount(placed, correct, bins) / filled})


def baseline_systems(items: pd.DataFrame, on: TrainedOn, linear: pd.DataFrame) -> dict[str, System]:
    """Return the baselines of ``items``: the most frequent training class, and table ``linear_baseline``."""
    rows = items[["example_id"]].merge(linear, on="example_id", how="left")
    missing = rows.loc[rows["label"].isna(), "example_id"].tolist()
    if missing:
        raise InputError(f"table linear_baseline: example {missing[0]} was evaluated and is missing there, and "
                         f"{len(missing) - 1} more. Run linear_baseline again.")
    probabilities = np.stack(rows["probabilities"].to_list())
    if probabilities.shape[1] != len(on.classes) or rows["label"].tolist() != items["label"].tolist():
        raise InputError(f"table linear_baseline: its classes or labels are not those of the model, which knows "
                         f"{len(on.classes)} classes. Run linear_baseline again, and train the model again.")
    most = int(np.argmax(list(on.texts.values())))  # of equals the first
    return {"majority": (np.full(len(items), most), None), "linear": (probabilities.argmax(1), probabilities)}


def _work(process: StageProcess) -> None:
    table = DatasetPaths(process.params.models.clld[process.instance].dataset).table("linear_baseline")
    for_each_seed(process, _evaluate, lambda run: [run.predictions.parent, run.folder], lambda run: [table])
    write_run_manifest(process)


def _evaluate(process: StageProcess, paths: ModelPaths) -> None:
    params, name, runtime = process.params, process.instance, process.params.runtime
    split, run_paths = params.evaluate_clld.split, RunPaths(name, paths.seed)
    classifier, items = load_classifier(paths.weights), read_frame(paths.items, clld.LABELLED_ITEMS)
    on = classifier.on
    items = split_of(items, split, "items").sort_values("example_id", ignore_index=True)
    linear = read_frame(DatasetPaths(on.dataset).table("linear_baseline"), clld.LINEAR_BASELINE)
    baselines = baseline_systems(items, on, linear)
    seed_everything(params.seed, runtime.threads, runtime.deterministic, runtime.tf32)
    with computing(runtime) as device:
        nn.Module.to(classifier.model, device)
        probabilities = class_probabilities(classifier.model, classifier.tokenizer, items["text"].tolist(),
                                            on.max_length, ROWS,
                                            lambda chunks: progress(chunks, process.name, unit="batch"))
    tables, metrics = run(items, probabilities, baselines, on.classes, Resampling.of(params))
    metrics["settings"] |= {"split": split, "model": name, "dataset": on.dataset, "contrast": on.contrast,
                            "encoder": on.encoder, "max_length": on.max_length,
                            "row": row_name(row_of(on.contrast, classifier.model.config.ce_views))}
    provenance = Provenance(process.name, process.params_hash, counts=metrics["counts"],
                            precision=computed_in(runtime.precision, runtime.tf32))
    places = {clld.CLASS_PREDICTIONS: run_paths.predictions, clld.CLASS_SCORES: run_paths.scores, **{
        schema: run_paths.table(schema.name) for schema in (clld.CLASSES, clld.CONFUSION, clld.CALIBRATION)}}
    for schema, path in places.items():
        write_table(path, schema, tables[schema.name], provenance)
    write_json(run_paths.metrics, rounded(metrics))


main = partial(run_stage, STAGE, _work, instance="RUN")
