"""Tables of the CLLD track, labelled texts and results of classifiers, and the names of its rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from stages.common.examples import read_examples
from stages.common.paths import DatasetPaths
from stages.common.schemas import TEXTS, TableSchema
from stages.common.settings import Params
from stages.common.tables import read_frame

if TYPE_CHECKING:
    from stages.params import Params as Validated

# The `encoder` of models without a pretrained encoder.
TEXTCNN = "textcnn"
# By value of `contrast`, as published (CLLD Table III), and further rows of ours (docs/clld.md).
LABELS = {"none": "CT", "uniform": "CT+CL", "static_tau_pairs": "CT+CLSLED", "adaptive": "CT+CLALD",
          "supcl_seq": "SupCL-Seq", "simcse": "CT+SimCSE"}
# CT whose cross-entropy reads two views: the time that a contrast takes, without one.
TWO_VIEWS = "two_views"
_NAMES = {**LABELS, TWO_VIEWS: "CT, two views"}

LABELLED_ITEMS = TableSchema(
    "labelled_items", "Texts with their classes that a classifier was chosen by and is evaluated on, in the place "
                      "of items.parquet.", ("example_id",), (
        ("example_id", pa.int64(), "example of table examples"),
        ("text_id", pa.int64(), "text id"),
        ("split", pa.string(), "validation or test"),
        ("text", pa.string(), "the text"),
        ("label", pa.string(), "class"),
    ))

_CONFUSIONS = (("label", pa.string(), "class of the texts"), ("predicted", pa.string(), "class that they were given"),
               ("texts", pa.int64(), "how many there are"))
VALIDATION_CONFUSION = TableSchema(
    "validation_confusion", "Confusions of a classifier on the validation split, at its best epoch; every pair of "
                            "classes.", ("label", "predicted"), _CONFUSIONS)
CONFUSION = TableSchema("confusion", "Confusions of a run on the evaluated texts; every pair of classes.",
                        ("label", "predicted"), _CONFUSIONS)

LABEL_DISTANCE = TableSchema(
    "label_distance", "The label distance matrix of a classifier over its training; every ordered pair of classes.",
    ("evaluation", "class", "other"), (
        ("evaluation", pa.int64(), "evaluation that updated the matrix, 1-based; 0 for the first matrix"),
        ("epoch", pa.int64(), "epoch of that, 1-based; 0 for the first matrix"),
        ("step", pa.int64(), "optimiser steps before"),
        ("strength", pa.float64(), "e, the weight of the new matrix in the update; null for the first matrix"),
        ("class", pa.string(), "class of the row"),
        ("other", pa.string(), "class of the column"),
        ("distance", pa.float64(), "d"),
    ))

CONFUSING_PAIRS = TableSchema(
    "confusing_pairs", "Pairs of classes that a finished classifier confuses on the validation split, the most "
                       "confused first.", ("rank",), (
        ("rank", pa.int64(), "1 for the most confused; ties in the order of classes"),
        ("class", pa.string(), "class"),
        ("other", pa.string(), "another class, after it by name"),
        ("as_other", pa.int64(), "texts of the first that were taken for the other"),
        ("as_class", pa.int64(), "texts of the other that were taken for the first"),
        ("confused", pa.int64(), "both together"),
        ("chosen", pa.bool_(), "a static matrix uses this pair"),
    ))

LINEAR_BASELINE = TableSchema(
    "linear_baseline", "Predictions of a linear classifier on TF-IDF for the texts that it was not trained on.",
    ("example_id",), (
        ("example_id", pa.int64(), "labelled example"),
        ("text_id", pa.int64(), "text id"),
        ("split", pa.string(), "validation or test"),
        ("label", pa.string(), "class"),
        ("predicted", pa.string(), "class of largest probability"),
        ("probabilities", pa.list_(pa.float64()), "of the classes, in the order of their names"),
    ))

CLASS_PREDICTIONS = TableSchema(
    "class_predictions", "Predictions of a classifier for the evaluated texts, in the place of predictions.parquet.",
    ("example_id",), (
        ("example_id", pa.int64(), "evaluated example"),
        ("text_id", pa.int64(), "text id"),
        ("text", pa.string(), "the text"),
        ("label", pa.string(), "class"),
        ("predicted", pa.string(), "class of largest probability"),
        ("probability", pa.float64(), "of the predicted class"),
        ("probabilities", pa.list_(pa.float64()), "of the classes, in the order of classes.parquet"),
    ))

CLASS_SCORES = TableSchema(
    "class_scores", "Scores of every evaluated text, of a classifier and of the baselines, in the place of "
                    "scores.parquet.", ("system", "example_id"), (
        ("system", pa.string(), "run, or a baseline: majority, linear"),
        ("example_id", pa.int64(), "evaluated example"),
        ("label", pa.string(), "class"),
        ("predicted", pa.string(), "predicted class"),
        ("correct", pa.bool_(), "the prediction is right"),
        ("probability", pa.float64(), "of the predicted class; null for majority, which has none"),
        ("nll", pa.float64(), "-log of the probability of the right class (nats); null likewise"),
        ("brier", pa.float64(), "squared distance of the probabilities from the right class; null likewise"),
    ))

CLASSES = TableSchema(
    "classes", "Scores of each class, of a run.", ("number",), (
        ("number", pa.int32(), "place of the class in lists of probabilities, 0-based"),
        ("class", pa.string(), "class"),
        ("texts", pa.int64(), "evaluated texts of the class"),
        ("predicted", pa.int64(), "evaluated texts that were given the class"),
        ("precision", pa.float64(), "share of these that are of the class; 0 for none"),
        ("recall", pa.float64(), "share of its texts that were given the class; 0 for none"),
        ("f1", pa.float64(), "their harmonic mean; 0 where both are 0, null for a class neither there nor "
                             "predicted"),
    ))

CALIBRATION = TableSchema(
    "calibration", "Accuracy of a run by predicted probability (reliability diagram).", ("bin",), (
        ("bin", pa.int32(), "bin of the probability of the predicted class, 1-based"),
        ("from", pa.float64(), "lower end, not in the bin (but 0 is)"),
        ("to", pa.float64(), "upper end, in the bin"),
        ("texts", pa.int64(), "evaluated texts in the bin"),
        ("confidence", pa.float64(), "their mean probability; null without any"),
        ("accuracy", pa.float64(), "share that is classified rightly; null likewise"),
    ))


COLUMNS = LABELLED_ITEMS.arrow().names
_DISTANCES = LABEL_DISTANCE.arrow().names


def source_of(params: "Params | Validated", name: str) -> str:
    """Return the encoder of model ``name``: ``textcnn``, or a source of an encoder."""
    return str(params.models.clld[name].encoder or params.encoder.source)


def row_of(contrast: str, ce_views: str) -> str:
    """Return the table row of a model with this ``contrast``; CT of both views is :data:`TWO_VIEWS`."""
    return TWO_VIEWS if (contrast, ce_views) == ("none", "both") else contrast


def row_name(row: str) -> str:
    """Return the printed name of a row."""
    return _NAMES.get(row, row)


def read_labelled_texts(paths: DatasetPaths) -> pd.DataFrame:
    """Return the labelled texts of a data set; see :func:`labelled_texts`."""
    examples = read_examples(paths.table("examples"))
    if "label" not in examples.column_names:
        raise InputError(f"{paths.table('examples')}: holds pairs, and not texts with a class. Choose a data set of "
                         f"labelled texts, or run its stage ingest again.")
    return labelled_texts(examples.to_pandas(), read_frame(paths.table("texts"), TEXTS))


def labelled_texts(examples: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    """Return table ``labelled_examples`` with its texts, columns as ``COLUMNS``, sorted by id."""
    joined = examples.merge(texts[["text_id", "text"]], on="text_id", how="left", validate="many_to_one")
    lost = joined[joined["text"].isna()]
    if len(lost):
        raise InputError(f"table texts: text {lost['text_id'].iloc[0]} of example {lost['example_id'].iloc[0]} is "
                         f"missing, and {len(lost) - 1} more; the tables are of different runs. Run the stage ingest "
                         f"again.")
    for split in ("train", "validation"):
        if not joined["split"].eq(split).any():
            raise InputError(f"table examples: the {split} split is empty. Give more data, or a larger share "
                             f"(ingest.validation).")
    of_training = joined.loc[joined["split"].eq("train"), "label"]
    if of_training.nunique() < 2:
        raise InputError(f"table examples: the training texts have no class but {of_training.iloc[0]!r}, and there is "
                         f"nothing to tell apart. Check columns.label of the data set.")
    return joined.sort_values("example_id", ignore_index=True)[COLUMNS]


def classes_of(labelled: pd.DataFrame) -> list[str]:
    """Return the classes of a data set by name, which is the order of their indices.

    Classes that only an evaluated split has are included: their texts count as errors.
    """
    return sorted(labelled["label"].unique())


def class_numbers(labels: Iterable[str], classes: Sequence[str]) -> list[int]:
    """Return the index in ``classes`` of each label."""
    places = {name: number for number, name in enumerate(classes)}
    return [places[label] for label in labels]


def counted(true: np.ndarray, predicted: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the confusion matrix (N, N) int64, rows true, columns predicted, of indices of classes (n,)."""
    return np.bincount(n_classes * true + predicted, minlength=n_classes**2).reshape(n_classes, n_classes)


