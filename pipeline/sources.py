"""What params name outside of the project, looked at before any work: files, their labels, revisions of the hub."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from keycontrast.errors import InputError
from stages.common.examples import structure_of
from stages.common.paths import ARTIFACTS
from stages.ingest.counts import few_labelled, source_counts
from stages.ingest.deduplicate import deduplicate
from stages.ingest.files import data_files, read_rows
from stages.ingest.sources import connected
from stages.params import Params
from stages.params.paths import named_paths

# Files that are soon read.
_SMALL = 20_000_000
_COMMIT = re.compile("@[0-9a-f]{40}$")


def label_remarks(params: Params) -> Iterator[str]:
    """Yield what there is to say of data sets whose labels are the source of negatives; large ones are not read."""
    for name, dataset in params.datasets.items():
        settings = params.ingest_settings(name)
        if structure_of(dataset.layout) == "pairs" and settings.neg_source == "labelled":
            try:
                if sum(file.path.stat().st_size for file in data_files(dataset)) <= _SMALL:
                    with TemporaryDirectory() as folder:
                        rows = deduplicate(read_rows(dataset), dataset, Path(folder), identity=settings.text_identity)
                        counts = source_counts(connected(rows, settings.split_by), settings)
                    yield from (f"{name}: {line}" for line in few_labelled(counts))
            except InputError as error:
                yield f"{name}: {error}"


def check_sources(params: Params, root: Path = Path()) -> None:
    """Make sure that the files of every data set, and what params name by path, are there, before any work."""
    problems = []
    for name, dataset in params.datasets.items():
        source = root / dataset.source
        if not source.exists():
            problems.append(f"datasets.{name}.source: {dataset.source} does not exist. Put the data there, or name "
                            f"its place: in params.yaml, or by `keycontrast use RECIPE --data FOLDER`.")
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


def hub_remarks(params: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each repository of the hub that plain params name without a commit.

    A branch or a tag (``ID@main``) moves, too, and DVC sees nothing of that. The sentence says which commit the cache
    of this machine has, and how to keep to it.
    """
    said = set[str]()
    for place, value in _texts(params, ""):
        if value.startswith("hub:") and _COMMIT.search(value) is None and value not in said:
            said.add(value)
            repository, _, branch = value.removeprefix("hub:").partition("@")
            now = _cached_commit(repository, branch)
            taken = f"the cache here holds {now}" if now else "the hub's newest will be taken"
            yield f"{place}: {value} names no commit; {taken}. To keep to it: hub:{repository}@{now or 'COMMIT'}."


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
