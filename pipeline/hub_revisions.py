"""Which revisions of the hub the params mean, which the cache of this machine holds, which artifacts were made with.

DVC sees none of that: a hub, and so its cache, may have another revision of a repository tomorrow under the same name.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from keycontrast.errors import InputError
from stages.common.paths import ARTIFACTS
from stages.common.tables import read_metadata

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


def made_with(repositories: Collection[str], root: Path = Path()) -> dict[str, dict[str, list[str]]]:
    """Return by repository and commit the stage instances whose tables say that they were made with it, sorted.

    What a stage has read from another one's tables is said in its own too.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for path in sorted((root / ARTIFACTS).rglob("*.parquet")):
        try:
            metadata = read_metadata(path)
        except InputError:      # a damaged file, which `keycontrast verify` and the stage that reads it name
            continue
        for name, version in _described(metadata.get("models")):
            if name in repositories:
                found.setdefault(name, {}).setdefault(version, set()).add(str(metadata["stage"]))
    return {name: {version: sorted(stages) for version, stages in sorted(versions.items())}
            for name, versions in found.items()}


def remarks(params: Mapping[str, Any], root: Path = Path()) -> list[str]:
    """Return a sentence for each name of the hub without a commit: which one the cache has, and how to keep to it.

    Another one for each other commit that artifacts here were made with.
    """
    found = unpinned(params)
    made = made_with({named.partition("@")[0] for named in found}, root) if found else {}
    said = []
    for named, place in found.items():
        repository, now = named.partition("@")[0], cached_commit(named)
        if now is None:
            said.append(f"{place}: hub:{named} names no commit, and the hub's newest will be taken. To keep to one: "
                        f"hub:{repository}@COMMIT.")
            continue
        said.append(f"{place}: hub:{named} names no commit; the cache here holds {now}. To keep to it: "
                    f"hub:{repository}@{now}.")
        said += [f"{place}: {', '.join(stages)} read commit {before} of hub:{named}, not {now}, and DVC sees no "
                 f"change. Make them anew (`keycontrast stage NAME --force`), or go back: hub:{repository}@{before}."
                 for before, stages in made.get(repository, {}).items() if before != now]
    return said


def _texts(values: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield dotted name and value of every param that is a text."""
    if isinstance(values, str):
        yield place, values
    for name, value in values.items() if isinstance(values, Mapping) else ():
        yield from _texts(value, f"{place}.{name}" if place else name)


def _described(values: Any) -> Iterator[tuple[str, str]]:
    """Yield name and version of every model that metadata describe, however deep."""
    if isinstance(values, Mapping):
        if isinstance(values.get("name"), str) and isinstance(values.get("version"), str):
            yield values["name"], values["version"]
        for value in values.values():
            yield from _described(value)
