"""Print the table of a recipe from what was collected of its rows: published, ours, interval, seeds, verdict.

    python tools/results_table.py metrics/evidence/cpu-hcl-qqp.parquet bleu_1 token_nll --base hcl
    python tools/results_table.py metrics/evidence/cpu-hcl-qqp.parquet token_nll --base hcl --where reachable
    python tools/results_table.py metrics/evidence/cpu-hcl-qqp.parquet token_nll --base hcl --svg FILE
    python tools/results_table.py metrics/evidence/cpu-hcl-qqp.parquet token_nll \
        --interaction leaking-by-pair no-graph-by-pair leaking no-graph
    python tools/results_table.py metrics/evidence/cpu-clld-textcnn-mr.parquet accuracy --base ct-two \
        --recipe cpu-clld-textcnn --set dataset=mr

Reads the two files of `tools/collect_rows.py`, and the recipe of their name. Intervals are over items and, with two
seeds or more, over seeds. A row gets no verdict if it or the base has fewer than three seeds, and is not compared if it
has other items than the base. *p* is of the t test over seeds. *Could be seen* is the smallest difference that so many
seeds and items detect with 80 % power. A row has converged if its best epoch was not the last. `--svg` draws the
differences from the base. `--interaction A B C D` prints (A - B) - (C - D) instead; A and B must have the same items,
and so must C and D.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any, cast

import numpy as np
import pandas as pd

from keycontrast.errors import InputError, nearest
from pipeline.markdown import escaped, table
from pipeline.recipes import plan
from stages.common.figures import PALETTE, drawing, finished
from stages.metrics.bleu import RELEASED_WEIGHTS, corpus_bleu_of_sums
from stages.metrics.registered import metric
from stages.metrics.resampling import (
    VERDICT,
    Members,
    OverSeeds,
    Statistic,
    interval,
    mean_statistic,
    over_seeds,
    resampled,
)
from stages.results.published import dataset_kind_of
from stages.results.tracks import TRACKS

RESAMPLES, LEVEL = 2000, 0.95
NOTHING = Members(np.zeros(1), np.zeros((1, RESAMPLES)))


def collected(file: Path, where: str | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the items of a file, perhaps only those of a query, and the values beside it."""
    items, values = pd.read_parquet(file), pd.read_csv(file.with_suffix(".csv"))
    if not where:
        return items, values
    try:
        chosen = items.eval(where)
    except (NameError, SyntaxError, TokenError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"--where {where!r}: {error}; columns: {', '.join(items.columns)}") from None
    if not (isinstance(chosen, pd.Series) and pd.api.types.is_bool_dtype(chosen) and chosen.any()):
        raise InputError(f"--where {where!r}: no condition that items meet, such as reachable or 'not target_seen'")
    return items[chosen], values


