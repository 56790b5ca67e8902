"""Which revisions of the hub the params mean, and which the cache of this machine holds.

DVC sees none of that: a hub, and so its cache, may have another revision of a repository tomorrow under the same name.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_HUB, _COMMIT = "hub:", re.compile("@[0-9a-f]{40}$")


def unpinned(params: Mapping[str, Any]) -> dict[str, str]:
    """Return what plain params name of the hub without a commit, each with the first param that does.

    That is a repository's id, or one with a branch or tag (``ID@main``), which moves too.
    """
    found: dict[str, str] = {}
    for place, value in _texts(params, ""):
        if value.startswith(_HUB) and _COMMIT.search(value) is None:
            found.setdefault(value.removeprefix(_HUB), place)
    return found


def cached_commit(named: str) -> str | None:
    """Return the commit that the hub's cache here has of ``ID`` or ``ID@BRANCH``; None if it has none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    repository, _, branch = named.partition("@")
    try:
        return Path(snapshot_download(repository, revision=branch or None, local_files_only=True)).name
    except (OSError, HFValidationError):
        return None


def remarks(params: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each name of the hub without a commit: which one the cache has, and how to keep to it."""
    said = []
    for named, place in unpinned(params).items():
        repository, now = named.partition("@")[0], cached_commit(named)
        taken = "the hub's newest will be taken" if now is None else f"the cache here holds {now}"
        said.append(f"{place}: hub:{named} names no commit; {taken}. To keep to it: "
                    f"hub:{repository}@{now or 'COMMIT'}.")
    return said


def _texts(values: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield dotted name and value of every param that is a text."""
    if isinstance(values, str):
        yield place, values
    for name, value in values.items() if isinstance(values, Mapping) else ():
        yield from _texts(value, f"{place}.{name}" if place else name)
