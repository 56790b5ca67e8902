"""Data inside the page: compact JSON that no parser of HTML can take for markup, held to a number of bytes."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from markupsafe import Markup

Item = TypeVar("Item")

# What could end a script element, begin a comment, or end a line of older scripts.
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def json_text(data: Any) -> str:
    """Return ``data`` as JSON in one line; numbers that JSON does not know (NaN, infinities) become null."""
    return json.dumps(_known(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def json_markup(data: Any) -> Markup:
    """Return the content of an element ``<script type="application/json">``."""
    return Markup(json_text(data))      # nothing in it can be read as markup: see _ESCAPES


def size(data: Any) -> int:
    """Return the bytes that ``data`` takes in the page."""
    return len(json_text(data).encode())


def fitting(items: Sequence[Item], budget: int, made: Callable[[Item], Any]) -> list[Any]:
    """Return what is made of the first items, up to the one that would go beyond ``budget`` bytes."""
    found: list[Any] = []
    for item in items:
        data = made(item)
        budget -= size(data) + 1
        if budget < 0:
            break
        found.append(data)
    return found


def _known(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _known(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_known(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
