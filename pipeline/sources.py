"""Are the files that params name there? It is asked before any work."""

from pathlib import Path

from keycontrast.errors import InputError
from stages.common.paths import ARTIFACTS
from stages.ingest.files import data_files, published_splits
from stages.ingest.params import Dataset
from stages.params import Params
from stages.params.paths import named_paths


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