def scored(items: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the items of the rows and seeds that have a metric."""
    bleu = {f"released_bleu_{order}": "released_sum_0" for order in range(1, 5)}
    column = {"accuracy": "label", **bleu}.get(name, name)
    if column not in items:
        raise InputError(f"{name!r} is no metric of these items; {nearest(name, list(items.columns))}")
    return items[items.groupby(["row", "seed"])[column].transform("count") > 0]


def statistic(items: pd.DataFrame, name: str) -> Statistic:
    """Return a metric of the items of one row under one seed; corpus BLEU is of sums over items."""
    if name.startswith("released_bleu_"):
        place = int(name.removeprefix("released_bleu_")) - 1
        sums = items[[f"released_sum_{number}" for number in range(items.columns.str.match("released_sum_").sum())]]
        return Statistic(sums.to_numpy(float), lambda sums: corpus_bleu_of_sums(sums, RELEASED_WEIGHTS)[..., place])
    values = items["predicted"] == items["label"] if name == "accuracy" else items[name]
    return mean_statistic(values.to_numpy(float))


def members(items: pd.DataFrame, name: str) -> Members:
    """Return a metric of a row under each of its seeds, on the same resamples for all rows of the same items."""
    parts = {seed: statistic(part.sort_values("example_id"), name) for seed, part in items.groupby("seed")}
    samples = [resampled({"": part}, RESAMPLES, 0)[""] for part in parts.values()]
    return Members(np.array([part.value() for part in parts.values()]), np.stack(samples), list(parts))


def less(first: Members, second: Members) -> Members:
    """Return the difference of two rows with the same items, under each seed that both have."""
    seeds = [seed for seed in first.seeds if seed in second.seeds]
    left, right = ([list(members_of.seeds).index(seed) for seed in seeds] for members_of in (first, second))
    return Members(first.values[left] - second.values[right], first.samples[left] - second.samples[right], seeds)


def interaction(items: pd.DataFrame, name: str, rows: Sequence[str]) -> str:
    """Return in a sentence the difference of the first two rows of four, less that of the last two."""
    items = scored(items, name)
    if missing := sorted(set(rows) - set(items["row"])):
        raise InputError(f"{', '.join(missing)}: not collected, or without {name}")
    for one, other in (rows[:2], rows[2:]):
        if set(items.loc[items["row"] == one, "example_id"]) != set(items.loc[items["row"] == other, "example_id"]):
            raise InputError(f"{one} and {other} have different items")
    first, second, third, fourth = (members(items[items["row"] == row], name) for row in rows)
    left, right = less(first, second), less(third, fourth)
    shown, difference = metric(name), over_seeds(left, right, LEVEL, 0) if left.seeds and right.seeds else None
    if difference is None:
        raise InputError(f"{', '.join(rows)} share fewer than two seeds")
    return (f"({rows[0]} - {rows[1]}) - ({rows[2]} - {rows[3]}), {shown.name}: "
            f"{shown.text(difference.difference, sign='+')} ({shown.text(difference.low, sign='+')} to "
            f"{shown.text(difference.high, sign='+')}), {difference.seeds} seeds, "
            f"p {difference.p_value:.3f}; {shown.text(difference.detectable)} could be seen\n")


def forest(differences: Mapping[str, OverSeeds], name: str, base: str) -> str:
    """Return a plot of each row's difference from the base, with its interval, as SVG."""
    with drawing(6.4, 0.8 + 0.24 * len(differences)) as figure:
        axes, places = figure.subplots(), range(len(differences))
        rows = list(differences.values())
        axes.hlines(places, [row.low for row in rows], [row.high for row in rows], color=PALETTE["first"])
        axes.plot([row.difference for row in rows], places, "o", color=PALETTE["first"])
        axes.axvline(0, color=PALETTE["muted"], linewidth=0.8)
        axes.set_yticks(places, list(differences))
        axes.set_ylim(len(differences) - 0.5, -0.5)
        axes.set_xlabel(f"{metric(name).name}, less {base}")
        return finished(figure, name, f"Differences from {base}", "").svg


def converged(values: pd.DataFrame) -> str:
    """Return under how many seeds the best epoch was not the last; "–" for a row that was not trained."""
    ended = values.pivot(index="seed", columns="metric", values="value")
    if not ended["best_epoch"].any():
        return "–"
    count = int((ended["best_epoch"] < ended["epochs"]).sum())
    return "yes" if count == len(ended) else "no" if not count else f"{count} of {len(ended)}"


def printed(recipe: str, changes: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the cells that the paper has for each run of a recipe, by metric."""
    try:
        params = plan(recipe, "data", changes=changes).params
    except InputError as error:
        raise InputError(f"{error} After `keycontrast use --as`, give --recipe and --set.") from None
    cells, read = dict[str, Mapping[str, str]](), cast(Any, params)
    for track in TRACKS.values():
        for name, run in track.runs(params).items():
            dataset = track.models(params)[run.model].dataset
            of = params.datasets[dataset]
            rows = track.published_rows(track.row(track.settings(read, run.model), track.decoding(read, name)),
                                        dataset_kind_of(dataset, of.layout, of.source))
            cells[name] = {key: cell.text for row in rows for key, cell in row.cells.items()}
    return cells


def rows_of(items: pd.DataFrame, values: pd.DataFrame, name: str, base: str,
            published: Mapping[str, Mapping[str, str]]) -> tuple[list[list[str]], dict[str, OverSeeds]]:
    """Return the rows of the table of one metric, with those that are not run, and the differences from the base."""
    items, shown = scored(items, name), metric(name)
    rows = {str(row): members(part, name) for row, part in items.groupby("row")}
    if base not in rows:
        raise InputError(f"row {base!r} was not collected; {nearest(base, list(rows))}")
    of = {str(row): set(part["example_id"]) for row, part in items.groupby("row")}
    lines, differences = [], {}
    for row, cells in published.items():
        beside = cells.get(name, "–")
        if row not in rows:
            lines.append([escaped(row), beside, "–", "–", "0", "–", "–", "–", "–", "not run"])
            continue
        ours, count = rows[row], len(rows[row].seeds)
        alone = over_seeds(ours, NOTHING, LEVEL, 0)
        low, high = (alone.low, alone.high) if alone else interval(ours.samples[0], LEVEL)
        same_items = of[row] == of[base]
        difference = over_seeds(ours, rows[base], LEVEL, 0) if row != base and same_items else None
        verdict, text, chance, seen = "", "–", "–", "–"
        if difference is not None:
            differences[row] = difference
            text = (f"{shown.text(difference.difference, sign='+')} ({shown.text(difference.low, sign='+')} to "
                    f"{shown.text(difference.high, sign='+')})")
            chance, seen = f"{difference.p_value:.3f}", shown.text(difference.detectable)
            sign = difference.sign(LEVEL) * shown.direction
            verdict = {1: f"better than {base}", 0: "no difference seen", -1: f"worse than {base}"}[sign]
            verdict = verdict if shown.direction else "–"
        if row != base and (difference.seeds if difference else 0) < VERDICT:
            verdict = "too few seeds for a verdict"
        if not same_items:
            verdict = "other items"
        lines.append([escaped(row), beside, shown.text(float(ours.values.mean())),
                      f"{shown.text(low)} to {shown.text(high)}", str(count), converged(values[values["row"] == row]),
                      text, chance, seen, verdict or "base"])
    return lines, differences


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table for each metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", type=Path, help="FOLDER/RECIPE.parquet")
    parser.add_argument("metrics", nargs="+", metavar="METRIC",
                        help="columns of items, or released_bleu_1 to released_bleu_4")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--base", help="the row that others are compared with")
    what.add_argument("--interaction", nargs=4, metavar="ROW")
    parser.add_argument("--recipe", help="recipe that was taken under another name with `keycontrast use --as`")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of that recipe: dataset=mr")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="those to show beside the base; all by default")
    parser.add_argument("--svg", type=Path, help="plot of the first metric's differences")
    parser.add_argument("--beside", type=Path, nargs="+", default=[], metavar="FILE",
                        help="items of further data sets, whose rows of the same names the plot shows too")
    parser.add_argument("--where", help="of which items, as of pandas' query: reachable, 'not target_seen'")
    arguments = parser.parse_args(argv)
    items, values = collected(arguments.items, arguments.where)
    if arguments.interaction:
        sys.stdout.writelines(interaction(items, name, arguments.interaction) for name in arguments.metrics)
        return
    published = printed(arguments.recipe or arguments.items.stem, arguments.set)
    for row in arguments.rows or ():
        if row not in published:
            raise InputError(f"{row!r} is no row of the recipe; {nearest(row, list(published))}")
    published = {row: cells for row, cells in published.items()
                 if not arguments.rows or row in (*arguments.rows, arguments.base)}
    for name in arguments.metrics:
        heads = ["row", "as printed", "ours", "interval", "seeds", "converged", f"less {arguments.base}",
                 "p", "could be seen", "status"]
        rows, differences = rows_of(items, values, name, arguments.base, published)
        if arguments.svg and name == arguments.metrics[0]:
            if arguments.beside:
                differences = {f"{file.stem.rpartition('-')[2]}, {row}": difference
                               for file in (arguments.items, *arguments.beside) for row, difference in rows_of(
                                   *collected(file, arguments.where), name, arguments.base, published)[1].items()}
            arguments.svg.write_text(forest(differences, name, arguments.base), encoding="utf-8")
        title = f"{metric(name).name}, {items.loc[items['row'] == arguments.base, 'example_id'].nunique():,} items"
        sys.stdout.write("\n".join([title, "", *table(heads, rows), "", ""]))


if __name__ == "__main__":
    try:
        main()
    except (InputError, FileNotFoundError, ValueError) as error:  # of a column or file of another kind
        sys.exit(f"results_table: {error}")
