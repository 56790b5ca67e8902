"""Maps that DVC makes stage instances from, filled in from what the params say elsewhere."""

from collections.abc import Collection, Mapping
from typing import Any

from stages.params.classifying import consulted
from stages.params.data import LABELLED_LAYOUTS


def with_names(content: Mapping[str, Any], datasets: Mapping[str, Any]) -> dict[str, Any]:
    """Return params as read, with the names of the data sets and models that each branch of the DAG is for.

    Args:
        content: the params.
        datasets: its block of that name.

    Raises:
        ValueError: such a map was given and names others.
    """
    paired = [name for name, dataset in datasets.items() if _value(dataset, "layout") not in LABELLED_LAYOUTS]
    models = _value(content, "models")
    maps = {
        "paired_datasets": (paired, "data sets that are no labelled texts"),
        "compared_datasets": ([name for name in paired if _value(datasets[name], "side_by_side") is not False],
                              "data sets of pairs whose side_by_side is not false"),
        "paraphrase_datasets": (_named(_value(models, "pgkpr"), datasets), "data sets that models.pgkpr names"),
        "keyword_datasets": ([name for name in datasets if _value(datasets[name], "keywords") is not False],
                             "data sets whose keywords is not false"),
        "classified_datasets": (_named(_value(models, "clld"), datasets), "data sets that models.clld names"),
        "consulted_models": (consulted(_value(models, "clld")), "models that pairs_of of models.clld names")}
    for name, (wanted, which) in maps.items():
        given = content.get(name)
        if isinstance(given, Mapping) and given and set(given) != set(wanted):
            raise ValueError(f"{name}: must name the {which} ({', '.join(wanted) or 'none'}); leave it out, and "
                             f"`keycontrast use` fills it in")
    return {**content, **{name: {one: {} for one in wanted} for name, (wanted, _) in maps.items()}}


def _named(models: Any, datasets: Collection[str]) -> list[str]:
    """Return the data sets that models name, in the order of ``datasets``."""
    named = [_value(model, "dataset") for model in models.values()] if isinstance(models, Mapping) else []
    return [name for name in datasets if name in named]


def _value(block: Any, name: str) -> Any:
    return block.get(name) if isinstance(block, Mapping) else None
