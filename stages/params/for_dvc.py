"""Maps that DVC makes stage instances from, filled in from what the params say elsewhere.

An instance exists only if something reads what it makes: a comparison that is switched on, a model, a run.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from stages.common.methods import METHODS, ON_DEMAND
from stages.ingest.layouts.registry import LAYOUTS, is_paired, structure_of
from stages.params.clld import consulted
from stages.params.data import Keywords
from stages.params.watched import blocks_watched

# Tables that are made and joined to the pairs of the PGKPR track only where a model or a run reads them, and what DVC
# watches in their place where none does; any file that always exists would do, but no two may be the same.
UNREAD = {"psi": "models/pgkpr/ianet.py", "s_tags": "models/keywords/s_tagger.py",
          "textrank": "stages/keywords/textrank.py"}
_COMPARED = {"psi", "s_tags"}   # those that a comparison makes, so that the pairs may as well have them
NO_OWN_ENCODER = "stages/psi/character_encoder.py"  # likewise, where the encoder is neither made here nor a folder


def with_names(content: Mapping[str, Any], datasets: Mapping[str, Any]) -> dict[str, Any]:
    """Return params as read, with the names of the data sets and models that each branch of the DAG is for.

    Args:
        content: the params.
        datasets: its block of that name.

    Raises:
        ValueError: such a map was given and is another one.
    """
    maps = _maps(content, datasets)
    for name, (wanted, which) in maps.items():
        given = content.get(name)
        if isinstance(given, Mapping) and set(given) != set(wanted):
            names = ", ".join(map(str, wanted)) or "none"     # as they were read, sound or not
            raise ValueError(f"{name}: must name the {which} ({names}); leave it out, and `keycontrast use` fills "
                             f"it in")
        if isinstance(given, Mapping) and any(given[one] and given[one] != wanted[one] for one in wanted):
            raise ValueError(f"{name}: must be {wanted}; leave it out, and `keycontrast use` fills it in")
    return {**content, **{name: wanted for name, (wanted, _) in maps.items()}}


def _maps(content: Mapping[str, Any], datasets: Mapping[str, Any]) -> dict[str, tuple[dict[str, Any], str]]:
    """Return each map with words for what it names."""
    models = _value(content, "models")
    paired = [name for name, dataset in datasets.items()
              if (layout := _layout(dataset)) is None or is_paired(layout)]
    plain = [name for name, dataset in datasets.items()
             if (layout := _layout(dataset)) is not None and structure_of(layout) == "texts"]
    compared = [name for name in paired if _value(datasets[name], "side_by_side") is True]
    paraphrased = _named(_value(models, "pgkpr"), datasets)
    read = {name: _read(content, name) for name in paraphrased}

    source = _value(_value(content, "encoder"), "source")
    kind, _, named = str(source).partition(":")
    own_encoder = named if kind == "characters" else None
    watched = f"artifacts/{named}/character_encoder" if own_encoder is not None else (
        named if kind == "path" else NO_OWN_ENCODER)

    keyworded = [name for name in datasets if _value(datasets[name], "keywords") is not False]
    named_by = {name: _named_by(content, name) for name in keyworded}

    def needed(table: str, among: list[str] = paired) -> list[str]:
        own = [name for name, method in named_by.items() if table == method]
        of_models = [name for name in paired if name in paraphrased and (table == "attribution" or table in read[name])]
        beside = compared if table not in METHODS or METHODS[table].compared else []
        return [name for name in among if name in {*own, *of_models, *beside}]

    def ranked(method: str) -> dict[str, Any]:
        found = needed(method, paired if METHODS[method].needs_pairs else keyworded)
        every = METHODS[method].ranks_phrases
        return {name: {"texts": "all" if every or named_by.get(name) == method else "sources"} for name in found}

    reading = "that a comparison (side_by_side), the block keywords or models.pgkpr reads"
    return {
        "own_encoders": ({"datasets": {} if own_encoder is None else {own_encoder: {}},
                          "watched": watched}, "encoder that `encoder.source` names"),
        "watched": (blocks_watched(content), "files and folders that params name"),
        "paired_datasets": (_empty(paired), "data sets that are no single texts"),
        "text_datasets": ({name: {"method": named_by[name]} for name in plain if name in named_by},
                          "data sets of plain texts"),
        "compared_datasets": (_empty(compared), "data sets of pairs whose side_by_side is true"),
        "ranked_datasets": ({name: ranked(name) for name in ON_DEMAND},
                            f"methods, and to each the data sets with a ranking {reading}"),
        "tagged_datasets": (_empty(needed("s_tags")), f"data sets of pairs with an S-Tagger {reading}"),
        "contrasted_datasets": (_empty(_named(_value(models, "hcl"), datasets)), "data sets that models.hcl names"),
        "paraphrase_datasets": (
            {name: _watched(name, read[name] | (_COMPARED if name in compared else set())) for name in paraphrased},
            "data sets that models.pgkpr names"),
        "keyword_datasets": ({name: {"method": method} for name, method in named_by.items()},
                             "data sets whose keywords is not false"),
        "classified_datasets": (_empty(_named(_value(models, "clld"), datasets)), "data sets that models.clld names"),
        "consulted_models": (_empty(consulted(_value(models, "clld"))), "models that pairs_of of models.clld names")}


def _layout(dataset: Any) -> str | None:
    """Return the name of its layout, if it names one that there is."""
    named = str(_value(dataset, "layout"))
    return named if named in LAYOUTS else None


def _named_by(content: Mapping[str, Any], dataset: str) -> str:
    """Return the method that names the keywords of ``dataset``."""
    block = _value(content, "keywords")
    every = _over(_value(block, "method"), Keywords.model_fields["method"].default)
    return _over(_value(_value(block, "by_dataset"), dataset), every)


def _read(content: Mapping[str, Any], dataset: str) -> set[str]:
    """Return which of the tables in ``UNREAD`` a model of the PGKPR track on ``dataset``, or a run of it, reads."""
    own_models = {name: model for name, model in _entries(content, "models") if _value(model, "dataset") == dataset}
    block, decoding = _value(content, "train_pgkpr"), _value(content, "generate_pgkpr")
    sources = set()
    for model in own_models.values():
        own = _value(model, "overrides")
        sources.add(_over(_value(own, "architecture"), _value(block, "architecture")))
        sources.add(_over(_value(_value(own, "keywords"), "by"), _value(_value(block, "keywords"), "by")))
    sources |= {_over(_value(_value(run, "decode"), "keywords"), _value(decoding, "keywords"))
                for _, run in _entries(content, "runs") if str(_value(run, "model")) in own_models}
    found = ({"s_tags", "psi"} if "s_tagger" in sources else set()) | (sources & {"textrank"})
    return found | ({"psi"} if sources & {"ianet", "psi", "psi_xx", "psi_xy"} else set())


def _entries(content: Mapping[str, Any], block: str) -> Iterator[tuple[str, Any]]:
    """Yield name and content of each model, or run, of the PGKPR track."""
    entries = _value(_value(content, block), "pgkpr")
    if isinstance(entries, Mapping):
        yield from entries.items()


def _watched(dataset: str, read: Collection[str]) -> dict[str, str]:
    return {table: f"artifacts/{dataset}/{table}.parquet" if table in read else unread
            for table, unread in UNREAD.items()}


def _named(models: Any, datasets: Collection[str]) -> list[str]:
    """Return the data sets that models name, in the order of ``datasets``."""
    named = [_value(model, "dataset") for model in models.values()] if isinstance(models, Mapping) else []
    return [name for name in datasets if name in named]


def _empty(names: Iterable[str]) -> dict[str, Any]:
    return {name: {} for name in names}


def _over(own: Any, block: Any) -> str:
    return str(block if own is None else own)


def _value(block: Any, name: str) -> Any:
    return block.get(name) if isinstance(block, Mapping) else None
