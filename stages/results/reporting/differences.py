"""Paired differences of each run from the first, and of CLLD's steps, with their intervals as small pictures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from stages.results.reporting.gather_clld import RowKind
from stages.results.reporting.labels import number
from stages.results.reporting.metric_columns import COLUMNS, Column, column
from stages.results.reporting.results import ResultBlock
from stages.results.reporting.steps import QUESTIONS, Step, exact_values, steps

_WIDTH, _HEIGHT, _EDGE = 200, 20, 8
# So far behind that beside it no other difference could be seen.
_FAR = ("floor majority",)
VERDICTS = {1: "helps", -1: "hurts", 0: "cannot be told"}
Exact = Mapping[frozenset[str], float]


@dataclass(frozen=True)
class Difference:
    """One system less the first one on one metric.

    Attributes:
        verdict: 1 better, -1 worse, 0 where the interval holds zero or the metric has no direction.
        values: of the system, of the first, their difference, its interval, p, and on accuracy the p of McNemar's
            exact test as ``exact`` (of several seeds, one each), as texts.
        difference: for sorting.
    """

    name: str
    verdict: int
    values: dict[str, str]
    difference: float
    whisker: Markup


@dataclass(frozen=True)
class DifferenceTable:
    """All systems against the first on one metric."""

    column: Column
    base: str
    items: int
    rows: list[Difference]

    @property
    def is_exact(self) -> bool:
        """Whether there is an exact test beside the bootstrap."""
        return any("exact" in row.values for row in self.rows)


@dataclass(frozen=True)
class StepRow:
    """One step of CLLD: its differences on accuracy and macro F1 (None if that was not compared)."""

    step: Step
    accuracy: Difference
    macro_f1: Difference | None

    @property
    def verdict(self) -> str:
        """What its accuracy says of what was added."""
        return VERDICTS[self.accuracy.verdict]


@dataclass(frozen=True)
class StepTable:
    """All steps that answer a question."""

    question: str
    rows: list[StepRow]


def exact_tests(exact: pd.DataFrame, label: str) -> Exact:
    """Return the p values of table ``mcnemar`` for one label, by pair of runs and floors."""
    rows = exact[exact["dataset"] == label] if len(exact) else exact
    return {frozenset((row["first"], row["second"])): float(row["p_value"]) for row in rows.to_dict("records")}


def step_tables(paired: pd.DataFrame, block: ResultBlock, kinds: Mapping[str, RowKind],
                exact: Exact) -> list[StepTable]:
    """Return what each step of CLLD adds on the texts of ``block``; none if its runs were not compared.

    Args:
        paired: table ``paired``.
        block: runs on the same texts.
        kinds: which row each run is.
        exact: from :func:`exact_tests`.
    """
    if paired.empty or not block.groups:
        return []
    systems = {name: kinds[runs[0]] for name, runs in block.pooled_systems.items() if runs[0] in kinds}
    rows = paired[paired["dataset"] == block.label]
    found = list(_step_rows(rows, block, steps(systems), exact))
    return [StepTable(question, own) for question, *_ in QUESTIONS
            if (own := [row for row in found if row.step.question == question])]


def _step_rows(rows: pd.DataFrame, block: ResultBlock, wanted: Sequence[Step], exact: Exact) -> Iterator[StepRow]:
    known: dict[tuple[str, frozenset[str]], dict[str, Any]] = {
        (row["metric"], frozenset((row["first"], row["second"]))): row for row in rows.to_dict("records")}
    turned = {(step.name, step.base_name, metric): _turned(known[key], step.base_name) for step in wanted
              for metric in ("accuracy", "macro_f1")
              if (key := (metric, frozenset((step.name, step.base_name)))) in known}
    reach = _reach(turned.values())
    for step in wanted:
        made = [None if (row := turned.get((step.name, step.base_name, metric))) is None
                else _difference(column(metric), row, reach, _exact_text(block, row["name"], step.base_name, exact)
                                 if metric == "accuracy" else "")
                for metric in ("accuracy", "macro_f1")]
        if made[0] is not None:
            yield StepRow(step, made[0], made[1])


def difference_tables(paired: pd.DataFrame, block: ResultBlock, exact: Exact | None = None) -> list[DifferenceTable]:
    """Return one table per metric of ``block``, the leading one first; none if its runs were not compared.

    Systems are compared with the first run. Runs that differ in their seed alone are taken together, as the
    comparison did: if the first run is one of them, all of them are what the others are compared with.

    Args:
        paired: table ``paired``.
        block: runs on the same examples.
        exact: from :func:`exact_tests`; None where there is no such test.
    """
    if paired.empty or not block.groups:
        return []
    pooled = {run: name for name, group in block.groups.items() if len(group["runs"]) > 1 for run in group["runs"]}
    base = pooled.get(block.runs[0], block.runs[0])
    rows = paired[(paired["dataset"] == block.label) & ((paired["first"] == base) | (paired["second"] == base))]
    others = [name for name in block.systems_in_order if name not in pooled and name not in (base, *_FAR)]
    order = [block.lead, *COLUMNS]
    metrics = sorted(dict.fromkeys(rows["metric"]), key=lambda key: order.index(key) if key in order else len(order))
    return [_table(column(metric), base, rows[rows["metric"] == metric], others, block,
                   exact if exact and metric == "accuracy" else {}) for metric in metrics]


def _table(metric: Column, base: str, rows: pd.DataFrame, others: Sequence[str], block: ResultBlock,
           exact: Exact) -> DifferenceTable:
    turned = [found for row in rows.to_dict("records") if (found := _turned(row, base))["name"] in others]
    turned.sort(key=lambda row: others.index(row["name"]))
    reach = _reach(turned)
    return DifferenceTable(metric, base, int(rows["items"].max()), [
        _difference(metric, row, reach, _exact_text(block, row["name"], base, exact)) for row in turned])


def _reach(rows: Iterable[Mapping[str, Any]]) -> float:
    return max((abs(row[end]) for row in rows for end in ("low", "high", "difference")), default=0.0) or 1.0


def _exact_text(block: ResultBlock, name: str, base: str, exact: Exact) -> str:
    """Return the p values of the exact test, one per seed that both have; empty without any."""
    found = exact_values(block.groups[name], block.groups[base], (name, base), exact) if exact else []
    return " · ".join(map(_p_text, found))


def _turned(row: dict[str, Any], base: str) -> dict[str, Any]:
    """Return a row of table ``paired`` as: some system less ``base``."""
    if row["second"] == base:
        return {"name": row["first"], "value": row["first_value"], "base_value": row["second_value"],
                **{key: float(row[key]) for key in ("difference", "low", "high", "p_value")}}
    return {"name": row["second"], "value": row["second_value"], "base_value": row["first_value"],
            "difference": -row["difference"], "low": -row["high"], "high": -row["low"], "p_value": row["p_value"]}


def _difference(metric: Column, row: Mapping[str, Any], reach: float, exact: str = "") -> Difference:
    side = 1 if row["low"] > 0 else -1 if row["high"] < 0 else 0
    verdict = side * metric.direction
    # Adding 0 turns a minus zero, which a tiny difference becomes, into zero.
    signed = {key: f"{round(row[key], metric.digits) + 0.0:+.{metric.digits}f}".replace("-", "\u2212")
              for key in ("difference", "low", "high")}
    values = {"value": number(float(row["value"]), metric.digits),
              "base": number(float(row["base_value"]), metric.digits), "difference": signed["difference"],
              "interval": f"{signed['low']} to {signed['high']}", "p": _p_text(row["p_value"]),
              **({"exact": exact} if exact else {})}
    described = f"{row['name']}: {values['difference']}, interval {values['interval']}"
    return Difference(row["name"], verdict, values, row["difference"],
                      whisker(row["low"], row["difference"], row["high"], reach, verdict, described))


def _p_text(value: float) -> str:
    return "–" if value != value else "< 0.001" if value < 0.001 else f"{value:.3f}"


def whisker(low: float, middle: float, high: float, reach: float, verdict: int, text: str) -> Markup:
    """Return a dot with whiskers around a line at zero; ``reach`` is what lies at both edges."""
    def x(value: float) -> str:
        return f"{_WIDTH / 2 + value / reach * (_WIDTH / 2 - _EDGE):.1f}"

    centre = _HEIGHT // 2
    kind = {1: "better", -1: "worse", 0: "unclear"}[verdict]
    return Markup(
        f'<svg class="whisker {kind}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(text)}">'
        f'<path class="zero" d="M{_WIDTH // 2} 0V{_HEIGHT}"/>'
        f'<path d="M{x(low)} {centre}H{x(high)}M{x(low)} {centre - 4}v8M{x(high)} {centre - 4}v8"/>'
        f'<circle cx="{x(middle)}" cy="{centre}" r="4"/></svg>')    # numbers of ours and escaped text
