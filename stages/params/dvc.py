"""Which places of ``params.yaml`` DVC reads by name, so that they must be there, whatever has a default."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stages.common.settings import stages_of_dvc

_NAMED = re.compile(r"\$\{([^}]+)\}")
Place = tuple[str, ...]


def left_out(content: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[Place, Any]:
    """Return what ``content`` leaves out of what ``dvc.yaml`` names, by its place, with the value that holds there.

    Args:
        content: params as they were read.
        whole: the same with every default, not resolved any further. A block of settings is ``{}`` where it is left
            out, since its defaults are code.
    """
    found = {}
    for place in _places(whole):
        if not _has(content, place) and place not in found:
            value = _at(whole, place)
            found[place] = {} if isinstance(value, Mapping) and len(place) == 1 else value
    return {place: value for place, value in found.items() if not any(place[:end] in found and found[place[:end]] != {}
                                                                      for end in range(1, len(place)))}


def _places(whole: Mapping[str, Any]) -> Iterator[Place]:
    """Yield the places in the order of ``dvc.yaml``."""
    for stage in stages_of_dvc().values():
        body, rows = stage.get("do", stage), stage.get("foreach")
        place = tuple(_NAMED.findall(rows)[0].split(".")) if rows else ()
        if rows:
            yield place
        for key in (_at(whole, place) if rows else [""]):
            for text in _texts(body):
                for name in _NAMED.findall(text):
                    first, _, inner = name.partition(".")
                    if first == "item" and inner:
                        yield (*place, key, *inner.split("."))
                    elif first not in ("key", "item"):
                        yield tuple(name.split("."))
            for name in body.get("params", ()):
                parts = []
                for part in re.sub(r"\$\{item\.(\w+)\}", r"<\1>", name).split("."):
                    own = re.fullmatch(r"<(\w+)>", part)
                    parts.append(_at(whole, (*place, key, own[1])) if own else
                                 key if part in ("${key}", "${item}") else part)
                yield tuple(parts)


def _texts(body: Mapping[str, Any]) -> Iterator[str]:
    yield body["cmd"]
    for kind in ("deps", "outs", "metrics", "plots"):
        for entry in body.get(kind, ()):
            yield next(iter(entry)) if isinstance(entry, Mapping) else entry


def _has(tree: Any, place: Place) -> bool:
    for part in place:
        if not isinstance(tree, Mapping) or part not in tree:
            return False
        tree = tree[part]
    return True


def _at(tree: Any, place: Place) -> Any:
    for part in place:
        tree = tree[part]
    return tree
