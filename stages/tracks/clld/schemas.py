"""Tables of the CLLD track: what trained and evaluated classifiers leave behind, and the linear baseline."""

import pyarrow as pa

from stages.common.schemas import TableSchema

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
        ("evaluation", pa.int64(), "evaluation that moved the matrix, 1-based; 0 for the matrix of the beginning"),
        ("epoch", pa.int64(), "epoch of that, 1-based; 0 for the beginning"),
        ("step", pa.int64(), "optimiser steps before"),
        ("strength", pa.float64(), "e, how far the matrix went towards what the confusions ask for; null for the "
                                   "beginning"),
        ("class", pa.string(), "class of the row"),
        ("other", pa.string(), "class of the column"),
        ("distance", pa.float64(), "d"),
    ))

CONFUSING_PAIRS = TableSchema(
    "confusing_pairs", "Pairs of classes that a finished classifier confuses on the validation split, the most "
                       "confused first.", ("rank",), (
        ("rank", pa.int64(), "1 for the most confused; equal counts stand in the order of classes"),
        ("class", pa.string(), "class"),
        ("other", pa.string(), "another class, behind it in the order of names"),
        ("as_other", pa.int64(), "texts of the first that were taken for the other"),
        ("as_class", pa.int64(), "texts of the other that were taken for the first"),
        ("confused", pa.int64(), "both together"),
        ("chosen", pa.bool_(), "the pair is one of those that a static matrix takes"),
    ))

LINEAR_FLOOR = TableSchema(
    "linear_floor", "What a linear classifier on TF-IDF makes of the texts that it was not trained on.",
    ("example_id",), (
        ("example_id", pa.int64(), "labelled example"),
        ("text_id", pa.int64(), "text id"),
        ("split", pa.string(), "validation or test"),
        ("label", pa.string(), "class"),
        ("predicted", pa.string(), "class of largest probability"),
        ("probabilities", pa.list_(pa.float64()), "of the classes, in the order of their names"),
    ))

CLASS_PREDICTIONS = TableSchema(
    "class_predictions", "What a classifier makes of the evaluated texts, in the place of predictions.parquet.",
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
    "class_scores", "Scores of every evaluated text, of a classifier and of the floors, in the place of "
                    "scores.parquet.", ("system", "example_id"), (
        ("system", pa.string(), "run, or a floor: majority, linear"),
        ("example_id", pa.int64(), "evaluated example"),
        ("label", pa.string(), "class"),
        ("predicted", pa.string(), "class that the system says"),
        ("correct", pa.bool_(), "these are equal"),
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
    "calibration", "How often a run is right when it is so sure (reliability diagram).", ("bin",), (
        ("bin", pa.int32(), "bin of the probability of the predicted class, 1-based"),
        ("from", pa.float64(), "lower end, not in the bin (but 0 is)"),
        ("to", pa.float64(), "upper end, in the bin"),
        ("texts", pa.int64(), "evaluated texts in the bin"),
        ("confidence", pa.float64(), "their mean probability; null without any"),
        ("accuracy", pa.float64(), "share that is classified rightly; null likewise"),
    ))
