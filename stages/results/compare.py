"""Compare the runs of each data set on the same items: paired tests, and means over the seeds of a row.

Reads predictions.parquet, scores.parquet and metrics.json of every run that params.yaml lists; writes
comparison/paired.parquet, by_stratum.parquet, metrics.json and, for classifiers, mcnemar.parquet. Runs are compared
within a track, data set and split, on identical items with identical references; every pair stands in the table once.
Tracks are kept apart because they are scored on different tokens, and classifiers on none.

Seeds. A run whose model has several seeds is compared as a whole, as "hcl (3 seeds)", and seed by seed, as "hcl/14".
The value of the whole is the mean over its seeds, on every resample.

Floors take part as "floor copy" and so on.

Strata. Where a track has strata of its items (stages.tracks.common.schemas), all of it is done within each
of them
too, for comparison/by_stratum.parquet and under ``strata`` in metrics.json.

What an interval says: for low and high the items are resampled, with all that was scored on them, and the trained
models stay as they are; for low_seeds and high_seeds seeds are drawn anew too, and p_seeds is of a t test over seeds. A
verdict needs both of these (stages/metrics/seeds.py), so that a row of one seed has none. How much a metric moves from
seed to seed is told by its standard deviation over seeds, in metrics.json. A p value is of its pair alone and not
adjusted for the number of pairs.

McNemar's exact test sets accuracies of single runs and floors against each other; for several seeds taken together,
whose answers to a text may differ, there is none.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from stages.common.paths import COMPARISON
from stages.common.seeds import derived_seed
from stages.common.tables import Provenance, write_json, write_table
from stages.results.comparison import (
    BY_STRATUM,
    MCNEMAR,
    PAIRED,
    ComparedSystem,
    EvaluatedRun,
    comparable,
    exact_rows,
    measured_systems,
    paired_rows,
    strata_of,
    summary,
    systems_of,
    within,
)
from stages.results.gather import read_evaluated, seeded_runs
from stages.results.tracks import TRACKS
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.results.params import Compare

STAGE = "compare"
TEST = ("paired bootstrap over items, two-sided, ties against both; p values are of each pair alone, not adjusted for "
        "the number of pairs; intervals are percentile intervals of the difference")


@dataclass(frozen=True)
class Comparison:
    """What the stage makes: tables ``paired``, ``mcnemar``, ``by_stratum``, and the content of ``metrics.json``."""

    paired: pd.DataFrame
    metrics: dict[str, Any]
    mcnemar: pd.DataFrame
    by_stratum: pd.DataFrame


def run(runs: Sequence[EvaluatedRun], settings: "Compare", seed: int) -> Comparison:
    """Return the comparison of ``runs``; with fewer than two systems on the same items, no pairs.

    Args:
        runs: of all tracks, in the order of the params, which is that of first and second in a pair.
        settings: block ``compare``.
        seed: the project's.

    Raises:
        InputError: the tables of a run do not belong together.
    """
    rows: list[dict[str, Any]] = []
    exact: list[dict[str, Any]] = []
    strata: list[dict[str, Any]] = []
    metrics: dict[str, Any] = {}

    def tested(systems: Sequence[ComparedSystem], items: int, place: dict[str, str]) -> tuple[
            list[dict[str, Any]], dict[str, Any]]:
        """Return the tests between systems, and what is said of each."""
        drawn = derived_seed(seed, STAGE)
        measured = measured_systems(systems, settings.resamples, drawn)
        return ([{**place, "items": items, **row} for row in paired_rows(systems, measured, settings.level, drawn)],
                {"groups": {system.name: summary(system, measured[system.name], settings.level)
                            for system in systems}, "items": items})

    for label, together in comparable(runs).items():
        systems = systems_of(together)
        found, said = tested(systems, len(together[0].items), {"dataset": label})
        rows += found
        metrics[label] = {**said, "resamples": settings.resamples, "level": settings.level, "test": TEST}
        for name, mask in strata_of(together).items():
            found, said = tested(within(systems, mask), int(mask.sum()), {"dataset": label, "stratum": name})
            strata += found
            metrics[label].setdefault("strata", {})[name] = said
        if together[0].track.compared.exact:
            exact += [{"dataset": label, **row} for row in exact_rows(together)]
    paired, mcnemar, by_stratum = (pd.DataFrame(found, columns=[name for name, *_ in schema.fields])
                                   for found, schema in ((rows, PAIRED), (exact, MCNEMAR), (strata, BY_STRATUM)))
    return Comparison(paired, metrics, mcnemar, by_stratum)


def _work(process: StageProcess) -> None:
    params = process.params
    runs = [read_evaluated(params, track, name, paths) for track in TRACKS.values()
            for name, paths in seeded_runs(params, track).items()]
    result = run(runs, params.compare, params.seed)
    counts = {label: len(found["groups"]) for label, found in result.metrics.items()}
    process.log.info("%d tests; systems: %s", len(result.paired), counts or "none")
    params_hash = process.params_hash
    write_table(COMPARISON / "paired.parquet", PAIRED, result.paired,
                Provenance(process.name, params_hash, {"test": TEST}, {"systems": counts}))
    write_table(COMPARISON / "by_stratum.parquet", BY_STRATUM, result.by_stratum,
                Provenance(process.name, params_hash, {"test": TEST}))
    write_table(COMPARISON / "mcnemar.parquet", MCNEMAR, result.mcnemar, Provenance(process.name, params_hash))
    write_json(COMPARISON / "metrics.json", result.metrics)


main = partial(run_stage, STAGE, _work, instance=None)


if __name__ == "__main__":
    sys.exit(main())
