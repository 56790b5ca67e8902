"""Filled sheets read back: every problem at once, then means, agreement of raters and paired t-tests."""

import csv
import io
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from rich.console import Console
from rich.text import Text
from scipy.stats import ttest_rel

from keycontrast.errors import InputError
from keycontrast.files import atomic_file, sha256_of
from pipeline.judgement.sheets import COLUMNS, KEY, SHEETS, Design, text_digest
from pipeline.markdown import escaped, table
from stages.common.schemas import TableSchema
from stages.common.tables import Provenance, write_table

JUDGEMENTS = TableSchema(
    "judgements", "What raters said in filled sheets; written by `keycontrast judge read`, no stage.",
    ("item", "run", "rater", "criterion"), (
        ("item", pa.int64(), "example of table examples"),
        ("run", pa.string(), "run whose output was judged, or `human reference`"),
        ("rater", pa.string(), "rater, named as the sheet"),
        ("criterion", pa.string(), "what was judged, such as fluency"),
        ("score", pa.int32(), "point of the scale"),
    ))
_ROUNDING = 1e-12      # means over raters are fractions
_SHOWN = 40
_SCORES = ["example_id", "run", "rater", "criterion", "score"]


def write_results(folder: Path, console: Console, partial: bool = False, weights: str = "none") -> None:
    """Print the results of the sheets below ``folder``; write them there, and the scores, as results.md and a table."""
    try:
        key = json.loads((folder / KEY).read_text(encoding="utf-8"))
        rows, design = pd.DataFrame(key["rows"]), Design(**key["design"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / KEY}: not the key that `keycontrast judge sheets` wrote ({error}). Name its "
                         f"folder, and put the original key back.") from error
    judgements = read_judgements(folder / SHEETS, rows, design, partial)
    cells = len(rows) * len(design.criteria)
    page = results_page(judgements, design, cells, weights)
    write_table(folder / "judgements.parquet", JUDGEMENTS, judgements, Provenance(
        "judge", sha256_of(folder / KEY), counts={"cells": cells, "missing": cells - len(judgements)}))
    with atomic_file(folder / "results.md") as temporary:
        temporary.write_text(page, encoding="utf-8")
    console.print(Text(f"{page}\nWritten to {folder}: judgements.parquet, results.md"), soft_wrap=True)


def read_judgements(folder: Path, key: pd.DataFrame, design: Design, partial: bool) -> pd.DataFrame:
    """Return the scores; all problems, without ``partial`` also empty cells and missing sheets, are one InputError."""
    paths = {rater: folder / f"{rater}.csv" for rater in key["rater"].unique()}
    problems: list[str] = []
    gaps = [f"{path}: missing. Put the filled sheet back under this name." for path in paths.values()
            if not path.is_file()]
    scores = [_read_sheet(path, key[key["rater"] == rater], design, problems, gaps)
              for rater, path in paths.items() if path.is_file()]
    if gaps and not partial:
        problems += [*gaps[:_SHOWN], "To read sheets that are not complete, give --partial."]
    if problems or not sum(map(len, scores)):
        raise InputError("\n  ".join([f"{folder}: the sheets have problems, or no scores:", *problems]))
    return pd.concat(scores).rename(columns={"example_id": "item"}).sort_values(list(JUDGEMENTS.key), ignore_index=True)


def _read_sheet(path: Path, key: pd.DataFrame, design: Design, problems: list[str], gaps: list[str]) -> pd.DataFrame:
    """Return the scores of a sheet; problems and empty cells are added to the lists."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    first = text.partition("\n")[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), restval="")
    wanted = [*COLUMNS, *design.criteria]
    cells = pd.DataFrame([[reader.line_num, *(row.get(name) for name in wanted)] for row in reader],
                         columns=["row", *wanted])
    if cells.isna().any(axis=None) or cells.empty:
        problems.append(f"{path}: row 1: it must be {','.join(wanted)}. Copy it from a new sheet.")
        return pd.DataFrame(columns=_SCORES)
    cells = cells[cells[wanted].map(str.strip).any(axis=1)]
    place = ["item", "position", "text"]
    cells["text"] = list(map(text_digest, cells["source"], cells["output"]))
    cells[place[:2]] = cells[place[:2]].apply(_numbers)
    rows = cells.merge(key, how="outer", on=place, indicator=True)
    foreign = (rows["_merge"] == "left_only") | (rows.duplicated(place) & rows["row"].notna())
    problems += [f"{path}: row {row:.0f}: no row of this sheet has its item, position, source and output, or it is "
                 f"here twice. Sort whole rows only, save as CSV UTF-8, restore it." for row in rows["row"][foreign]]
    gaps += [f"{path}: item {row.item:.0f}, position {row.position:.0f} has no row; put it back."
             for row in rows[rows["_merge"] == "right_only"].itertuples()]
    filled = rows[rows["_merge"] == "both"].melt([*key.columns, "row"], list(design.criteria), "criterion", "cell")
    filled["score"] = _numbers(filled["cell"])
    empty = filled["cell"].str.strip() == ""
    wrong = ~empty & ~filled["score"].isin(range(design.low, design.high + 1))
    for names, part in ((gaps, filled[empty]), (problems, filled[wrong])):
        names += [f"{path}: row {row.row:.0f}, column {row.criterion}: {row.cell.strip()!r} is not a whole number from "
                  f"{design.low} to {design.high}." for row in part.sort_values("row", kind="stable").itertuples()]
    return filled.loc[~empty, _SCORES]


def _numbers(cells: pd.Series) -> pd.Series:
    return pd.to_numeric(cells.str.strip().str.replace(",", "."), errors="coerce")


def levels(judgements: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard deviation over items of the mean over raters, of each run and criterion."""
    means = judgements.groupby(["run", "criterion", "item"], sort=False)["score"].mean()
    return means.groupby(["run", "criterion"]).agg(mean="mean", sd="std", items="size").reset_index()


