"""Settings that saved models of earlier versions hold and the code no longer has."""

from collections.abc import Mapping
from typing import Any


def without_former(values: Mapping[str, Any], former: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Return the settings of a saved model without those that are gone, which must say what is always so now.

    Args:
        values: of ``config.json``, groups nested.
        former: what is gone, nested likewise, with the value that the code always uses now.
        place: of ``values``, for the error.

    Raises:
        ValueError: the model was made with another value.
    """
    kept = {}
    for name, value in values.items():
        if name not in former:
            kept[name] = value
        elif isinstance(former[name], Mapping):
            kept[name] = without_former(value or {}, former[name], f"{place}{name}.")
        elif (list(value) if isinstance(value, tuple) else value) != former[name]:
            raise ValueError(f"{place}{name} is {value!r}: the model was made by an earlier version of Keycontrast, "
                             f"and this one always has {former[name]!r}")
    return kept
