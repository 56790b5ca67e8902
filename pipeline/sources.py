"""Are the files that params name there, and do their labels suffice? It is asked before any work."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from keycontrast.errors import InputError
from stages.common.examples import structure_of
from stages.common.paths import ARTIFACTS
from stages.ingest.counts import few_labelled, source_counts
from stages.ingest.deduplicate import deduplicate
from stages.ingest.files import data_files, published_splits, read_rows
from stages.ingest.params import Dataset, Ingest
from stages.ingest.sources import connected
from stages.params import Params
from stages.params.paths import named_paths

# Files that are soon read.
_SMALL = 20_000_000


def label_remarks(params: Params) -> Iterator[str]:
    """Yield what there is to say of data sets whose labels are the source of negatives; large ones are not read."""
    for name, dataset in params.datasets.items():
        settings = params.ingest_settings(name)
        if structure_of(dataset.layout) == "pairs" and settings.neg_source == "labelled":
            try:
                yield from (f"{name}: {line}" for line in _few_labelled(dataset, settings))
            except InputError as error:
                yield f"{name}: {error}"


def _few_labelled(dataset: Dataset, settings: Ingest) -> list[str]:
    if sum(path.stat().st_size for _, path in data_files(dataset)) > _SMALL:
        return []
    with TemporaryDirectory() as folder:
        rows = deduplicate(read_rows(dataset), dataset, Path(folder), identity=settings.text_identity)
        return few_labelled(source_counts(connected(rows, settings.split_by), settings))


def check_sources(params: Params, root: Path = Path()) -> None:
    """Make sure that the files of every data set, and what params name by path, are there, before any work.

    Raises:
        InputError: lists every source that is missing, and what is wrong with the files in each folder.
    """
    problems = []
    for name, dataset in params.datasets.items():
        source = root / dataset.source
        if not source.exists():
            problems.append(f"datasets.{name}.source: {dataset.source} does not exist. Put the data there, or name "
                            f"its place: in params.yaml, or by `keycontrast use RECIPE --data FOLDER`.")
        elif source.is_dir():
            problems += _wrong_files(name, dataset.model_copy(update={"source": str(source)}))
    problems += [f"{place}: {path} does not exist. Put it there, or name another."
                 for place, path in named_paths(params).items()
                 if not (root / path).exists() and ARTIFACTS not in Path(path).parents]
    if problems:
        raise InputError("\n".join(problems))


def _wrong_files(name: str, dataset: Dataset) -> list[str]:
    """Return what is wrong with the names of files, or with the files themselves, that data set ``name`` has."""
    try:
        data_files(dataset)
        published_splits(dataset)
    except InputError as error:
        return [f"datasets.{name}: {error}"]
    return []
