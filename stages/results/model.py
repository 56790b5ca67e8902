"""The results of a project as the page and the terminal show them: models, runs, systems and their differences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from stages.common.paths import ModelPaths, RunPaths, row_name
from stages.metrics.registered import Metric, metric
from stages.results.published import PublishedRow
from stages.results.track import SCRATCH, Row, TrackResults

# The words for a difference of a system, and for a part that one system has and the other lacks.
BETTER = {1: "better", -1: "worse", 0: "no difference seen"}
HELPS = {1: "helps", -1: "hurts", 0: "no difference seen"}
BASELINE = "baseline "        # before the name of a baseline in the comparison


@dataclass(frozen=True)
class Value:
    """A metric of a system: its mean over seeds, their standard deviation (None for one), its interval (or None)."""

    mean: float
    sd: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Model:
    """A trained model, by its name in results."""

    name: str
    track: str
    dataset: str
    seed: int
    overrides: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    history: pd.DataFrame | None = None

    @property
    def paths(self) -> ModelPaths:
        """Paths of its artifacts."""
        return ModelPaths(row_name(self.name), self.seed)


@dataclass(frozen=True)
class Classifier:
    """A run of CLLD by class."""

    classes: pd.DataFrame       # table classes
    confusion: np.ndarray       # number of texts (N, N), rows true, columns predicted
    distances: pd.DataFrame     # table label_distance of the model

    @property
    def names(self) -> list[str]:
        """Name of each class, by index."""
        return self.classes["class"].tolist()

    def confused(self, count: int) -> list[tuple[int, int]]:
        """Return the pairs of classes that are confused most often; equal counts in the order of classes."""
        both = self.confusion + self.confusion.T
        pairs = [(row, column) for row, column in np.argwhere(np.triu(both, 1)).tolist()]
        return sorted(pairs, key=lambda pair: -int(both[pair]))[:count]


@dataclass(frozen=True)
class Run:
    """A run of a model, by its name in results; ``decode`` are its overrides, ``predictions`` the first samples."""

    name: str
    track: str
    model: str
    dataset: str
    seed: int
    row: Row
    metrics: Mapping[str, Any]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    decode: Mapping[str, Any] = field(default_factory=dict)
    classifier: Classifier | None = None
    predictions: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def paths(self) -> RunPaths:
        """Paths of its artifacts."""
        return RunPaths(row_name(self.name), self.seed)


@dataclass(frozen=True)
class System:
    """A row of results; its ``kind`` is baseline, run (one seed) or seeds (a run under all its seeds)."""

    name: str
    kind: str
    values: Mapping[str, Value]
    runs: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    row: Row | None = None
    label: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: Sequence[PublishedRow] = ()

    @property
    def compared_as(self) -> str:
        """Its name in the comparison."""
        return f"{BASELINE}{self.name}" if self.kind == "baseline" else self.name

    @property
    def title(self) -> str:
        """Its name in tables; the small form of a pretrained model is marked as such."""
        return f"{self.name}: {self.label}" if self.row and SCRATCH in self.row.switches else self.name


@dataclass(frozen=True)
class Difference:
    """One system minus another on one metric, on the same items; see table ``paired``.

    ``over_seeds`` (the interval over items and seeds) is None for one seed; ``sign`` (0 if chance may explain the
    difference) is None for fewer than three seeds.
    """

    metric: Metric
    name: str
    base: str
    difference: float
    low: float
    high: float
    over_seeds: tuple[float, float] | None = None
    p_seeds: float | None = None
    sign: int | None = None

    @property
    def judged(self) -> bool:
        """Whether there are enough seeds for a verdict."""
        return self.sign is not None

    @property
    def verdict(self) -> int:
        """1 better, -1 worse, 0 if chance may explain it, if not judged, or for a metric without direction."""
        return (self.sign or 0) * self.metric.direction

    @property
    def over_items(self) -> int:
        """1 better, -1 worse, 0 if the interval over items includes zero: of these trainings, not of the methods."""
        return ((self.low > 0) - (self.high < 0)) * self.metric.direction

    def verdict_word(self, words: Mapping[int, str], start: str = "") -> str:
        """Return ``start`` and the word for the verdict; nothing below three seeds, which give no verdict."""
        return f"{start}{words[self.verdict]}" if self.judged else ""

    @property
    def ends(self) -> tuple[float, float]:
        """The interval over items and seeds; over items if there is one seed."""
        return self.over_seeds or (self.low, self.high)

    def turned(self) -> "Difference":
        """Return the other system minus this one."""
        return replace(
            self, name=self.base, base=self.name, difference=-self.difference, low=-self.high, high=-self.low,
            over_seeds=self.over_seeds and (-self.over_seeds[1], -self.over_seeds[0]),
            sign=None if self.sign is None else -self.sign)


@dataclass(frozen=True)
class Block:
    """Systems on the same items."""

    track: TrackResults
    dataset: str
    kind: str | None            # the data set's name among those of the papers; None for any other
    split: str
    counts: Mapping[str, Any]   # of the first run's evaluation, and so are the settings
    settings: Mapping[str, Any]
    baselines: list[System]
    runs: list[System]
    groups: list[System]        # runs of several seeds, as one system each
    paired: pd.DataFrame = field(default_factory=pd.DataFrame)
    strata: "Mapping[str, Block]" = field(default_factory=dict)     # the same systems on the items of each stratum

    @property
    def systems(self) -> list[System]:
        """Each run once, by the largest group that it belongs to, in the order of the params."""
        own = {run: group for group in self.groups for run in group.runs}
        return list({system.name: system for run in self.runs if (system := own.get(run.name, run))}.values())

    @property
    def lead(self) -> str:
        """The metric that leads."""
        return next(iter(self.settings.get("leading", [])), self.track.lead)

    @property
    def full(self) -> System | None:
        """The full method, with which others are compared; among several, the first without changed settings."""
        candidates = [system for system in self.systems if system.row == self.track.full]
        return min(candidates, key=lambda system: bool(system.changes), default=None)

    @property
    def measured(self) -> list[str]:
        """Keys of all metrics that any system has."""
        return list(dict.fromkeys(key for system in (*self.runs, *self.baselines) for key in system.values))

    def difference(self, name: str, base: str, key: str) -> Difference | None:
        """Return ``name`` minus ``base``, by their names in the comparison; None if they were not compared."""
        stored = self._differences.get((key, frozenset((name, base))))
        return stored if stored is None or stored.name == name else stored.turned()

    @cached_property
    def _differences(self) -> dict[tuple[str, frozenset[str]], Difference]:
        return {(row["metric"], frozenset((row["first"], row["second"]))): Difference(
            metric(row["metric"]), row["first"], row["second"], float(row["difference"]), float(row["low"]),
            float(row["high"]), **_of_seeds(row)) for row in self.paired.to_dict("records")}


@dataclass(frozen=True)
class Results:
    """All models and runs of a recipe."""

    recipe: str
    seed: int
    encoder: str
    models: list[Model]
    runs: list[Run]
    blocks: list[Block]


def _of_seeds(row: Mapping[str, Any]) -> dict[str, Any]:
    if pd.isna(row["low_seeds"]):
        return {}
    return {"over_seeds": (float(row["low_seeds"]), float(row["high_seeds"])), "p_seeds": float(row["p_seeds"]),
            "sign": None if pd.isna(row["verdict"]) else int(row["verdict"])}


def values_of(runs: Sequence[Mapping[str, Any]], intervals: Mapping[str, Any]) -> dict[str, Value]:
    """Return mean and standard deviation over ``runs`` of the metrics that all runs have, and their ``intervals``."""
    values_by_name = {}
    for name in runs[0]:
        values = [float(value) for run in runs if isinstance(value := run.get(name), int | float) and value == value]
        if len(values) == len(runs):
            sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
            values_by_name[name] = Value(float(np.mean(values)), sd, _interval(*intervals.get(name, (None, None))))
    return values_by_name


def compared_values(group: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Yield every metric of a system as the comparison has it."""
    for name, entry in group.items():
        if isinstance(entry, Mapping) and entry["mean"] is not None:
            yield name, Value(entry["mean"], entry.get("sd"), _interval(entry.get("low"), entry.get("high")))


def _interval(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (float(low), float(high))
