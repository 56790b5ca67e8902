"""The data set of a command: the one that it names, or the only one."""

from collections.abc import Sequence

from keycontrast.errors import InputError, nearest
from stages.common.paths import DATA, PARAMS, DatasetPaths

_MADE_BY = {"nodes": "graph", "phrase_nodes": "graph", "tokens": "annotate", "examples": "ingest"}


def datasets_with(kind: str) -> list[str]:
    """Return the data sets that have table ``kind``, sorted."""
    return sorted(path.name for path in DATA.glob("*") if DatasetPaths(path.name).table(kind).exists())


def in_force(names: Sequence[str]) -> list[str]:
    """Return the data sets of ``names`` in ``params.yaml``; all of them if it has none or cannot be read."""
    if len(names) < 2 or not PARAMS.exists():
        return list(names)
    from stages.params import load_params  # pydantic is slow to import

    try:
        known = load_params().datasets
    except InputError:
        return list(names)
    return [name for name in names if name in known] or list(names)


def dataset_with(kind: str, dataset: str | None) -> DatasetPaths:
    """Return the named data set, or the only one with table ``kind``; those of other recipes are left out."""
    names = datasets_with(kind)
    if dataset is not None:
        if dataset not in names:
            known = DatasetPaths(dataset).folder.is_dir()
            raise InputError(f"{DatasetPaths(dataset).table(kind)}: no such artifact; "
                             + (f"`keycontrast run {_MADE_BY.get(kind, kind)}@{dataset}` makes it, if the params have "
                                f"that stage for {dataset} (keywords.datasets, graph.datasets)." if known
                                else nearest(dataset, names)))
        return DatasetPaths(dataset)
    if not names:
        raise InputError(f"no data set has a table {kind} in {DATA}/; make it with `keycontrast run`. Commands "
                         f"work in the project's folder.")
    names = in_force(names)
    if len(names) > 1:
        raise InputError(f"several data sets have a table {kind}: {', '.join(names)}; choose with --dataset.")
    return DatasetPaths(names[0])
