"""Keep what each training of a recipe found, item by item, and set rows against each other from what was kept.

    python -m benchmarks.evidence run RECIPE --minutes 40       # train and score what is not kept yet, then stop
    python -m benchmarks.evidence table RECIPE hcl no-graph leaking

`run` works in the folder of a project that has taken the recipe (`keycontrast use RECIPE`), row by row in the order of
the recipe, and begins no further one when the minutes are over; a training that was killed goes on from its checkpoint
the next time. After each row it writes, for each seed, `metrics/evidence/RECIPE/ROW-SEED.parquet`: scores of every
evaluated item, how many training inputs share its keyword, and, as the file's metadata, settings, monitors and history
of the training. The files hold no text of a data set, so they may be committed, and another machine goes on from them.

`table` prints, for every metric and stratum, the first row's value, each other row's, and the difference with two
intervals: over texts with the seeds as they are, and over texts and seeds together (both drawn anew).
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stages.artifacts.paths import DatasetPaths, ModelPaths, RunPaths
from stages.artifacts.tables import atomic_file, read_frame
from stages.graph.schemas.graph import NODES
from stages.runtime.errors import InputError, nearest
from stages.runtime.settings import read_params
from stages.tracks.evaluation.strata import STRATA as OF_KEYWORDS
from stages.tracks.schemas.items import ITEMS
from stages.tracks.schemas.scores import SCORES

FOLDER = Path("metrics") / "evidence"
METRICS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "extrema", "average", "greedy", "rouge_1", "rouge_l", "bertscore",
           "source_bleu_4", "keyword_kept")
# As METHODS and the results have them: how often training has seen the keyword of an evaluated input.
STRATA = {"all": lambda items: np.ones(len(items), dtype=bool),
          **{one.title: one.holds for one in OF_KEYWORDS.values()}}
_KEY = b"evidence"
_RESAMPLES = 2000


@dataclass(frozen=True)
class Kept:
    """What was found under one seed of a row.

    Attributes:
        row, seed: of the model.
        items: columns ``example_id``, ``cluster``, ``known`` and :data:`METRICS`, sorted by example.
        facts: settings, monitors, history and corpus metrics.
    """

    row: str
    seed: int
    items: pd.DataFrame
    facts: Mapping[str, Any]


def kept_file(recipe: str, row: str, seed: int) -> Path:
    """Return where the findings of a row's seed are kept."""
    return FOLDER / recipe / f"{row}-{seed}.parquet"


def keep(recipe: str, run: str, seed: int) -> Path:
    """Write the findings of an evaluated run of the HCL track; return their file."""
    params = read_params()
    row = params["runs"]["hcl"][run]["model"]
    model, scored = params["models"]["hcl"][row], RunPaths(run, seed)
    paths = ModelPaths(row, seed)
    scores = read_frame(scored.scores, SCORES)
    scores = scores[scores["system"] == "run"].sort_values("example_id", ignore_index=True)
    items = read_frame(paths.items, ITEMS)
    nodes = set(read_frame(DatasetPaths(model["dataset"]).table("nodes"), NODES)["keyword"])
    inputs = items.loc[items["split"] == "train", "keyword"].value_counts()
    keyword = items.set_index("example_id").loc[scores["example_id"], "keyword"]
    found = pd.DataFrame({"example_id": scores["example_id"],
                          "cluster": keyword.map(inputs).fillna(0).astype("int32").to_numpy(),
                          "known": keyword.isin(nodes).to_numpy()})
    found = found.join(scores[list(METRICS)].astype("float32"))
    history = pd.read_csv(paths.history)
    facts = {"recipe": recipe, "row": row, "seed": seed, "dataset": model["dataset"], "overrides": model["overrides"],
             "init_from": model["init_from"], "training": json.loads(paths.metrics.read_text(encoding="utf-8")),
             "run": _numbers(json.loads(scored.metrics.read_text(encoding="utf-8"))["run"]),
             "history": [_numbers(row) for row in history.to_dict("records")], "commit": _commit()}
    table = pa.Table.from_pandas(found, preserve_index=False)
    table = table.replace_schema_metadata({_KEY: json.dumps(facts, sort_keys=True).encode()})
    path = kept_file(recipe, run, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    return path


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(f"{value:.6g}") for key, value in values.items()
            if isinstance(value, int | float) and value == value}


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def read_kept(recipe: str, row: str) -> list[Kept]:
    """Return what is kept of a row, by seed.

    Raises:
        InputError: nothing is.
    """
    files = sorted((FOLDER / recipe).glob(f"{row}-[0-9]*.parquet"))
    files = [file for file in files if file.stem.rpartition("-")[0] == row]
    if not files:
        rows = {file.stem.rpartition("-")[0] for file in (FOLDER / recipe).glob("*.parquet")}
        raise InputError(f"{FOLDER / recipe}: nothing is kept of row {row!r}; {nearest(row, sorted(rows))}")
    found = []
    for file in files:
        table = pq.read_table(file)
        facts = json.loads((table.schema.metadata or {})[_KEY])
        found.append(Kept(row, int(file.stem.rpartition("-")[2]), table.to_pandas(), facts))
    return found


