"""Presets: one name that sets many switches of a params block at once."""

from collections.abc import Iterator, Mapping
from typing import Any

from stages.common.settings import laid_over

Presets = Mapping[str, Mapping[str, Any]]


def filled(content: Any, presets: Presets) -> Any:
    """Return ``content`` of a block with the switches of its ``preset`` filled in, for a validator that runs before.

    Args:
        content: as it was read; anything but a mapping with a known ``preset`` comes back unchanged, for the block
            to judge.
        presets: switches and their values by preset, nested like the block.

    Raises:
        ValueError: a switch beside the preset has another value; names all of them.
    """
    preset = content.get("preset") if isinstance(content, Mapping) else None
    if not isinstance(preset, str) or preset not in presets:
        return content
    clashes = list(_clashes(content, presets[preset], ""))
    if clashes:
        raise ValueError(f"preset {preset} contradicts {len(clashes)} of the switches beside it: "
                         f"{'; '.join(clashes)}. Take these out, or set preset to null.")
    return laid_over(presets[preset], content)


def beneath(block: Mapping[str, Any], overrides: Mapping[str, Any], presets: Presets) -> dict[str, Any]:
    """Return the values of ``block`` for a model's ``overrides`` to be laid over, with the switches of their preset.

    Args:
        block: plain values of a block, with a ``preset``.
        overrides: nested like the block; with ``preset`` null they go over switches that the block's preset has set.
        presets: switches and their values by preset, nested like the block.

    Raises:
        ValueError: the preset is the block's, and the overrides contradict it; names all switches that do.
    """
    preset = block["preset"]
    clashes = [] if preset is None or "preset" in overrides else list(_clashes(overrides, presets[preset], ""))
    if clashes:
        raise ValueError(f"preset {preset} of all models contradicts {len(clashes)} of the switches here: "
                         f"{'; '.join(clashes)}. Add `preset: null` to these overrides, and they change the preset's "
                         f"switches for this model; or take them out.")
    return laid_over(block, presets.get(str(overrides.get("preset")), {}))


def _clashes(content: Mapping[str, Any], switches: Mapping[str, Any], place: str) -> Iterator[str]:
    for name, value in switches.items():
        if name not in content:
            continue
        given = content[name]
        if isinstance(value, Mapping) and isinstance(given, Mapping):
            yield from _clashes(given, value, f"{place}{name}.")
        elif not isinstance(value, Mapping) and given != value:
            yield f"{place}{name} is {given!r} where the preset has {value!r}"
