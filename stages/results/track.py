"""The part of the results that each track defines, in ``stages.results.tracks``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from stages.common.settings import Params
from stages.metrics.registered import METRICS, Family, Metric, metric
from stages.metrics.resampling import Statistic
from stages.results.published import PublishedRow, PublishedTable
from stages.tracks.common.track import Track

FEW = 8     # metrics that sum up a run
SCRATCH = "from scratch"    # the switch of a model that the paper has with pretrained weights, begun with random ones
ADDED = "with "     # begins the name of a switch that adds a part to the full method


@dataclass(frozen=True)
class TableLayout:
    """A table of results; ``brief`` if the table in a terminal may show its metrics."""

    title: str
    note: str
    groups: tuple[Family, ...]
    brief: bool = True

    @property
    def columns(self) -> list[Metric]:
        """Columns of all groups, from left to right."""
        return [column for group in self.groups for column in group.columns]


@dataclass(frozen=True)
class Question:
    """A question that training curves answer, and the pattern of their names; ``{contrasts}`` are the recorded ones."""

    title: str
    note: str
    pattern: str


@dataclass(frozen=True)
class Row:
    """The identity of a system: an architecture, and its differences from the full method as switches."""

    architecture: str
    switches: frozenset[str] = frozenset()


def unusual(settings: Mapping[str, Any], decode: Mapping[str, Any]) -> frozenset[str]:
    """Return switches for a model that trains for no epoch, and for the evaluation of a split other than test."""
    untrained = {"as it starts"} if settings.get("training", {}).get("epochs") == 0 else set()
    split = decode.get("split", "test")
    return frozenset(untrained | ({f"{split} split"} if split != "test" else set()))


@dataclass(frozen=True)
class Names:
    """The names of architectures, of parts that may be off, of other switches, and of single rows."""

    architectures: Mapping[str, str]
    parts: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[Row, str] = field(default_factory=dict)

    def part(self, switch: str) -> str:
        """Return the part that a switch turns off, in words; empty for any other switch."""
        return self.parts.get(switch) or (f"the {switch}" if switch.endswith(" contrast") else "")

    def label(self, row: Row) -> str:
        """Return the name of a row, such as "HCL without the graph"."""
        if row in self.rows:
            return self.rows[row]
        switches = sorted(row.switches)
        off = " and ".join(part for switch in switches if (part := self.part(switch)))
        added = " and ".join(f"the {switch.removeprefix(ADDED)}" for switch in switches if switch.startswith(ADDED))
        differs = " and ".join([f"without {off}"] * bool(off) + [f"with {added}"] * bool(added))
        others = [self.switches.get(switch, switch) for switch in switches
                  if not self.part(switch) and not switch.startswith(ADDED)]
        name = self.architectures.get(row.architecture, row.architecture)
        return ", ".join([f"{name} {differs}".rstrip(), *others])


@dataclass(frozen=True)
class Compared:
    """How runs are compared: columns of predictions, the column of scores that repeats ``predicted``, and metrics.

    ``statistics`` takes scores, predictions and the settings of the evaluation. ``exact`` adds McNemar's test.
    """

    inputs: str
    targets: str
    predicted: str
    answer: str
    statistics: Callable[[pd.DataFrame, pd.DataFrame, Mapping[str, Any]], dict[str, Statistic]]
    read: Sequence[str] | None = None
    exact: bool = False


@dataclass(frozen=True, kw_only=True)
class TrackResults(Track):
    """A track, that is one method with its ablations and baselines, as results show it."""

    method: str                                 # what it is, in words
    names: Names
    row: Callable[[Mapping[str, Any], Mapping[str, Any]], Row]      # from the settings of model and decoding
    full: Row | None                            # the full method; None if rows are compared step by step
    layouts: tuple[TableLayout, ...]
    reported: tuple[str, ...]                   # metrics of the paper, the leading one first, and related ones
    questions: tuple[Question, ...]             # groups of training curves
    published: tuple[PublishedTable, ...]
    printed_as: Callable[[Row], Sequence[str]]  # the names of a row in the paper
    data: str                                   # the paper's data sets, in words
    compared: Compared
    baselines: Mapping[str, str]                # each baseline with its meaning
    headline: str                               # title of the table in a terminal
    differs: str                                # differences from the paper's runs, in words
    further_settings: Callable[[Params, str], dict[str, Any]] = lambda params, model: {}    # beside the model's block
    named: Sequence[str] = ()                   # settings that name a model, beside its overrides
    remark: str = ""                            # on the published rows
    judged_by: tuple[str, str] = ("validation_loss", "validation loss")    # history column that judges an epoch, name
    items: str = "items"                        # what is evaluated
    many_keywords: bool = False                 # whether a source has several keywords, joined by spaces
    by_stratum: tuple[str, ...] = ()            # metrics shown for each stratum of the items
    curve_names: str = ""                       # part of the names of its curves

    def settings(self, params: Params, model: str) -> dict[str, Any]:
        """Return all settings of a model, nested like the params."""
        return params.model(model).plain() | self.further_settings(params, model)

    def decoding(self, params: Params, run: str) -> dict[str, Any]:
        """Return all settings of a run, nested like the params; for a classifier, only its split."""
        return {"split": self.runs(params)[run].split} if self.classifies else params.decoding(run).plain()

    @property
    def lead(self) -> str:
        """The leading metric if an evaluation names none."""
        return self.reported[0]

    @property
    def headlines(self) -> list[Metric]:
        """Metrics that sum up a run, the reported ones first."""
        further = {column.key for table in self.layouts if table.brief for column in table.columns if not column.detail}
        others = [column for key, column in METRICS.items() if key in further and key not in self.reported]
        return [column for column in (*map(metric, self.reported), *others) if column.short]

    def published_rows(self, row: Row, kind: str | None) -> list[PublishedRow]:
        """Return the published rows that correspond to a run, whatever its size; none for data that the paper lacks."""
        published_cells = [table.rows[name] for name in self.printed_as(row) for table in self.published
                           if table.kind == kind and name in table.rows]
        return list({cells.name: cells for cells in reversed(published_cells)}.values())[::-1]
