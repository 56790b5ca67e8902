"""Tests between runs."""

import pyarrow as pa

from stages.common.schemas import TableSchema

PAIRED = TableSchema(
    "paired", "Paired tests between the runs of a data set on the same items (METHODS E.4).",
    ("dataset", "metric", "first", "second"), (
        ("dataset", pa.string(), "data set and split, such as sample/test"),
        ("metric", pa.string(), "metric as named in metrics.json"),
        ("first", pa.string(), "run: all its seeds taken together, or one of them, such as hcl/14; or a floor"),
        ("second", pa.string(), "run or name that it is compared with"),
        ("items", pa.int64(), "evaluated items"),
        ("first_value", pa.float64(), "metric of the first"),
        ("second_value", pa.float64(), "metric of the second"),
        ("difference", pa.float64(), "first minus second"),
        ("low", pa.float64(), "lower end of the bootstrap interval of the difference"),
        ("high", pa.float64(), "upper end"),
        ("p_value", pa.float64(), "two-sided, of the paired bootstrap"),
        ("seeds", pa.int64(), "seeds that both were trained under, or the smaller number of seeds where they share "
                              "none; 1 where a trained one has no more, or both are floors"),
        ("low_seeds", pa.float64(), "lower end of the interval over items and seeds; this and what follows is null "
                                    "where seeds is 1"),
        ("high_seeds", pa.float64(), "upper end"),
        ("p_seeds", pa.float64(), "two-sided, of the t test over seeds"),
        ("detectable", pa.float64(), "difference that as many seeds and items would find in four tables of five"),
        ("verdict", pa.int64(), "sign of the difference if interval over items and seeds and t test both find it, "
                                "else 0"),
    ))

BY_STRATUM = TableSchema(
    "by_stratum", "The same tests within strata of the items (stages.tracks.common.evaluation.strata), where a track "
    "has any.",
    ("dataset", "stratum", "metric", "first", "second"), (
        PAIRED.fields[0], ("stratum", pa.string(), "name of the stratum"), *PAIRED.fields[1:]))

MCNEMAR = TableSchema(
    "mcnemar", "McNemar's exact test between classifiers on the same texts, single runs and floors.",
    ("dataset", "first", "second"), (
        ("dataset", pa.string(), "data set and split, such as sample/test"),
        ("first", pa.string(), "run"),
        ("second", pa.string(), "run or floor that it is compared with"),
        ("items", pa.int64(), "evaluated texts"),
        ("both_right", pa.int64(), "texts that both have right"),
        ("first_only", pa.int64(), "texts that the first alone has right"),
        ("second_only", pa.int64(), "texts that the second alone has right"),
        ("both_wrong", pa.int64(), "texts that both have wrong"),
        ("p_value", pa.float64(), "two-sided, of the binomial over the texts that one alone has right; 1 without "
                                  "any"),
    ))
