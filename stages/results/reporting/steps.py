"""What each step of CLLD adds: contrast to cross-entropy, label distance to contrast; and what other contrasts add."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.results.reporting.gather_clld import RowKind

_DISTANCE = ("static_tau_pairs", "static_tau_all", "adaptive")
# Question; rows that are asked about; the row that they are compared with.
QUESTIONS = (("Does the contrast help?", ("uniform",), "none"),
             ("Does the label distance help beyond it?", _DISTANCE, "uniform"),
             ("Do both together help?", _DISTANCE, "none"),
             ("Does another contrast help?", ("supcl_seq", "simcse"), "none"))


@dataclass(frozen=True)
class Step:
    """Two systems whose difference answers a question.

    Attributes:
        question: see ``QUESTIONS``.
        encoder: of both, for people.
        row, base: their rows in print.
        name, base_name: their names in the comparison.
    """

    question: str
    encoder: str
    row: str
    base: str
    name: str
    base_name: str


def steps(kinds: Mapping[str, RowKind]) -> list[Step]:
    """Return the steps that can be told from these systems, by question, then in their order.

    A system is compared with the first one of the other row that has the same encoder and the same settings but for
    those that the other row does not read.

    Args:
        kinds: by the name of a system, which may be several runs that differ in their seed.
    """
    found = []
    for question, rows, base_row in QUESTIONS:
        for name, kind in kinds.items():
            base = _base(kind, base_row, kinds) if kind.contrast in rows else None
            if base is not None:
                found.append(Step(question, kind.encoder_name, kind.label, kinds[base].label, name, base))
    return found


def _base(kind: RowKind, row: str, kinds: Mapping[str, RowKind]) -> str | None:
    unread = {"distance"} if row == "uniform" else {"distance", "contrast"}
    return next((name for name, other in kinds.items() if other.contrast == row and other.encoder == kind.encoder
                 and _without(other.settings, unread) == _without(kind.settings, unread)), None)


def _without(settings: Mapping[str, Any], unread: set[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in unread}


def exact_values(one: Mapping[str, Any], other: Mapping[str, Any], names: tuple[str, str],
                 exact: Mapping[frozenset[str], float]) -> list[float]:
    """Return the p values of McNemar's exact test between two systems: one per seed that both have.

    Args:
        one, other: systems of the comparison: ``runs`` and ``seeds``; a floor has neither.
        names: of both in the comparison.
        exact: p by pair of runs and floors.

    Returns:
        In the order of the seeds of ``one``; against a floor, one per run. Empty where nothing was tested.
    """
    pairs = [(a, b) for a, seed in _members(one, names[0]) for b, its in _members(other, names[1])
             if seed is None or its is None or seed == its]
    return [exact[frozenset(pair)] for pair in pairs if frozenset(pair) in exact]


def _members(system: Mapping[str, Any], name: str) -> Sequence[tuple[str, int | None]]:
    return list(zip(system["runs"], system["seeds"], strict=True)) if system["runs"] else [(name, None)]
