"""Code that several methods share. This module, without torch: ids of special tokens, settings as dataclasses."""

from dataclasses import field, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

# The first ids of each vocabulary of PGKPR.
PAD, UNK, BOS, EOS, SEP, NOK, MASK = range(7)
IGNORE = -100  # target at positions that are not to be predicted


def setting(default: Any, text: str | None = None, **bounds: float) -> Any:
    """Return a field with its help and bounds (``ge``, ``gt``, ``lt``, ``le``), from which params blocks are made."""
    return field(default=default, metadata={"help": text, **bounds})


def filled(default: Any, given: Any, place: str = "") -> Any:
    """Return ``default`` with the nested plain values ``given``; errors name a setting by ``place``, dotted.

    An unknown choice, or an unknown name, such as that of a setting of an earlier version, is a ValueError.
    """
    if is_dataclass(given):
        return given
    values, kinds = dict(given), get_type_hints(type(default))
    for name, value in given.items():
        where = f"{place}.{name}" if place else name
        if name not in kinds:
            raise ValueError(f"unknown setting {where}. A model that another version of Keycontrast has saved must be "
                             f"trained again")
        if (choices := _choices(kinds[name])) and value not in choices:
            raise ValueError(f"{where} is {value!r}, expected one of {', '.join(map(str, choices))}")
        if is_dataclass(getattr(default, name)):
            values[name] = filled(getattr(default, name), value or {}, where)
    return replace(default, **values)


def _choices(kind: Any) -> list[Any]:
    """Return the values of a ``Literal``, or of a union of one with ``bool``; empty for any other type."""
    named = [value for each in (kind, *get_args(kind)) if get_origin(each) is Literal for value in get_args(each)]
    return [False, True, *named] if named and bool in get_args(kind) else named