def agreement(judgements: pd.DataFrame, design: Design, weights: str = "none") -> pd.DataFrame:
    """Return a column per criterion: Fleiss' kappa, Cohen's kappas of every two raters; NaN where undefined."""
    from sklearn.metrics import cohen_kappa_score  # slow to import

    columns, points = {}, list(range(design.low, design.high + 1))
    for criterion, part in judgements.groupby("criterion"):
        scores = part.pivot(index=["item", "run"], columns="rater", values="score")
        counts = np.stack([(scores == point).sum(axis=1) for point in points], axis=1)
        counts = counts[counts.sum(axis=1) == design.per_item]
        pairs = {}
        for raters in combinations(sorted(scores, key=lambda name: (len(name), name)), 2):
            both = scores[list(raters)].dropna().astype(int)
            if len(both):
                pairs[" ".join(raters)] = float("nan") if both.stack().nunique() == 1 else cohen_kappa_score(
                    *both.to_numpy().T, labels=points, weights=None if weights == "none" else weights)
        columns[criterion] = pd.Series({"Fleiss": fleiss_kappa(counts), "outputs": len(counts),
                                        "mean of Cohen": pd.Series(pairs, dtype=float).mean(), **pairs}, dtype=object)
    return pd.DataFrame(columns)


def fleiss_kappa(counts: np.ndarray) -> float:
    """Return (mean P - Pe) / (1 - Pe), with P_i = (sum_c n_ic^2 - n) / (n (n - 1)) and Pe = sum_c p_c^2.

    ``counts`` (N, C): how many of n raters put item i into category c. NaN if all ratings are one category, or n < 2.
    """
    n = counts.sum(axis=1).max(initial=0)
    expected = float(((counts.sum(axis=0) / max(counts.sum(), 1)) ** 2).sum())
    if n < 2 or 1 - expected < _ROUNDING:
        return float("nan")
    observed = ((counts.astype(float) ** 2).sum(axis=1) - n) / (n * (n - 1))
    return float((observed.mean() - expected) / (1 - expected))


def paired_tests(judgements: pd.DataFrame) -> pd.DataFrame:
    """Return a paired two-tailed t-test on items' means per criterion and two runs; NaN if differences are equal."""
    means = judgements.groupby(["criterion", "item", "run"])["score"].mean().unstack()
    rows = []
    for criterion, scores in means.groupby("criterion", sort=False):
        for first, second in combinations(sorted(scores), 2):
            both = scores[[first, second]].dropna()
            difference = both[first] - both[second]
            constant = len(both) < 2 or np.ptp(difference) < _ROUNDING
            t, p = (np.nan, np.nan) if constant else ttest_rel(both[first], both[second])
            rows.append({"criterion": criterion, "first": first, "second": second, "items": len(both),
                         "difference": difference.mean(), "t": t, "p": p})
    return pd.DataFrame(rows, columns=["criterion", "first", "second", "items", "difference", "t", "p"])


def results_page(judgements: pd.DataFrame, design: Design, cells: int, weights: str) -> str:
    """Return the means of systems, the agreement of raters and the tests as Markdown."""
    return "\n".join([
        "# Human evaluation", "", f"{design.items} items, {design.raters} raters, {design.per_item} of each item, "
        f"scores from {design.low} to {design.high}. {cells - len(judgements):,} of {cells:,} cells are empty.", "",
        "## Systems", "", "Mean and standard deviation over items of the mean over raters.", "",
        *_table(levels(judgements)), "",
        "## Agreement", "", f"Cohen's kappa of every two raters ({weights} weights), and their mean. A kappa is "
        "undefined where all ratings are the same, or no output has all its raters.", "",
        *_table(agreement(judgements, design, weights).rename_axis("kappa").reset_index()), "",
        "## Differences", "", "Paired two-tailed t-test of first minus second; each p is of its comparison alone.", "",
        *_table(paired_tests(judgements)), ""])


def _table(frame: pd.DataFrame) -> list[str]:
    cells = frame.map(lambda cell: f"{cell:.4f}" if isinstance(cell, float) else escaped(cell))
    return table(list(frame), cells.replace("nan", "undefined").to_numpy().tolist())
