"""Compare the runs of each data set on the same items: paired tests, and means over the seeds of a row.

A run with several seeds is compared as a whole, as "hcl (3 seeds)", and seed by seed, as "hcl/14"; baselines take part
as "baseline copy". All tests are repeated within the strata of the items, if the track has any. A verdict combines the
interval over seeds and items with the t test over seeds, and needs at least three seeds. P values are not adjusted for
the number of pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from stages.common.paths import COMPARISON
from stages.common.seeds import derived_seed
from stages.common.tables import Provenance, write_json, write_table
from stages.results import comparison
from stages.results.comparison import BY_STRATUM, MCNEMAR, PAIRED, ComparedSystem, EvaluatedRun
from stages.results.gather import read_evaluated, seeded_runs
from stages.results.tracks import TRACKS
from stages.run.process import StageProcess, run_stage

STAGE = "compare"
TEST = ("paired bootstrap over items, two-sided, ties against both; p values are of each pair alone, not adjusted for "
        "the number of pairs; intervals are percentile intervals of the difference")


@dataclass(frozen=True)
class Comparison:
    """The outputs of the stage: tables, and the content of ``metrics.json``."""

    paired: pd.DataFrame
    metrics: dict[str, Any]
    mcnemar: pd.DataFrame
    by_stratum: pd.DataFrame


def run(runs: Sequence[EvaluatedRun], resamples: int, level: float, seed: int) -> Comparison:
    """Return the comparison of the runs of all tracks; their order is that of first and second in a pair."""
    rows: list[dict[str, Any]] = []
    exact: list[dict[str, Any]] = []
    strata: list[dict[str, Any]] = []
    metrics: dict[str, Any] = {}

    def tested(systems: Sequence[ComparedSystem], items: int, place: dict[str, str]) -> tuple[
            list[dict[str, Any]], dict[str, Any]]:
        """Return the tests between systems, and the metrics of each system."""
        drawn = derived_seed(seed, STAGE)
        measured = comparison.measured_systems(systems, resamples, drawn)
        pairs = comparison.paired_rows(systems, measured, level, drawn)
        return ([{**place, "items": items, **row} for row in pairs],
                {"groups": {system.name: comparison.summary(system, measured[system.name], level)
                            for system in systems}, "items": items})

    for label, together in comparison.comparable(runs).items():
        systems = comparison.systems_of(together)
        tests, counts = tested(systems, len(together[0].items), {"dataset": label})
        rows += tests
        metrics[label] = {**counts, "resamples": resamples, "level": level, "test": TEST}
        for name, mask in comparison.strata_of(together).items():
            labels = {"dataset": label, "stratum": name}
            tests, counts = tested(comparison.within(systems, mask), int(mask.sum()), labels)
            strata += tests
            metrics[label].setdefault("strata", {})[name] = counts
        if together[0].track.compared.exact:
            exact += [{"dataset": label, **row} for row in comparison.exact_rows(together)]
    paired, mcnemar, by_stratum = (pd.DataFrame(table, columns=[name for name, *_ in schema.fields])
                                   for table, schema in ((rows, PAIRED), (exact, MCNEMAR), (strata, BY_STRATUM)))
    return Comparison(paired, metrics, mcnemar, by_stratum)


def _work(process: StageProcess) -> None:
    params = process.params
    runs = [read_evaluated(params, track, name, paths) for track in TRACKS.values()
            for name, paths in seeded_runs(params, track).items()]
    result = run(runs, params.compare.resamples, params.evaluation.level, params.seed)
    counts = {label: len(compared["groups"]) for label, compared in result.metrics.items()}
    process.log.info("%d tests; systems: %s", len(result.paired), counts or "none")
    for schema, table, provenance in (
            (PAIRED, result.paired, ({"test": TEST}, {"systems": counts})),
            (BY_STRATUM, result.by_stratum, ({"test": TEST},)), (MCNEMAR, result.mcnemar, ())):
        write_table(COMPARISON / f"{schema.name}.parquet", schema, table,
                    Provenance(process.name, process.params_hash, *provenance))
    write_json(COMPARISON / "metrics.json", result.metrics)


main = partial(run_stage, STAGE, _work, instance=None)
