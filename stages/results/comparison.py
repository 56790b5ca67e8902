"""Systems on the same items: runs, groups of seeds and baselines, with every metric on the same resamples."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from stages.common.paths import RunPaths
from stages.common.schemas import TableSchema
from stages.common.tables import rounded
from stages.metrics.resampling import (
    VERDICT,
    Members,
    Statistic,
    interval,
    on_shared_seeds,
    over_seeds,
    p_value,
    resampled,
)
from stages.results.track import TrackResults
from stages.tracks.common.schemas import STRATA

_STRATUM = 10   # items that a stratum needs to be compared
PAIRED = TableSchema(
    "paired", "Paired tests between the runs of a data set on the same items.",
    ("dataset", "metric", "first", "second"), (
        ("dataset", pa.string(), "data set and split, such as sample/test"),
        ("metric", pa.string(), "metric as named in metrics.json"),
        ("first", pa.string(), "run: all its seeds taken together, or one of them, such as hcl/14; or a baseline"),
        ("second", pa.string(), "run or name that it is compared with"),
        ("items", pa.int64(), "evaluated items"),
        ("first_value", pa.float64(), "metric of the first, over the shared seeds if these are several"),
        ("second_value", pa.float64(), "metric of the second"),
        ("difference", pa.float64(), "first minus second"),
        ("low", pa.float64(), "lower end of the bootstrap interval of the difference"),
        ("high", pa.float64(), "upper end"),
        ("p_value", pa.float64(), "two-sided, of the paired bootstrap"),
        ("seeds", pa.int64(), "number of shared seeds, or the smaller number of seeds if fewer than two are shared; "
                              "1 if a trained system has a single seed, or both are baselines"),
        ("low_seeds", pa.float64(), "lower end of the interval over items and seeds; this column and the following "
                                    "ones are null if seeds is 1"),
        ("high_seeds", pa.float64(), "upper end"),
        ("p_seeds", pa.float64(), "two-sided, of the t test over seeds"),
        ("detectable", pa.float64(), "difference that as many seeds and items would find in four tables of five"),
        ("verdict", pa.int64(), "sign of the difference if interval over items and seeds and t test both find it, "
                                "else 0; null below three seeds"),
    ))

BY_STRATUM = TableSchema(
    "by_stratum", "The same tests within strata of the items (stages.tracks.common.schemas), where a track "
    "has any.",
    ("dataset", "stratum", "metric", "first", "second"), (
        PAIRED.fields[0], ("stratum", pa.string(), "name of the stratum"), *PAIRED.fields[1:]))

MCNEMAR = TableSchema(
    "mcnemar", "McNemar's exact test between classifiers on the same texts, single runs and baselines.",
    ("dataset", "first", "second"), (
        ("dataset", pa.string(), "data set and split, such as sample/test"),
        ("first", pa.string(), "run"),
        ("second", pa.string(), "run or baseline that it is compared with"),
        ("items", pa.int64(), "evaluated texts"),
        ("both_right", pa.int64(), "texts that both have right"),
        ("first_only", pa.int64(), "texts that the first alone has right"),
        ("second_only", pa.int64(), "texts that the second alone has right"),
        ("both_wrong", pa.int64(), "texts that both have wrong"),
        ("p_value", pa.float64(), "two-sided, of the binomial over the texts that one alone has right; 1 without "
                                  "any"),
    ))


@dataclass(frozen=True)
class EvaluatedRun:
    """A run with its tables of predictions and scores, and the settings of its evaluation."""

    name: str
    dataset: str
    split: str
    paths: RunPaths
    predictions: pd.DataFrame
    scores: pd.DataFrame
    track: TrackResults
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def items(self) -> pd.DataFrame:
        """Predictions that are scored, sorted by example: the first sample of each."""
        rows = self.predictions[self.predictions["sample"] == 0] if "sample" in self.predictions else self.predictions
        return rows.sort_values("example_id", ignore_index=True)

    @property
    def fingerprint(self) -> str:
        """Hash of the evaluated items: ids, inputs and references, or classes."""
        rows, compared = self.items, self.track.compared
        targets = [text if isinstance(text, str) else list(text) for text in rows[compared.targets]]
        return hashlib.sha256(json.dumps([[int(number), *texts] for number, *texts in zip(
            rows["example_id"], rows[compared.inputs], targets, strict=True)]).encode()).hexdigest()

    def scored(self, system: str) -> pd.DataFrame:
        """Return the scores of ``run`` or a baseline, sorted by example; scores of other predictions are an error."""
        rows = self.scores[self.scores["system"] == system].sort_values("example_id", ignore_index=True)
        items, compared = self.items, self.track.compared
        differ = system == "run" and rows[compared.answer].tolist() != items[compared.predicted].tolist()
        if differ or rows["example_id"].tolist() != items["example_id"].tolist():
            raise InputError(f"{self.paths.scores}: the scores are not those of the run's predictions. Score "
                             f"them again with `keycontrast run evaluate_{self.track.name}@{self.paths.name}`.")
        return rows

    def statistics(self, system: str) -> dict[str, Statistic]:
        """Return every metric of ``run`` or of a baseline."""
        return self.track.compared.statistics(self.scored(system), self.items, self.settings)


@dataclass(frozen=True)
class ComparedSystem:
    """A baseline, or one or several seeds of a run, with the metrics of each member."""

    name: str
    members: list[dict[str, Statistic]]
    runs: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    @property
    def metrics(self) -> list[str]:
        """Metrics that all members have."""
        return [name for name in self.members[0] if all(name in member for member in self.members)]


def comparable(runs: Sequence[EvaluatedRun]) -> dict[str, list[EvaluatedRun]]:
    """Return the runs that may be compared, by ``DATASET/SPLIT``.

    Runs on other items of the same split form further groups, named ``DATASET/SPLIT (as RUN)`` by their first run. The
    first group of each further track is named ``DATASET/SPLIT (TRACK)``.
    """
    groups: dict[str, list[EvaluatedRun]] = {}
    labels: dict[tuple[str, str, str, str], str] = {}
    for run in runs:
        key, label = (run.track.name, run.dataset, run.split, run.fingerprint), f"{run.dataset}/{run.split}"
        if key not in labels:
            others = {other.track.name for other in groups.get(label, [])} - {run.track.name}
            names = [label, *([f"{label} ({run.track.title})"] if others else []), f"{label} (as {run.name})"]
            labels[key] = next(name for name in names if name not in groups)
        groups.setdefault(labels[key], []).append(run)
    return groups


def systems_of(runs: Sequence[EvaluatedRun]) -> list[ComparedSystem]:
    """Return groups of seeds, runs and baselines of comparable runs, in that order."""
    members = {run.name: run.statistics("run") for run in runs}
    single = [ComparedSystem(run.name, [members[run.name]], [run.name], [run.paths.seed]) for run in runs]
    baselines = [ComparedSystem(name, [run.statistics(baseline)]) for name, run, baseline in _distinct_baselines(runs)]
    return [*_pooled(runs, members), *single, *baselines]


def strata_of(runs: Sequence[EvaluatedRun]) -> dict[str, np.ndarray]:
    """Return for each stratum with enough items a mask (n,) of the items of comparable runs, sorted by example."""
    if not runs[0].track.by_stratum:
        return {}
    rows = runs[0].scored("run")
    masks = {name: stratum.holds(rows) for name, stratum in STRATA.items()}
    return {name: mask for name, mask in masks.items() if mask.sum() >= _STRATUM}


def within(systems: Sequence[ComparedSystem], mask: np.ndarray) -> list[ComparedSystem]:
    """Return ``systems`` on the items of ``mask`` (n,); members that systems share stay shared."""
    members = {id(member): {name: replace(statistic, items=statistic.items[mask])
                            for name, statistic in member.items()} for system in systems for member in system.members}
    return [replace(system, members=[members[id(member)] for member in system.members]) for system in systems]


def pooled_name(row: str, seeds: int) -> str:
    """Return the name in results of a run of the params with all its seeds."""
    return row if seeds == 1 else f"{row} ({seeds} seeds)"


def _pooled(runs: Sequence[EvaluatedRun], members: Mapping[str, dict[str, Statistic]]) -> list[ComparedSystem]:
    rows: dict[str, list[EvaluatedRun]] = {}
    for run in runs:
        rows.setdefault(run.paths.name, []).append(run)
    return [ComparedSystem(pooled_name(row, len(own)), [members[run.name] for run in own], [run.name for run in own],
                           [run.paths.seed for run in own]) for row, own in rows.items() if len(own) > 1]


def _distinct_baselines(runs: Sequence[EvaluatedRun]) -> Iterator[tuple[str, EvaluatedRun, str]]:
    """Yield name, run and key of every distinct baseline; they differ between models with different training items."""
    seen: dict[str, list[list[str]]] = {}
    for run in runs:
        for baseline in sorted(set(run.scores["system"]) - {"run"}):
            outputs = run.scored(baseline)[run.track.compared.answer].tolist()
            if outputs not in seen.setdefault(baseline, []):
                seen[baseline].append(outputs)
                yield f"baseline {baseline}" + (f" of {run.name}" if len(seen[baseline]) > 1 else ""), run, baseline


def measured_systems(systems: Sequence[ComparedSystem], resamples: int, seed: int) -> dict[str, dict[str, Members]]:
    """Return every metric of every system by name, on the same resamples of the items."""
    distinct = {id(member): member for system in systems for member in system.members}
    samples = resampled({f"{key}/{name}": statistic for key, member in distinct.items()
                         for name, statistic in member.items()}, resamples, seed)
    return {system.name: {
        name: Members(np.array([member[name].value() for member in system.members]),
                      np.stack([samples[f"{id(member)}/{name}"] for member in system.members]), system.seeds)
        for name in system.metrics} for system in systems}


def paired_rows(systems: Sequence[ComparedSystem], measured: Mapping[str, Mapping[str, Members]],
                level: float, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of table ``paired`` on one set of items, without data set and items; every pair once."""
    for first, second in combinations(systems, 2):
        if set(first.runs) & set(second.runs):
            continue    # a run and its own group
        for metric, statistic in measured[first.name].items():
            other = measured[second.name].get(metric)
            if other is not None:
                left, right = on_shared_seeds(statistic, other)
                differences = left.samples.mean(axis=0) - right.samples.mean(axis=0)
                low, high = interval(differences, level)
                yield rounded({"metric": metric, "first": first.name, "second": second.name,
                               "first_value": left.mean, "second_value": right.mean,
                               "difference": left.mean - right.mean, "low": low, "high": high,
                               "p_value": p_value(differences), **_over_seeds(left, right, level, seed)})


