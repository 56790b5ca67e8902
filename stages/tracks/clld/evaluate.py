"""Let a classifier of the CLLD track predict its split, and score it beside the floors, with intervals.

Writes predictions.parquet (probabilities of every evaluated text), scores.parquet (one row per system and text),
classes.parquet, confusion.parquet, calibration.parquet, and metrics.json: ``run`` and ``floors`` (majority, linear and,
if there, vectors), ``intervals`` (bootstrap percentile intervals in the same shape), ``counts`` and ``settings``. The
classifier alone is used, with what it reads: the contrast and the label distances serve training.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import nn
from transformers import AutoTokenizer

from keycontrast.errors import InputError
from keycontrast.progress import progress
from models.clld import ClldModel
from stages.common.device import computed_in, computing
from stages.common.paths import DatasetPaths, ModelPaths, RunPaths
from stages.common.seeds import derived_seed, seed_everything
from stages.common.tables import Provenance, read_frame, write_json, write_table
from stages.metrics.classification import Sureness, bin_of, class_statistics
from stages.metrics.resampling import Statistic, interval, resampled
from stages.run.process import StageProcess, run_stage
from stages.tracks.clld.classifier import ROWS, TrainedOn, class_probabilities, load_lookup
from stages.tracks.clld.rows import row_name, row_of
from stages.tracks.clld.schemas import (
    CALIBRATION,
    CLASS_PREDICTIONS,
    CLASS_SCORES,
    CLASSES,
    CONFUSION,
    LABELLED_ITEMS,
    LINEAR_FLOOR,
)
from stages.tracks.clld.tables import class_numbers, class_table, confusion_table, counted
from stages.tracks.common.evaluation import Resampling, rounded, write_run_manifest
from stages.tracks.common.frame import for_each_seed

STAGE = "evaluate_clld"
LEADING = ["accuracy", "macro_f1"]


@dataclass(frozen=True)
class System:
    """What a system says of the evaluated texts.

    Attributes:
        predicted: index of the class of each text (n,).
        probabilities: of the classes (n, N); None for a system that has none.
    """

    predicted: np.ndarray
    probabilities: np.ndarray | None = None

    @classmethod
    def of(cls, probabilities: np.ndarray) -> "System":
        """Return the system that says the class of largest probability, of equals the first."""
        return cls(probabilities.argmax(1), probabilities)


@dataclass(frozen=True)
class ClassEvaluation:
    """What the stage makes.

    Attributes:
        tables: by kind: ``class_predictions``, ``class_scores``, ``classes``, ``confusion``, ``calibration``.
        metrics: content of ``metrics.json``.
    """

    tables: dict[str, pd.DataFrame]
    metrics: dict[str, Any]


def run(items: pd.DataFrame, probabilities: np.ndarray, floors: Mapping[str, System], classes: Sequence[str],
        bins: int, resampling: Resampling) -> ClassEvaluation:
    """Return tables and metrics of a classifier and of the floors on the same texts.

    Args:
        items: evaluated rows of table ``labelled_items``, in its order.
        probabilities: of the classes, of each of them (n, N).
        floors: by name.
        classes: name of each class, by index.
        bins: of the calibration.
        resampling: bootstrap and seed.
    """
    labels = np.array(class_numbers(items["label"], list(classes)))
    own = System.of(probabilities)
    systems = {"run": own, **floors}
    statistics = {name: _statistics(labels, system, len(classes), bins) for name, system in systems.items()}
    values = {name: {metric: one.value() for metric, one in found.items()} for name, found in statistics.items()}
    intervals = {name: _intervals(found, resampling) for name, found in statistics.items()}
    counts = counted(labels, own.predicted, len(classes))
    tables = {"class_predictions": _predictions(items, own, classes),
              "class_scores": pd.concat([_scores(name, items, labels, system, classes)
                                         for name, system in systems.items()], ignore_index=True),
              "classes": class_table(counts, classes), "confusion": confusion_table(counts, classes),
              "calibration": calibration_table(probabilities.max(1), own.predicted == labels, bins)}
    metrics = {"run": values["run"], "floors": {name: values[name] for name in floors},
               "intervals": {"run": intervals["run"], "floors": {name: intervals[name] for name in floors}},
               "counts": {"examples": len(items), "classes": len(classes),
                          "classes_evaluated": int((counts.sum(1) > 0).sum()),
                          "classes_predicted": int((counts.sum(0) > 0).sum())},
               "settings": {"leading": LEADING, "bins": bins, "seed": resampling.seed,
                            "resamples": resampling.resamples, "level": resampling.level}}
    return ClassEvaluation(tables, metrics)


def _statistics(labels: np.ndarray, system: System, n_classes: int, bins: int) -> dict[str, Statistic]:
    found = system.probabilities
    return class_statistics(labels, system.predicted, n_classes,
                            None if found is None else sureness_of(labels, found, bins))


def _intervals(statistics: Mapping[str, Statistic], resampling: Resampling) -> dict[str, list[float]]:
    if not resampling.resamples:
        return {}
    samples = resampled(statistics, resampling.resamples, derived_seed(resampling.seed, STAGE, "resamples"))
    return {name: list(interval(values, resampling.level)) for name, values in samples.items()}


def _predictions(items: pd.DataFrame, system: System, classes: Sequence[str]) -> pd.DataFrame:
    assert system.probabilities is not None  # of a classifier
    return items[["example_id", "text_id", "text", "label"]].assign(
        predicted=[classes[number] for number in system.predicted], probability=system.probabilities.max(1),
        probabilities=list(system.probabilities))


def _scores(name: str, items: pd.DataFrame, labels: np.ndarray, system: System,
            classes: Sequence[str]) -> pd.DataFrame:
    found = system.probabilities
    nothing = [None] * len(items)
    return pd.DataFrame({
        "system": name, "example_id": items["example_id"], "label": items["label"],
        "predicted": [classes[number] for number in system.predicted], "correct": system.predicted == labels,
        "probability": nothing if found is None else found.max(1),
        "nll": nothing if found is None else nll(labels, found),
        "brier": nothing if found is None else brier(labels, found)})


def evaluated_items(items: pd.DataFrame, split: str, run_name: str) -> pd.DataFrame:
    """Return the items of the split that run ``run_name`` evaluates, in their order.

    Raises:
        InputError: there are none.
    """
    chosen = items[items["split"] == split].sort_values("example_id", ignore_index=True)
    if chosen.empty:
        raise InputError(f"evaluate_clld.split: {run_name}: the {split} split has no texts. Raise ingest.{split}, or "
                         f"choose another split.")
    return chosen


def floor_systems(items: pd.DataFrame, on: TrainedOn, linear: pd.DataFrame) -> dict[str, System]:
    """Return the floors on the evaluated ``items``.

    Raises:
        InputError: table ``linear_floor`` does not belong to the model.
    """
    most = on.classes.index(majority_class(on.texts))
    return {"majority": System(np.full(len(items), most)),
            "linear": System.of(linear_probabilities(linear, items, on.classes))}


def _work(process: StageProcess) -> None:
    table = DatasetPaths(process.params.models.clld[process.instance].dataset).table("linear_floor")
    for_each_seed(process, _evaluate, lambda run: [run.predictions.parent, run.folder],
                  lambda run: [table])
    write_run_manifest(process)


def _evaluate(process: StageProcess, paths: ModelPaths) -> None:
    params, name = process.params, process.instance
    settings = params.evaluate_clld
    table = DatasetPaths(params.models.clld[name].dataset).table("linear_floor")
    on, items = load_lookup(paths.weights), read_frame(paths.items, LABELLED_ITEMS)
    items = evaluated_items(items, settings.split, name)
    floors = floor_systems(items, on, read_frame(table, LINEAR_FLOOR))
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    model = ClldModel.from_pretrained(paths.weights).eval()
    with computing(params.runtime) as device:
        nn.Module.to(model, device)
        probabilities = class_probabilities(model, AutoTokenizer.from_pretrained(paths.weights), items["text"].tolist(),
                                            on.max_length, ROWS,
                                            lambda chunks: progress(chunks, process.name, unit="batch"))
    result = run(items, probabilities, floors, on.classes, settings.bins, Resampling.of(params))
    result.metrics["settings"] |= {"split": settings.split, "model": name, "dataset": on.dataset,
                                   "contrast": on.contrast, "encoder": on.encoder, "max_length": on.max_length,
                                   "row": row_name(row_of(on.contrast, model.config.ce_views))}
    write(RunPaths(name, paths.seed), result, Provenance(
        process.name, process.params_hash, counts=result.metrics["counts"],
        precision=computed_in(params.runtime.precision, params.runtime.tf32)))


def write(paths: RunPaths, result: ClassEvaluation, provenance: Provenance) -> None:
    """Write what was made into the folders of a run."""
    files = [(paths.predictions, CLASS_PREDICTIONS), (paths.scores, CLASS_SCORES),
             *((paths.table(schema.name), schema) for schema in (CLASSES, CONFUSION, CALIBRATION))]
    for path, schema in files:
        write_table(path, schema, result.tables[schema.name], provenance)
    write_json(paths.metrics, rounded(result.metrics))


def majority_class(texts: Mapping[str, int]) -> str:
    """Return the class of most training texts; of equals the first.

    Args:
        texts: training texts of each class, in the order of the classes.
    """
    return max(texts, key=lambda name: texts[name])


def linear_probabilities(table: pd.DataFrame, items: pd.DataFrame, classes: Sequence[str]) -> np.ndarray:
    """Return the probabilities (n, N) that a linear classifier gives to the classes of each item, in their order.

    Args:
        table: ``linear_floor`` of the data set.
        items: evaluated texts, with ``example_id`` and ``label``.
        classes: name of each class, by index.

    Raises:
        InputError: an item is missing there, or it knows other classes.
    """
    rows = table.set_index("example_id")
    missing = [number for number in items["example_id"] if number not in rows.index]
    if missing:
        raise InputError(f"table linear_floor: example {missing[0]} was evaluated and is missing there, and "
                         f"{len(missing) - 1} more. Run linear_floor again.")
    found = np.stack(rows.loc[items["example_id"], "probabilities"].to_list())
    if found.shape[1] != len(classes) or rows.loc[items["example_id"], "label"].tolist() != items["label"].tolist():
        raise InputError(f"table linear_floor: its classes or labels are not those of the model, which knows "
                         f"{len(classes)} classes. Run linear_floor again, and train the model again.")
    return found


_SMALLEST = float(np.finfo(np.float64).tiny)


def sureness_of(labels: np.ndarray, probabilities: np.ndarray, bins: int) -> Sureness:
    """Return what ``probabilities`` (n, N) say of texts of the classes ``labels`` (n,).

    Args:
        labels: index of the class of each text.
        probabilities: of the classes; rows sum to 1.
        bins: of the calibration error.
    """
    return Sureness(probabilities.max(1), nll(labels, probabilities), brier(labels, probabilities), bins)


def nll(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return -log of the probability of the right class (n,), in nats; of a probability of 0, some 700.

    Args:
        labels: index of the class of each text (n,).
        probabilities: of the classes (n, N).
    """
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], _SMALLEST))


