"""What each part of a method is worth: differences of the full method from every other row, as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.markdown import escaped, table
from pipeline.results_material import Evaluated, System
from pipeline.results_tracks import NOTHING, Track

_VERDICTS = ("helps", "hurts", "cannot be told")
_LESS_IS_BETTER = frozenset({"source_bleu"})


def worth(evaluated: Evaluated, level: float) -> list[str]:
    """Return what each row's difference from the full method says of the part that the row does without.

    A part helps on a metric if the interval of full method minus row lies above 0 (below, where less is better),
    it hurts if it lies on the other side, and otherwise that cannot be told at this size.
    """
    base, track = evaluated.base, evaluated.track
    others = [system for system in evaluated.systems if system is not base]
    if base is None:
        return ["No row is the full method, so that there is nothing to compare the others with."]
    rows, details = [], []
    for system in others:
        part = system.without or "the setting of the full method"
        found = _differences(evaluated, base.name, system.name)
        details += [_detail(system.name, row, track) for row in found]
        rows.append([escaped(system.name), part, *_said(found, track), _relative(system, base, track),
                     _paper_relative(system, base, track)])
    lines = [*_rule(base, evaluated, level, len(details)), *_against_floors(evaluated, base)]
    if not rows:
        return lines
    heads = ["row", "what it leaves out", "helps on", "hurts on", "cannot be told at this size",
             f"{track.relative.heading}, relative", "in the paper"]
    detail_heads = ["row", "metric", escaped(base.name), "row", "difference", f"{100 * level:g} % interval", "p",
                    "what it leaves out"]
    return [*lines, "", *table(heads, rows, left=5), "",
            "<details><summary>Every difference, with its interval and p</summary>", "",
            *table(detail_heads, details, left=2), "", "</details>"]


def _rule(base: System, evaluated: Evaluated, level: float, intervals: int) -> list[str]:
    items = evaluated.counts.get("examples", 0)
    return [f"**{escaped(base.name)}** minus each row on the same {items:,} items, paired bootstrap. The rule: what a "
            f"row leaves out *helps* on a metric if the {100 * level:g} % interval of the difference excludes 0 in its "
            "favour, it *hurts* if the interval excludes 0 the other way, and otherwise it *cannot be told at this "
            f"size*. Of {intervals} intervals about {round((1 - level) * intervals)} would exclude 0 by chance alone. "
            "Source BLEU counts as better where it is lower. Items are resampled and trained models stay as they are: "
            "a difference within the standard deviation over seeds may be one of seeds."]


def _against_floors(evaluated: Evaluated, base: System) -> list[str]:
    """Return on which metrics the full method is better than outputs that need no model."""
    rows = [[f"*floor: {escaped(floor.name)}*", *_said(found, evaluated.track)] for floor in evaluated.floors
            if (found := _differences(evaluated, base.name, f"floor {floor.name}"))]
    heads = ["", f"{escaped(base.name)} is better on", "worse on", "cannot be told at this size"]
    return ["", *table(heads, rows, left=4)] if rows else []


def _said(found: Sequence[Mapping[str, Any]], track: Track) -> list[str]:
    """Return the metrics by verdict: for the first system, against it, and not to be told."""
    if not found:
        return [NOTHING, NOTHING, "(not compared)"]
    by_verdict = ([track.heading(row["metric"]).heading for row in found if _verdict(row) == verdict]
                  for verdict in _VERDICTS)
    return [", ".join(names) or NOTHING for names in by_verdict]


def _relative(system: System, base: System, track: Track) -> str:
    """Return BLEU-1 of a row relative to the full method's, in per cent, as HCL's paper gives its drops."""
    mine, full = (one.values.get(track.relative.key) for one in (system, base))
    return NOTHING if mine is None or full is None or not full.mean else f"{100 * (mine.mean / full.mean - 1):+.1f} %"


def _paper_relative(system: System, base: System, track: Track) -> str:
    row, full = system.published, base.published
    if row is None or full is None or (track.told is not None and row.name not in track.told):
        return NOTHING
    mine, best = (one.cells[track.relative.key].value for one in (row, full))
    return f"{100 * (mine / best - 1):+.1f} %"


def _differences(evaluated: Evaluated, base: str, other: str) -> list[dict[str, Any]]:
    """Return ``base`` minus ``other`` on each metric of the track that was compared."""
    kept = {}
    paired: pd.DataFrame = evaluated.paired
    for row in paired.to_dict("records"):
        if {row["first"], row["second"]} != {base, other}:
            continue
        if row["first"] == other:
            row |= {"first_value": row["second_value"], "second_value": row["first_value"],
                    "difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
        kept[row["metric"]] = row
    return [kept[key] for key in evaluated.track.compared if key in kept]


def _verdict(row: Mapping[str, Any]) -> str:
    if row["low"] > 0 or row["high"] < 0:
        return _VERDICTS[0] if (row["low"] > 0) != (row["metric"] in _LESS_IS_BETTER) else _VERDICTS[1]
    return _VERDICTS[2]


def _detail(name: str, row: Mapping[str, Any], track: Track) -> list[str]:
    column = track.heading(row["metric"])
    p = "< 0.001" if row["p_value"] < 0.001 else f"{row['p_value']:.3f}"
    first, second = (f"{column.scale * row[key]:.{column.digits}f}" for key in ("first_value", "second_value"))
    difference, low, high = (f"{column.scale * row[key]:+.{column.digits}f}" for key in ("difference", "low", "high"))
    return [escaped(name), column.heading, first, second, difference, f"{low} to {high}", p, _verdict(row)]