def _over_seeds(left: Members, right: Members, level: float, seed: int) -> dict[str, Any]:
    test = over_seeds(left, right, level, seed)
    if test is None:
        return {"seeds": 1} | dict.fromkeys(("low_seeds", "high_seeds", "p_seeds", "detectable", "verdict"))
    return {"seeds": test.seeds, "low_seeds": test.low, "high_seeds": test.high, "p_seeds": test.p_value,
            "detectable": test.detectable, "verdict": test.sign(level) if test.seeds >= VERDICT else None}


def summary(system: ComparedSystem, measured: Mapping[str, Members], level: float) -> dict[str, Any]:
    """Return runs and seeds of a system, and mean, standard deviation over seeds and interval of each metric."""
    values: dict[str, Any] = {"runs": system.runs, "seeds": system.seeds}
    for name, measurement in measured.items():
        low, high = interval(measurement.samples.mean(axis=0), level)
        sd = float(np.std(measurement.values, ddof=1)) if len(measurement.values) > 1 else None
        values[name] = rounded({"mean": measurement.mean, "sd": sd, "low": low, "high": high})
    return values


def mcnemar(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    """Return a row of table ``mcnemar`` from the texts (n,) bool that each classifier has right (McNemar 1947)."""
    from scipy.special import bdtr  # slow to import: `keycontrast run` imports this module

    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    p = min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5))) if b + c else 1.0
    return {"both_right": int((first & second).sum()), "first_only": b, "second_only": c,
            "both_wrong": int((~first & ~second).sum()), "p_value": p}


def exact_rows(runs: Sequence[EvaluatedRun]) -> Iterator[dict[str, Any]]:
    """Yield the rows of table ``mcnemar`` on one set of texts, without column ``dataset``; every pair once."""
    systems = [*((run.name, run, "run") for run in runs), *_distinct_baselines(runs)]
    correct = [(name, run.scored(system)["correct"].to_numpy(bool)) for name, run, system in systems]
    for (first, right), (second, other) in combinations(correct, 2):
        yield rounded({"first": first, "second": second, "items": len(right), **mcnemar(right, other)})