# Running


def pending(recipe: str, rows: Sequence[str] = ()) -> dict[str, list[int]]:
    """Return the seeds of each run that nothing is kept of, in the order of the recipe.

    Args:
        recipe: of the project.
        rows: runs; all of the HCL track if none is named.

    Raises:
        InputError: a row is no run of the project, or the project is of another recipe.
    """
    params = read_params()
    if params["recipe"] != recipe:
        raise InputError(f"params.yaml is of recipe {params['recipe']}. Take the other one: keycontrast use {recipe} "
                         f"--data DIR.")
    runs = params["runs"]["hcl"]
    for name in rows:
        if name not in runs:
            raise InputError(f"{name!r} is no run of recipe {recipe}; {nearest(name, runs)}")
    left = {run: [seed for seed in params["models"]["hcl"][runs[run]["model"]]["seeds"]
                  if not kept_file(recipe, run, seed).exists()] for run in rows or runs}
    return {run: seeds for run, seeds in left.items() if seeds}


def work(recipe: str, rows: Sequence[str], minutes: float) -> None:
    """Train, score and keep what is pending; begin no further row once the minutes are over.

    Raises:
        InputError: as of :func:`pending`, or a stage failed.
    """
    end = time.monotonic() + 60 * minutes
    for run, seeds in pending(recipe, rows).items():
        if time.monotonic() >= end:
            break
        begun = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "pipeline", "run", f"evaluate_hcl@{run}"], check=False)
        if done.returncode:
            raise InputError(f"{run}: `keycontrast run evaluate_hcl@{run}` ended with status {done.returncode}.")
        for seed in seeds:
            keep(recipe, run, seed)
        sys.stdout.write(f"kept {run}, seeds {', '.join(map(str, seeds))}: {(time.monotonic() - begun) / 60:.1f} min\n")
        sys.stdout.flush()


# Tables


def differences(first: Sequence[Kept], second: Sequence[Kept], metric: str, stratum: str,
                resamples: int = _RESAMPLES) -> dict[str, float]:
    """Return two rows' values of a metric in a stratum of the first one, and their difference with its intervals.

    Seeds that both rows have are paired; without a common one, rows are drawn from on their own.

    Returns:
        ``first``, ``second``, ``difference``; ``low``, ``high`` over texts; ``low_seeds``, ``high_seeds`` over texts
        and seeds; ``items``, ``seeds`` (the smaller number).
    """
    ones, twos = {kept.seed: kept for kept in first}, {kept.seed: kept for kept in second}
    common = sorted(ones.keys() & twos.keys())
    paired = len(common) > 0
    left = [ones[seed] for seed in (common if paired else sorted(ones))]
    right = [twos[seed] for seed in (common if paired else sorted(twos))]
    # a keyword that one row's data set knows, another's may not: the first row's says which items are of the stratum
    chosen = np.asarray(STRATA[stratum](left[0].items))
    a, b = (_values(kept, metric, left[0].items["example_id"], chosen) for kept in (left, right))  # (seeds, items)
    both = ~np.isnan(a).any(0) & ~np.isnan(b).any(0)
    a, b = a[:, both], b[:, both]
    if not a.shape[1]:
        return {"items": 0.0, "seeds": float(min(len(a), len(b)))}
    draw = np.random.default_rng(0)
    texts = draw.integers(a.shape[1], size=(resamples, a.shape[1]))
    over_texts = (a.mean(0) - b.mean(0))[texts].mean(1)
    of_a = draw.integers(len(a), size=(resamples, len(a)))
    of_b = of_a if paired else draw.integers(len(b), size=(resamples, len(b)))
    over_both = np.array([a[rows_a][:, places].mean() - b[rows_b][:, places].mean()
                          for rows_a, rows_b, places in zip(of_a, of_b, texts, strict=True)])
    low, high = np.quantile(over_texts, (0.025, 0.975))
    low_seeds, high_seeds = np.quantile(over_both, (0.025, 0.975))
    return {"first": float(a.mean()), "second": float(b.mean()), "difference": float(a.mean() - b.mean()),
            "low": float(low), "high": float(high), "low_seeds": float(low_seeds), "high_seeds": float(high_seeds),
            "items": float(a.shape[1]), "seeds": float(min(len(a), len(b)))}