def confusion_table(counts: np.ndarray, classes: Sequence[str]) -> pd.DataFrame:
    """Return ``counts`` (N, N) with one row per cell: ``label``, ``predicted``, ``texts``."""
    return _cells(classes, "label", "predicted").assign(texts=counts.reshape(-1))


def _cells(classes: Sequence[str], *columns: str) -> pd.DataFrame:
    """Return the ordered pairs of classes, in the order of a matrix read row by row."""
    return pd.MultiIndex.from_product([list(classes)] * 2, names=columns).to_frame(index=False)


def class_table(counts: np.ndarray, classes: Sequence[str]) -> pd.DataFrame:
    """Return table ``classes``: texts, precision, recall and F1 of each class, from the confusion matrix (N, N)."""
    right, texts, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
    return pd.DataFrame({
        "number": np.arange(len(classes), dtype=np.int32), "class": list(classes), "texts": texts,
        "predicted": predicted, "precision": right / np.maximum(predicted, 1), "recall": right / np.maximum(texts, 1),
        "f1": np.where(texts + predicted > 0, 2 * right / np.maximum(texts + predicted, 1), np.nan)})


def distance_table(first: Any, updates: Iterable[Mapping[str, Any]], classes: Sequence[str]) -> pd.DataFrame:
    """Return table ``label_distance`` of the ``first`` matrix (N, N), if any, and the ``updates`` of a ``ClldTask``."""
    if first is None:
        return pd.DataFrame(columns=_DISTANCES)
    beginning = {"evaluation": 0, "epoch": 0, "step": 0, "strength": np.nan, "ldm": first}
    cells = _cells(classes, "class", "other")
    return pd.concat([cells.assign(**{name: update[name] for name in _DISTANCES[:4]}, distance=np.ravel(update["ldm"]))
                      for update in (beginning, *updates)], ignore_index=True)[_DISTANCES]


def matrix_at(table: pd.DataFrame, evaluation: int | None = None) -> tuple[np.ndarray, list[str]]:
    """Return the matrix (N, N) of one evaluation of table ``label_distance``, the last by default, and its classes."""
    wanted = table["evaluation"].max() if evaluation is None else evaluation
    square = table[table["evaluation"] == wanted].pivot(index="class", columns="other", values="distance")
    return square.to_numpy(copy=True), list(square)