def brier(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the squared distance of probabilities from the right class (n,), in [0, 2] (Brier 1950).

    Args:
        labels: index of the class of each text (n,).
        probabilities: of the classes (n, N).
    """
    right = np.eye(probabilities.shape[1])[labels]
    return ((probabilities - right) ** 2).sum(1)


def calibration_table(probability: np.ndarray, correct: np.ndarray, bins: int) -> pd.DataFrame:
    """Return table ``calibration``: how often a classifier is right when it is so sure (Guo et al. 2017).

    Args:
        probability: of the predicted class (n,).
        correct: whether it is the class (n,).
        bins: of equal width, see :func:`stages.metrics.classification.bin_of`.
    """
    placed = bin_of(probability, bins)
    texts = np.bincount(placed, minlength=bins)
    filled = np.where(texts > 0, texts, np.nan)
    return pd.DataFrame({
        "bin": np.arange(1, bins + 1, dtype=np.int32), "from": np.arange(bins) / bins,
        "to": np.arange(1, bins + 1) / bins, "texts": texts,
        "confidence": np.bincount(placed, probability, bins) / filled,
        "accuracy": np.bincount(placed, correct, bins) / filled})


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the run named on the command line."""
    return run_stage(STAGE, _work, argv, instance="RUN")


if __name__ == "__main__":
    sys.exit(main())
