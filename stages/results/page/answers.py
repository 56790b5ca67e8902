"""The answer of each results table in a sentence, and differences between systems with their intervals as pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from stages.metrics.registered import Metric, metric
from stages.metrics.resampling import VERDICT
from stages.results.model import BASELINE, BETTER, HELPS, Block, Difference, System
from stages.results.page.tables import number
from stages.results.track import TrackResults
from stages.results.tracks.clld import encoder_name
from stages.tracks.clld.tables import TWO_VIEWS

_WIDTH, _HEIGHT, _EDGE = 200, 20, 8     # of a picture, in pixels
_FAR = (f"{BASELINE}majority", f"{BASELINE}keyword")      # so far from the others that each gets a scale of its own
_DISTANCE = ("static_tau_pairs", "adaptive")
# A question, the rows in question, and the row that they are compared with.
QUESTIONS = (("Does the contrast help?", ("uniform",), "none"),
             ("Does the label distance help beyond it?", _DISTANCE, "uniform"),
             ("Do both together help?", _DISTANCE, "none"),
             ("Does another contrast help?", ("supcl_seq", "simcse"), "none"),
             ("Does a second view help without a contrast?", (TWO_VIEWS,), "none"),
             ("Does the contrast help beyond a second view?", ("uniform",), TWO_VIEWS),
             ("Do both together help beyond a second view?", _DISTANCE, TWO_VIEWS))
_COMPARED = {1: "better than", -1: "worse than", 0: "not clearly different from"}


@dataclass(frozen=True)
class DifferenceRow:
    """A difference as texts: its interval also as a picture, ``p`` of the t test over seeds, CSS class of a verdict."""

    signed: str
    interval: str
    p: str
    whisker: Markup
    words: str
    verdict: str


@dataclass(frozen=True)
class Step:
    """Two systems whose differences answer a question of ``QUESTIONS``; macro F1 may not have been compared."""

    system: System
    base: System
    encoder: str
    accuracy: DifferenceRow
    macro_f1: DifferenceRow | None


@dataclass(frozen=True)
class Answer:
    """A results table in a sentence, and the differences of its systems from ``base`` in the leading metric."""

    sentence: str
    base: str
    column: Metric
    differences: list[tuple[System, DifferenceRow]]
    few_seeds: bool


def answer(block: Block) -> Answer:
    """Return the answer of one table: the value of the full method, or of the first system, and who differs from it."""
    base, column = block.full or block.systems[0], metric(block.lead)
    compared = {system.name: (system, difference) for system in (*block.baselines, *block.systems) if system is not base
                and (difference := block.difference(system.compared_as, base.name, block.lead)) is not None}
    value, count = base.values.get(block.lead), int(block.counts.get("examples", 0))
    reached = f"reaches {number(value.mean, column.digits)} in {column.name}" if value else "was evaluated"
    sentence = "; ".join([f"{base.name} {reached}, on {count:,} {block.track.items}",
                          *_clauses(base, list(compared.values()), block.track)])
    shared_reach = _reach([item for _, item in compared.values() if item.name not in _FAR])
    rows = [(system, _row(difference, _reach([difference]) if difference.name in _FAR else shared_reach,
                          _verdict_words(system, base, difference, block.track)))
            for system, difference in compared.values()]
    return Answer(f"{sentence}.", base.name, column, rows, any(len(item.seeds) < VERDICT for item in block.systems))


def _clauses(base: System, compared: Sequence[tuple[System, Difference]], track: TrackResults) -> list[str]:
    """Return which parts of the method help, and which systems the base is better or worse than.

    Below three seeds, baselines are compared over items alone, as these trainings ended, and other rows not at all.
    """
    parts: dict[int, list[str]] = {1: [], -1: [], 0: []}
    others: dict[int, list[str]] = {1: [], -1: [], 0: []}
    for system, difference in compared:
        part = removed_part(system, base, track)
        name = f"{BASELINE}{system.name}" if system.kind == "baseline" else system.name
        if part and difference.judged:
            parts[-difference.verdict].append(part)
        elif difference.judged:
            others[-difference.verdict].append(name)
        elif system.kind == "baseline":
            others[-difference.over_items].append(name)
    return [*(f"{_listed(names)} {verb if len(names) == 1 else verbs}" for names, verb, verbs in (
        (parts[1], "helps", "help"), (parts[-1], "hurts", "hurt"),
        (parts[0], "has no clear effect", "have no clear effect")) if names),
        *(f"it is {word} {_listed(others[sign])}" for sign, word in _COMPARED.items() if others[sign])]


def _verdict_words(system: System, base: System, difference: Difference, track: TrackResults) -> str:
    """Return the verdict on a row in words; empty below three seeds."""
    part = removed_part(system, base, track)
    # The part that a row lacks helps if the row is worse.
    return difference.turned().verdict_word(HELPS, f"{part}: ") if part else difference.verdict_word(BETTER)


def removed_part(system: System, base: System, track: TrackResults) -> str:
    """Return the one part of the full method that ``system`` lacks, in words; empty if it differs otherwise."""
    if system.row is None or track.full is None or base.row != track.full:
        return ""
    parts = [track.names.part(switch) for switch in sorted(system.row.switches)]
    return parts[0] if system.row.architecture == track.full.architecture and len(parts) == 1 else ""


def step_tables(block: Block) -> list[tuple[str, list[Step]]]:
    """Return the effect of each step of CLLD on the texts of ``block``, by question; empty if none was compared."""
    measured = []
    for question, system, base in steps(block):
        accuracy, macro_f1 = (block.difference(system.name, base.name, key) for key in ("accuracy", "macro_f1"))
        if accuracy is not None:
            measured.append((question, system, base, accuracy, macro_f1))
    reach = _reach([part for *_, accuracy, macro_f1 in measured for part in (accuracy, macro_f1) if part is not None])
    tables: dict[str, list[Step]] = {}
    for question, system, base, accuracy, macro_f1 in measured:
        tables.setdefault(question, []).append(Step(
            system, base, encoder_name(system.settings["encoder"]), _row(accuracy, reach, accuracy.verdict_word(HELPS)),
            None if macro_f1 is None else _row(macro_f1, reach)))
    return list(tables.items())


def steps(block: Block) -> list[tuple[str, System, System]]:
    """Return the steps of ``block`` as question, system and base: by question, then in the order of systems."""
    candidates = [(question, system, _base(system, base, block.systems)) for question, rows, base in QUESTIONS
                  for system in block.systems if system.settings["kind"] in rows]
    return [(question, system, base) for question, system, base in candidates if base is not None]


def _base(system: System, row: str, systems: Sequence[System]) -> System | None:
    """Return the first system of ``row`` with the same settings, apart from those that ``row`` does not read."""
    unread = {"kind", "row", "pairs_of", "distance", *(() if row == "uniform" else ("contrast",)),
              *(("ce_views",) if TWO_VIEWS in (row, system.settings["kind"]) else ())}
    return next((other for other in systems if other.settings["kind"] == row
                 and _without(other.settings, unread) == _without(system.settings, unread)), None)


def _without(settings: Mapping[str, Any], unread: set[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in unread}


def _reach(differences: Sequence[Difference]) -> float:
    return max((abs(end) for d in differences for end in (*d.ends, d.difference)), default=0.0) or 1.0


def _row(difference: Difference, reach: float, words: str = "") -> DifferenceRow:
    digits = difference.metric.digits
    # Adding 0 turns the minus zero of a tiny difference into zero.
    signed, low, high = (f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "\u2212")
                         for value in (difference.difference, *difference.ends))
    picture = whisker(difference, reach, f"{difference.name}: {signed}, interval {low} to {high}")
    p = "–" if difference.p_seeds is None else "< 0.001" if difference.p_seeds < 0.001 else f"{difference.p_seeds:.3f}"
    verdict = f"{BETTER[difference.verdict]}-text" if difference.verdict else ""
    return DifferenceRow(signed, f"{low} to {high}", p, picture, words, verdict)


def whisker(difference: Difference, reach: float, text: str) -> Markup:
    """Return a dot with whiskers beside a line at zero; ``reach`` is the value at both edges."""
    def x(value: float) -> str:
        return f"{_WIDTH / 2 + value / reach * (_WIDTH / 2 - _EDGE):.1f}"

    centre, (low, high) = _HEIGHT // 2, difference.ends
    kind = {0: "unclear"}.get(difference.verdict, BETTER[difference.verdict])
    return Markup(
        f'<svg class="whisker {kind}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(text)}">'
        f'<path class="zero" d="M{_WIDTH // 2} 0V{_HEIGHT}"/>'
        f'<path d="M{x(low)} {centre}H{x(high)}M{x(low)} {centre - 4}v8M{x(high)} {centre - 4}v8"/>'
        f'<circle cx="{x(difference.difference)}" cy="{centre}" r="4"/></svg>')    # numbers of ours and escaped text


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
