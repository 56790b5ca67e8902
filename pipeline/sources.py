"""Checks of params before any work: the files that they name, and revisions of the Hugging Face hub."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keycontrast.errors import InputError
from stages.common.paths import ARTIFACTS
from stages.ingest.files import data_files
from stages.params import Params
from stages.params.paths import named_paths

_COMMIT = re.compile("@[0-9a-f]{40}$")


def check_sources(params: Params, root: Path = Path()) -> None:
    """Check the files of every data set and the paths in params; one error lists all problems."""
    problems = []
    for name, dataset in params.datasets.items():
        source = root / dataset.source
        if not source.exists():
            problems.append(f"datasets.{name}.source: {dataset.source} does not exist. Put the data there, or change "
                            f"the path in params.yaml or by `keycontrast use RECIPE --data FOLDER`.")
        elif source.is_dir():
            try:
                data_files(dataset.model_copy(update={"source": str(source)}))
            except InputError as error:
                problems.append(f"datasets.{name}: {error}")
    problems += [f"{place}: {path} does not exist. Put it there, or name another."
                 for place, path in named_paths(params).items()
                 if not (root / path).exists() and ARTIFACTS not in Path(path).parents]
    if problems:
        raise InputError("\n".join(problems))


def hub_warnings(params: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each hub repository that params name without a commit: DVC cannot see changes there."""
    seen = set[str]()
    for place, value in _texts(params, ""):
        if value.startswith("hub:") and _COMMIT.search(value) is None and value not in seen:
            seen.add(value)
            repository, _, branch = value.removeprefix("hub:").partition("@")
            now = _cached_commit(repository, branch)
            used = f"the cache here holds {now}" if now else "the hub's newest will be taken"
            yield f"{place}: {value} names no commit; {used}. To keep to it: hub:{repository}@{now or 'COMMIT'}."


def _cached_commit(repository: str, branch: str) -> str | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(repository, revision=branch or None, local_files_only=True)).name
    except (OSError, HFValidationError):
        return None


def _texts(values: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield dotted name and value of every param that is a text."""
    if isinstance(values, str):
        yield place, values
    for name, value in values.items() if isinstance(values, Mapping) else ():
        yield from _texts(value, f"{place}.{name}" if place else name)
