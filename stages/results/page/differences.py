"""Differences between systems, and what each step of CLLD adds, with their intervals as small pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from stages.results.classifiers import QUESTIONS, Step, steps
from stages.results.model import BETTER, FLOOR, HELPS, Block, Difference
from stages.results.page.labels import number

_WIDTH, _HEIGHT, _EDGE = 200, 20, 8
# So far behind that beside it no other difference could be seen.
_FAR = (f"{FLOOR}majority",)


@dataclass(frozen=True)
class DifferenceRow:
    """A difference as texts: itself, its interval, tests; a picture.

    The interval is over items and seeds, or over items where there is one seed; ``p`` is over items, ``p_seeds`` over
    seeds, ``seen`` the difference that so many seeds and items would find.
    """

    difference: Difference
    signed: str
    interval: str
    p: str
    p_seeds: str
    seen: str
    exact: str
    whisker: Markup

    @property
    def verdict(self) -> str:
        """Class of text of its verdict; empty where that cannot be told."""
        return {0: ""}.get(self.difference.verdict, f"{BETTER[self.difference.verdict]}-text")


@dataclass(frozen=True)
class StepRow:
    """One step of CLLD: its differences on accuracy and macro F1 (None if that was not compared)."""

    step: Step
    accuracy: DifferenceRow
    macro_f1: DifferenceRow | None

    @property
    def verdict(self) -> str:
        """What its accuracy says of what was added."""
        return self.step.accuracy.said(HELPS)


def step_tables(block: Block) -> list[tuple[str, list[StepRow]]]:
    """Return what each step of CLLD adds on the texts of ``block``, by question; nothing if none was compared."""
    found = steps(block)
    reach = _reach([one for step in found for one in (step.accuracy, step.macro_f1) if one is not None])
    rows = [StepRow(step, _row(step.accuracy, reach),
                    None if step.macro_f1 is None else _row(step.macro_f1, reach)) for step in found]
    return [(question, own) for question, *_ in QUESTIONS if (own := [row for row in rows
                                                                      if row.step.question == question])]


def difference_rows(found: Mapping[str, Difference]) -> dict[str, DifferenceRow]:
    """Return differences as texts, their pictures on one scale; those that would hide the others beside them alone."""
    near = _reach([one for one in found.values() if one.name not in _FAR])
    return {name: _row(one, _reach([one]) if one.name in _FAR else near) for name, one in found.items()}


def _reach(differences: Sequence[Difference]) -> float:
    return max((abs(end) for one in differences for end in (*one.ends, one.difference)), default=0.0) or 1.0


def _row(one: Difference, reach: float) -> DifferenceRow:
    digits = one.metric.digits
    # Adding 0 turns a minus zero, which a tiny difference becomes, into zero.
    signed, low, high = (f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "\u2212")
                         for value in (one.difference, *one.ends))
    picture = whisker(one, reach, f"{one.name}: {signed}, interval {low} to {high}")
    p_seeds = "one seed" if one.p_seeds is None else _p_text(one.p_seeds)
    seen = "–" if one.detectable is None else number(one.detectable, digits)
    return DifferenceRow(one, signed, f"{low} to {high}", _p_text(one.p_value), p_seeds, seen,
                         " · ".join(map(_p_text, one.exact)), picture)


def _p_text(value: float) -> str:
    return "–" if value != value else "< 0.001" if value < 0.001 else f"{value:.3f}"


def whisker(one: Difference, reach: float, text: str) -> Markup:
    """Return a dot with whiskers around a line at zero; ``reach`` is what lies at both edges."""
    def x(value: float) -> str:
        return f"{_WIDTH / 2 + value / reach * (_WIDTH / 2 - _EDGE):.1f}"

    centre, (low, high) = _HEIGHT // 2, one.ends
    kind = {0: "unclear"}.get(one.verdict, BETTER[one.verdict])
    return Markup(
        f'<svg class="whisker {kind}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(text)}">'
        f'<path class="zero" d="M{_WIDTH // 2} 0V{_HEIGHT}"/>'
        f'<path d="M{x(low)} {centre}H{x(high)}M{x(low)} {centre - 4}v8M{x(high)} {centre - 4}v8"/>'
        f'<circle cx="{x(one.difference)}" cy="{centre}" r="4"/></svg>')    # numbers of ours and escaped text
