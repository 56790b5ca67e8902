"""Keep what each training of a recipe found, item by item, and set rows against each other from what was kept.

    python -m benchmarks.evidence run RECIPE --minutes 40       # train and score what is not kept yet, then stop
    python -m benchmarks.evidence table RECIPE hcl no-graph leaking

`run` works in the folder of a project that has taken the recipe (`keycontrast use RECIPE`), row by row in the order of
the recipe, and begins no further one when the minutes are over; a training that was killed goes on from its checkpoint
the next time. After each row it writes, for each seed, `metrics/evidence/RECIPE/ROW-SEED.parquet`: scores of every
evaluated item (of classifiers: classes by number), and, as the file's metadata, settings, monitors and history of the
training. The files hold no text of a data set, so they may be committed, and another machine goes on from them.

`table` prints, for every metric and stratum, the first row's value, each other row's, and the difference: its interval
over texts with the seeds as they are; over texts and seeds together; p of a t test over seeds; and the difference that
so many seeds and texts find four times in five (stages/metrics/seeds.py, as in stage compare).
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

from benchmarks.kept_items import KEPT_ITEMS
from stages.common.paths import ModelPaths, RunPaths
from stages.common.settings import read_params
from stages.common.tables import atomic_file, read_frame
from stages.metrics.resampling import Statistic, interval, resampled
from stages.metrics.seeds import Members, over_seeds
from stages.run.errors import InputError, nearest
from stages.tracks.common.evaluation.strata import STRATA as OF_KEYWORDS

FOLDER = Path("metrics") / "evidence"
# As METHODS and the results have them: how often training has seen the keyword of an evaluated input.
STRATA = {"all": lambda items: np.ones(len(items), dtype=bool),
          **{one.title: one.holds for one in OF_KEYWORDS.values()}}
LEVEL = 0.95
_KEY = b"evidence"
_RESAMPLES = 2000


@dataclass(frozen=True)
class Kept:
    """What was found under one seed of a row.

    Attributes:
        row, seed: of the run, and of its model.
        items: columns of ``benchmarks.kept_items``, sorted by example.
        facts: track, settings, monitors, history and metrics of all items.
    """

    row: str
    seed: int
    items: pd.DataFrame
    facts: Mapping[str, Any]

    @property
    def track(self) -> str:
        """The track; what was kept before there were several is HCL's."""
        return str(self.facts.get("track", "hcl"))

    def statistics(self, stratum: str = "all") -> dict[str, Statistic]:
        """Return every metric of the items of a stratum."""
        return KEPT_ITEMS[self.track].statistics(self.items[np.asarray(STRATA[stratum](self.items))])


def kept_file(recipe: str, row: str, seed: int) -> Path:
    """Return where the findings of a row's seed are kept."""
    return FOLDER / recipe / f"{row}-{seed}.parquet"


def track_of(params: Mapping[str, Any], run: str) -> str:
    """Return the track of a run of the params.

    Raises:
        InputError: there is no such run.
    """
    for track, runs in params["runs"].items():
        if run in runs:
            return str(track)
    raise InputError(f"{run!r} is no run of recipe {params['recipe']}; {nearest(run, _runs(params))}")


def _runs(params: Mapping[str, Any]) -> list[str]:
    return [run for runs in params["runs"].values() for run in runs]


def _model_of(params: Mapping[str, Any], run: str) -> tuple[str, Mapping[str, Any]]:
    track = track_of(params, run)
    name = params["runs"][track][run]["model"]
    return name, params["models"][track][name]


