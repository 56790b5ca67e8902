"""Readable names and numbers."""

from collections.abc import Iterator, Mapping
from typing import Any

_WORDS = {"kl": "KL", "ce": "cross-entropy", "f1": "F1"}


def quantity_label(quantity: str) -> str:
    """Return a short readable name of a column of a training history."""
    return " ".join(_WORDS.get(word, word) for word in quantity.split("_"))


def number(value: float, digits: int = 3) -> str:
    """Return a number for people: thousands apart, ``digits`` decimals unless it is whole."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def percentage(share: float) -> str:
    """Return ``percentage(0.125) == "12.5\u00a0%"``, with a space that does not break."""
    return f"{100 * share:.1f}\u00a0%"


def value_text(value: Any) -> str:
    """Return the text of one value."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and 0 < abs(value) < 0.0005:
        return f"{value:.1e}"
    if isinstance(value, (int, float)):
        return number(value)
    return "none" if value is None else str(value)


def settings_text(changes: Mapping[str, Any]) -> str:
    """Return nested settings in one line: ``{"graph": {"iterations": 0}}`` gives ``graph.iterations = 0``."""
    return ", ".join(f"{name} = {value}" for name, value in _dotted(changes))


def _dotted(changes: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in changes.items():
        if isinstance(value, Mapping) and value:
            yield from _dotted(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