def _values(kept: Sequence[Kept], metric: str, ids: pd.Series, chosen: np.ndarray) -> np.ndarray:
    for found in kept:
        if not found.items["example_id"].equals(ids):
            raise InputError(f"{found.row}, seed {found.seed}: other items than those of the first row were scored.")
    return np.stack([found.items[metric].to_numpy(dtype=np.float64)[chosen] for found in kept])


def table(recipe: str, rows: Sequence[str], metrics: Sequence[str] = ("bleu_1", "bleu_4", "bertscore", "source_bleu_4"),
          strata: Sequence[str] = tuple(STRATA)) -> list[str]:
    """Return the first of ``rows`` against each other one as lines of Markdown."""
    lines = ["| against | stratum | items | seeds | metric | first | other | difference | over texts | over texts and "
             "seeds |", "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | --- | --- |"]
    first = read_kept(recipe, rows[0])
    for row in rows[1:]:
        other = read_kept(recipe, row)
        for stratum in strata:
            for metric in metrics:
                found = differences(first, other, metric, stratum)
                if found["items"]:
                    lines.append(_line(row, stratum, metric, found))
    return lines


def _line(row: str, stratum: str, metric: str, found: Mapping[str, float]) -> str:
    interval = f"{found['low']:+.4f} to {found['high']:+.4f}"
    seeds = f"{found['low_seeds']:+.4f} to {found['high_seeds']:+.4f}" if found["seeds"] > 1 else "one seed"
    return (f"| {row} | {stratum} | {found['items']:.0f} | {found['seeds']:.0f} | {metric} | {found['first']:.4f} | "
            f"{found['second']:.4f} | {found['difference']:+.4f} | {interval} | {seeds} |")


def monitors(recipe: str, rows: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the monitors of the epoch that was kept, a line a row and seed, as Markdown."""
    lines = [f"| row | seed | epoch kept/run | {' | '.join(names)} |",
             f"| --- | ---: | ---: |{' ---: |' * len(names)}"]
    for row in rows:
        for kept in read_kept(recipe, row):
            history, best = kept.facts["history"], int(kept.facts["training"]["best_epoch"])
            values = next(line for line in history if int(line["epoch"]) == best)
            shown = (f"{values[name]:.4g}" if name in values else "–" for name in names)
            lines.append(f"| {row} | {kept.seed} | {best}/{len(history)} | {' | '.join(shown)} |")
    return lines


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = made.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train, score and keep what is not kept yet",
                              epilog="example: python -m benchmarks.evidence run cpu-hcl-choices --minutes 40")
    run.add_argument("recipe")
    run.add_argument("rows", nargs="*", help="runs of the recipe; all if none is named")
    run.add_argument("--minutes", type=float, default=40.0, help="begin nothing further after these (40)")
    shown = commands.add_parser("table", help="set the first row against the others, from what is kept",
                                epilog="example: python -m benchmarks.evidence table cpu-hcl-choices hidden leaking")
    shown.add_argument("recipe")
    shown.add_argument("rows", nargs="+")
    shown.add_argument("--metrics", nargs="+", choices=METRICS, default=["bleu_1", "bleu_4", "bertscore",
                                                                       "source_bleu_4"])
    shown.add_argument("--strata", nargs="+", choices=list(STRATA), default=list(STRATA))
    shown.add_argument("--monitors", nargs="+", default=[], metavar="NAME", help="columns of the history to show too")
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the command named in ``argv``."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.command == "run":
            work(arguments.recipe, arguments.rows, arguments.minutes)
            return 0
        lines = table(arguments.recipe, arguments.rows, arguments.metrics, arguments.strata)
        if arguments.monitors:
            lines += ["", *monitors(arguments.recipe, arguments.rows, arguments.monitors)]
    except InputError as error:
        sys.stderr.write(f"benchmarks.evidence: {error}\n")
        return 1
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
