"""What of the results differs from track to track; each track fills it in, in ``stages.results.tracks``."""

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
    """A table of results; ``brief`` if a document has it too, and not the page alone."""

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
    """What several plots of training answer together, a note, and a pattern of the quantities that they show.

    In the pattern, ``{contrasts}`` stands for the names of the contrasts of which anything was recorded.
    """

    title: str
    note: str
    pattern: str


@dataclass(frozen=True)
class Row:
    """What a system is: an architecture, and the switches in which it differs from the full method."""

    architecture: str
    switches: frozenset[str] = frozenset()


def untrained(settings: Mapping[str, Any]) -> frozenset[str]:
    """Return the switch of a row of no epoch, which is what the others started from; nothing for others.

    >>> sorted(untrained({"training": {"epochs": 0}}))
    ['as it starts']

    Args:
        settings: of a model, nested like the block of its training.
    """
    return frozenset({"as it starts"} if settings.get("training", {}).get("epochs") == 0 else ())


@dataclass(frozen=True)
class Names:
    """What rows are called: architectures, parts that may be off, other switches, and rows with a name of their own."""

    architectures: Mapping[str, str]
    parts: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[Row, str] = field(default_factory=dict)

    def part(self, switch: str) -> str:
        """Return the part that a switch turns off, in words; empty for a switch of another kind."""
        is_contrast = switch.endswith(" contrast") and not switch.startswith(ADDED)
        return self.parts.get(switch) or (f"the {switch}" if is_contrast else "")

    def architecture(self, name: str) -> str:
        """Return what an architecture is called."""
        return self.architectures.get(name, name)

    def label(self, row: Row) -> str:
        """Return the name of a row.

        >>> Names({"hcl": "HCL"}, {"graph": "the graph"}).label(Row("hcl", frozenset({"graph"})))
        'HCL without the graph'
        """
        if row in self.rows:
            return self.rows[row]
        switches = sorted(row.switches)
        off = " and ".join(part for one in switches if (part := self.part(one)))
        added = " and ".join(f"the {one.removeprefix(ADDED)}" for one in switches if one.startswith(ADDED))
        differs = " and ".join([f"without {off}"] * bool(off) + [f"with {added}"] * bool(added))
        others = [self.switches.get(one, one) for one in switches if not self.part(one) and not one.startswith(ADDED)]
        return ", ".join([f"{self.architecture(row.architecture)} {differs}".rstrip(), *others])


@dataclass(frozen=True)
class Compared:
    """How runs are compared: columns of predictions, the column of scores that repeats ``predicted``, and metrics.

    ``statistics`` takes rows of scores, the predictions of the same items, and the settings of the evaluation; ``read``
    are the columns of predictions that are read (None: all); ``exact``: McNemar's test is made too.
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
    """A track, one method with its ablations and baselines, as results show it.

    Attributes:
        method: what it is.
        names: what its rows are called.
        further_settings: returns what all settings of a model hold beside that block with the model's overrides.
        named: settings of a model that say beside its overrides what it is.
        row: returns what a run is, from the settings of its model and its decoding.
        full: the row of the full method; None where rows are compared step by step.
        layouts: tables of results.
        reported: metrics that its paper reports, the leading one first, and those that go with them.
        scale: what these are multiplied by where the paper's unit is wanted.
        questions: groups of training curves.
        published: tables of the paper.
        printed_as: returns the names under which the paper has a row.
        data: data sets of the paper, for people.
        compared: how its runs are compared.
        floors: what each floor tells, for people.
        headline: title of the table in a terminal.
        differs: what differs from the paper's runs, for people.
        remark: a note on the published rows.
        judged_by: the column of the history that tells how good an epoch was, and its name.
        items: what is evaluated.
        many_keywords: whether a source has a set of keywords, stored joined by spaces, and not one.
        by_stratum: metrics that are shown for strata of the items; empty where items have none.
        curve_names: put into the names of its plots of curves.
    """

    method: str
    names: Names
    row: Callable[[Mapping[str, Any], Mapping[str, Any]], Row]
    full: Row | None
    layouts: tuple[TableLayout, ...]
    reported: tuple[str, ...]
    questions: tuple[Question, ...]
    published: tuple[PublishedTable, ...]
    printed_as: Callable[[Row], Sequence[str]]
    data: str
    compared: Compared
    floors: Mapping[str, str]
    headline: str
    differs: str
    further_settings: Callable[[Params, str], dict[str, Any]] = lambda params, model: {}
    named: Sequence[str] = ()
    scale: int = 1
    remark: str = ""
    judged_by: tuple[str, str] = ("validation_loss", "validation loss")
    items: str = "items"
    many_keywords: bool = False
    by_stratum: tuple[str, ...] = ()
    curve_names: str = ""

    def settings(self, params: Params, model: str) -> dict[str, Any]:
        """Return all settings of a model, nested like the params."""
        return params.model(model).plain() | self.further_settings(params, model)

    def decoding(self, params: Params, run: str) -> dict[str, Any]:
        """Return all settings of a run, likewise; of one that only classifies the split alone."""
        return {"split": self.runs(params)[run].split} if self.classifies else params.decoding(run).plain()

    @property
    def lead(self) -> str:
        """The metric that leads where an evaluation names none."""
        return self.reported[0]

    @property
    def further(self) -> list[Metric]:
        """Metrics that a document has beside the reported ones, one or more of every kind."""
        return [one for table in self.layouts if table.brief for one in table.columns
                if not one.detail and one.key not in self.reported]

    @property
    def headlines(self) -> list[Metric]:
        """Metrics that sum up a run, the reported ones first, as many as there is room for."""
        further = {one.key for one in self.further}
        return [one for one in (*map(metric, self.reported), *(one for one in METRICS.values() if one.key in further))
                if one.short]

    def heading(self, one: Metric) -> str:
        """Return the heading of a metric in a document: as the paper has it, where it has it."""
        return one.label if any(one.key in table.metrics for table in self.published) else one.name

    def published_rows(self, row: Row, kind: str | None) -> list[PublishedRow]:
        """Return the published rows that a run corresponds to, whatever its size; none on data that the paper lacks."""
        found = [table.rows[name] for name in self.printed_as(row) for table in self.published
                 if table.kind == kind and not table.human and name in table.rows]
        return list({one.name: one for one in reversed(found)}.values())[::-1]