def keep(recipe: str, run: str, seed: int) -> Path:
    """Write the findings of an evaluated run; return their file."""
    params = read_params()
    track, (name, model) = track_of(params, run), _model_of(params, run)
    kept, scored, paths = KEPT_ITEMS[track], RunPaths(run, seed), ModelPaths(name, seed)
    scores = read_frame(scored.scores, kept.schema)
    scores = scores[scores["system"] == "run"].sort_values("example_id", ignore_index=True)
    found = kept.columns(scores, *kept.beside(scored, paths, model["dataset"]))
    history = pd.read_csv(paths.history)
    metrics = json.loads(scored.metrics.read_text(encoding="utf-8"))
    facts = {"recipe": recipe, "track": track, "row": run, "model": name, "seed": seed, "dataset": model["dataset"],
             "overrides": model["overrides"], "decode": params["runs"][track][run].get("decode", {}),
             "init_from": model.get("init_from"), "training": json.loads(paths.metrics.read_text(encoding="utf-8")),
             "run": _numbers(metrics["run"]), "floors": {one: _numbers(at) for one, at in metrics["floors"].items()},
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
        rows: runs; all if none is named.

    Raises:
        InputError: a row is no run of the project, or the project is of another recipe.
    """
    params = read_params()
    if params["recipe"] != recipe:
        raise InputError(f"params.yaml is of recipe {params['recipe']}. Take the other one: keycontrast use {recipe} "
                         f"--data DIR.")
    left = {run: [seed for seed in _model_of(params, run)[1]["seeds"]
                  if not kept_file(recipe, run, seed).exists()] for run in rows or _runs(params)}
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
        stage = f"evaluate_{track_of(read_params(), run)}@{run}"
        done = subprocess.run([sys.executable, "-m", "pipeline", "run", stage], check=False)
        if done.returncode:
            raise InputError(f"{run}: `keycontrast run {stage}` ended with status {done.returncode}.")
        for seed in seeds:
            keep(recipe, run, seed)
        sys.stdout.write(f"kept {run}, seeds {', '.join(map(str, seeds))}: {(time.monotonic() - begun) / 60:.1f} min\n")
        sys.stdout.flush()


# Tables


def differences(first: Sequence[Kept], second: Sequence[Kept], metric: str, stratum: str,
                resamples: int = _RESAMPLES) -> dict[str, float]:
    """Return two rows' values of a metric in a stratum of the first one, and their difference with its intervals.

    Of scores that an item may lack, those items count that both rows have under every seed.

    Returns:
        ``first``, ``second``, ``difference``, means over seeds; ``low``, ``high`` over texts; ``items``; ``seeds``
        (the smaller number); and where both rows have several, ``low_seeds``, ``high_seeds``, ``p_seeds`` and
        ``detectable`` of :func:`stages.metrics.seeds.over_seeds`.

    Raises:
        InputError: other items were scored, or the metric is unknown.
    """
    rows = [sorted(kept, key=lambda one: one.seed) for kept in (first, second)]
    # a keyword that one row's data set knows, another's may not: the first row's says which items are of the stratum
    chosen = np.asarray(STRATA[stratum](rows[0][0].items))
    for found in (*rows[0], *rows[1]):
        if not found.items["example_id"].equals(rows[0][0].items["example_id"]):
            raise InputError(f"{found.row}, seed {found.seed}: other items than those of the first row were scored.")
    for name in {metric} & set.intersection(*(set(one.items) for row in rows for one in row)):
        for one in (*rows[0], *rows[1]):
            chosen = chosen & ~np.isnan(one.items[name].to_numpy(dtype=np.float64))
    answer = {"items": float(chosen.sum()), "seeds": float(min(map(len, rows)))}
    if not chosen.any():
        return answer
    left, right = (_members(row, metric, chosen, resamples) for row in rows)
    low, high = interval(left.samples.mean(0) - right.samples.mean(0), LEVEL)
    answer |= {"first": float(left.values.mean()), "second": float(right.values.mean()), "low": low, "high": high}
    answer["difference"] = answer["first"] - answer["second"]
    both = over_seeds(left, right, LEVEL, 0)
    if both is not None:
        answer |= {"seeds": float(both.seeds), "low_seeds": both.low, "high_seeds": both.high,
                   "p_seeds": both.p_value, "detectable": both.detectable}
    return answer


def _members(row: Sequence[Kept], metric: str, chosen: np.ndarray, resamples: int) -> Members:
    found = {}
    for kept in row:
        statistics = KEPT_ITEMS[kept.track].statistics(kept.items[chosen])
        if metric not in statistics:
            raise InputError(f"{metric!r} is no metric of what is kept of {kept.row}; {nearest(metric, statistics)}")
        found[str(kept.seed)] = statistics[metric]
    samples = resampled(found, resamples, 0)
    return Members(np.array([one.value() for one in found.values()]), np.stack(list(samples.values())),
                   [kept.seed for kept in row])


def table(recipe: str, rows: Sequence[str], metrics: Sequence[str] = (), strata: Sequence[str] = ()) -> list[str]:
    """Return the first of ``rows`` against each other one as lines of Markdown."""
    lines = ["| against | stratum | items | seeds | metric | first | other | difference | over texts | over texts and "
             "seeds | p over seeds | detectable |",
             "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | --- | --- | ---: | ---: |"]
    first = read_kept(recipe, rows[0])
    for row in rows[1:]:
        other = read_kept(recipe, row)
        for stratum in strata or (STRATA if first[0].track == "hcl" else ("all",)):
            for metric in metrics or KEPT_ITEMS[first[0].track].shown:
                found = differences(first, other, metric, stratum)
                if found["items"]:
                    lines.append(_line(row, stratum, metric, found))
    return lines


def _line(row: str, stratum: str, metric: str, found: Mapping[str, float]) -> str:
    interval = f"{found['low']:+.4f} to {found['high']:+.4f}"
    seeds = "one seed | – | –"
    if "p_seeds" in found:
        seeds = (f"{found['low_seeds']:+.4f} to {found['high_seeds']:+.4f} | {found['p_seeds']:.3f} | "
                 f"{found['detectable']:.4f}")
    return (f"| {row} | {stratum} | {found['items']:.0f} | {found['seeds']:.0f} | {metric} | {found['first']:.4f} | "
            f"{found['second']:.4f} | {found['difference']:+.4f} | {interval} | {seeds} |")


def values(recipe: str, rows: Sequence[str], metrics: Sequence[str] = ()) -> list[str]:
    """Return the metrics of each row, mean and standard deviation over seeds, as lines of Markdown."""
    kept = {row: read_kept(recipe, row) for row in rows}
    names = metrics or KEPT_ITEMS[next(iter(kept.values()))[0].track].shown
    lines = [f"| row | seeds | {' | '.join(names)} |", f"| --- | ---: |{' ---: |' * len(names)}"]
    for row, found in kept.items():
        cells = []
        for name in names:
            each = [one.statistics()[name].value() for one in found]
            cells.append(f"{np.mean(each):.4f}" + (f" ± {np.std(each, ddof=1):.4f}" if len(each) > 1 else ""))
        lines.append(f"| {row} | {len(found)} | {' | '.join(cells)} |")
    return lines


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
    shown.add_argument("--metrics", nargs="+", default=[], metavar="NAME", help="by default the track's leading ones")
    shown.add_argument("--strata", nargs="+", choices=list(STRATA), default=[],
                       help="of keywords; by default each of them for HCL, else all items together")
    shown.add_argument("--values", action="store_true", help="show each row's values first")
    shown.add_argument("--monitors", nargs="+", default=[], metavar="NAME", help="columns of the history to show too")
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the command named in ``argv``."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.command == "run":
            work(arguments.recipe, arguments.rows, arguments.minutes)
            return 0
        lines = values(arguments.recipe, arguments.rows, arguments.metrics) + [""] if arguments.values else []
        lines += table(arguments.recipe, arguments.rows, arguments.metrics, arguments.strata)
        if arguments.monitors:
            lines += ["", *monitors(arguments.recipe, arguments.rows, arguments.monitors)]
    except InputError as error:
        sys.stderr.write(f"benchmarks.evidence: {error}\n")
        return 1
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
