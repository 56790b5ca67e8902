"""What trained classifiers leave behind."""

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

VALIDATION_CONFUSION = TableSchema(
    "validation_confusion", "Confusions of a classifier on the validation split, at its best epoch; every pair "
                            "of classes.", ("label", "predicted"), (
        ("label", pa.string(), "class of the texts"),
        ("predicted", pa.string(), "class that they were given"),
        ("texts", pa.int64(), "how many there are"),
    ))

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
