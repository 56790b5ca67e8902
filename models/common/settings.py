"""Settings as frozen dataclasses: their fields, from which params blocks are made, and their values from plain ones."""

from dataclasses import field, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints


def setting(default: Any, text: str | None = None, **bounds: float) -> Any:
    """Return a field with its help and bounds (``ge``, ``gt``, ``lt``, ``le``), from which params blocks are made."""
    return field(default=default, metadata={"help": text, **bounds})


def filled(default: Any, given: Any, place: str = "") -> Any:
    """Return settings like ``default`` with the plain values ``given``, nested; ``place`` is their dotted name.

    Raises:
        ValueError: a name or a choice is unknown.
    """
    if is_dataclass(given):
        return given
    values, kinds = dict(given), get_type_hints(type(default))
    for name, value in values.items():
        where = f"{place}.{name}" if place else name
        if name not in kinds:
            raise ValueError(f"unknown setting {where}")
        if get_origin(kinds[name]) is Literal and value not in get_args(kinds[name]):
            raise ValueError(f"{where} is {value!r}, expected one of {', '.join(get_args(kinds[name]))}")
        if is_dataclass(getattr(default, name)):
            values[name] = filled(getattr(default, name), value or {}, where)
    return replace(default, **values)
