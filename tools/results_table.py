"""Print the table of a recipe from what was collected of its rows: published, ours, interval, seeds, verdict.

    python tools/results_table.py metrics/evidence/cpu-hcl-qqp.parquet bleu_1 token_nll --base hcl
    python tools/results_table.py metrics/evidence/cpu-hcl-qqp.parquet token_nll --base hcl --where reachable

Reads the two files of `tools/collect_rows.py`, and the recipe of their name. Intervals are over items and, with two
seeds or more, over seeds; a row of fewer than three, or beside a base of fewer, gets no verdict, and one of other items
than the base is not compared. *Could be seen* is the
difference that so many seeds and items find in four experiments of five. A row has converged if its validation loss had
not its smallest value in the last epoch.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from keycontrast.errors import nearest
from pipeline.markdown import escaped, table
from pipeline.recipes import plan
from stages.metrics.bleu import RELEASED_WEIGHTS, corpus_bleu_of_sums
from stages.metrics.registered import metric
from stages.metrics.resampling import Members, Statistic, interval, mean_statistic, over_seeds, resampled
from stages.results.published import dataset_kind_of
from stages.results.tracks import TRACKS

RESAMPLES, LEVEL, VERDICT = 2000, 0.95, 3  # seeds that a verdict takes
NOTHING = Members(np.zeros(1), np.zeros((1, RESAMPLES)))


def statistic(items: pd.DataFrame, name: str) -> Statistic:
    """Return a metric of the items of one row under one seed; NLL per token and corpus BLEU are of sums over items."""
    if name == "token_nll":
        return Statistic(items[["nll", "tokens"]].to_numpy(float), lambda sums: sums[..., 0] / sums[..., 1])
    if name.startswith("released_bleu_"):
        place = int(name.removeprefix("released_bleu_")) - 1
        sums = items[[f"released_sum_{number}" for number in range(items.columns.str.match("released_sum_").sum())]]
        return Statistic(sums.to_numpy(float), lambda sums: corpus_bleu_of_sums(sums, RELEASED_WEIGHTS)[..., place])
    return mean_statistic(items[name].to_numpy(float))


def members(items: pd.DataFrame, name: str) -> Members:
    """Return a metric of a row under each of its seeds, on the same resamples for all rows of the same items."""
    parts = {seed: statistic(part.sort_values("example_id"), name) for seed, part in items.groupby("seed")}
    samples = [resampled({"": part}, RESAMPLES, 0)[""] for part in parts.values()]
    return Members(np.array([part.value() for part in parts.values()]), np.stack(samples), list(parts))


def converged(values: pd.DataFrame) -> str:
    """Return under how many seeds the best epoch was not the last, from the collected values of a row."""
    ended = values.pivot(index="seed", columns="metric", values="value")
    count = int((ended["best_epoch"] < ended["epochs"]).sum())
    return "yes" if count == len(ended) else "no" if not count else f"{count} of {len(ended)}"


def printed(recipe: str) -> Mapping[str, Mapping[str, str]]:
    """Return the cells that the paper has for each run of a recipe, by metric."""
    params, cells = plan(recipe, "data").params, {}
    read: Any = params
    for track in TRACKS.values():
        for name, run in track.runs(params).items():
            dataset = track.models(params)[run.model].dataset
            of = params.datasets[dataset]
            rows = track.published_rows(track.row(track.settings(read, run.model), track.decoding(read, name)),
                                        dataset_kind_of(dataset, of.layout, of.source))
            cells[name] = {key: cell.text for row in rows for key, cell in row.cells.items()}
    return cells


def rows_of(items: pd.DataFrame, values: pd.DataFrame, name: str, base: str,
            published: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """Return the rows of the table of one metric, those that are not run too."""
    one = metric(name)
    found = {str(row): members(part, name) for row, part in items.groupby("row")}
    if base not in found:
        sys.exit(f"results_table: row {base!r} was not collected; {nearest(base, list(found))}")
    scored = {str(row): set(part["example_id"]) for row, part in items.groupby("row")}
    lines = []
    for row, cells in published.items():
        beside = cells.get(name, "–")
        if row not in found:
            lines.append([escaped(row), beside, "–", "–", "0", "–", "–", "–", "not run"])
            continue
        ours, count = found[row], len(found[row].seeds)
        alone = over_seeds(ours, NOTHING, LEVEL, 0)
        low, high = (alone.low, alone.high) if alone else interval(ours.samples[0], LEVEL)
        alike = scored[row] == scored[base]
        difference = over_seeds(ours, found[base], LEVEL, 0) if row != base and alike else None
        verdict, less, seen = "", "–", "–"
        if difference is not None:
            less = (f"{one.text(difference.difference, sign='+')} ({one.text(difference.low, sign='+')} to "
                    f"{one.text(difference.high, sign='+')})")
            seen = one.text(difference.detectable)
            sign = difference.sign(LEVEL) * one.direction
            verdict = {1: f"better than {base}", 0: "no difference seen", -1: f"worse than {base}"}[sign]
        if row != base and min(count, len(found[base].seeds)) < VERDICT:
            verdict = "too few seeds for a verdict"
        if not alike:
            verdict = "other items"
        lines.append([escaped(row), beside, one.text(float(ours.values.mean())), f"{one.text(low)} to {one.text(high)}",
                      str(count), converged(values[values["row"] == row]), less, seen, verdict or "base"])
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table for each metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", type=Path, help="FOLDER/RECIPE.parquet")
    parser.add_argument("metrics", nargs="+", metavar="METRIC",
                        help="columns of items, token_nll, or released_bleu_1 to released_bleu_4")
    parser.add_argument("--base", required=True, help="the row that others are compared with")
    parser.add_argument("--where", help="a column of items that is true of those to take")
    arguments = parser.parse_args(argv)
    items, values = pd.read_parquet(arguments.items), pd.read_csv(arguments.items.with_suffix(".csv"))
    items = items[items[arguments.where]] if arguments.where else items
    published = printed(arguments.items.stem)
    for name in arguments.metrics:
        heads = ["row", "published", "ours", "interval", "seeds", "converged", f"less {arguments.base}",
                 "could be seen", "status"]
        lines = table(heads, rows_of(items, values, name, arguments.base, published))
        title = f"{metric(name).name}, {items['example_id'].nunique():,} items"
        sys.stdout.write("\n".join([title, "", *lines, "", ""]))


if __name__ == "__main__":
    main()
