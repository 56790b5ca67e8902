"""What the blocks of a track must have in common, which no block sees by itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keycontrast.errors import nearest
from stages.common.paths import CONFUSED, DatasetPaths
from stages.common.settings import NOTHING, earlier_model, laid_over

if TYPE_CHECKING:
    from stages.params.root import Params
    from stages.tracks.clld.params import ClldModel, TrainClld
    from stages.tracks.hcl.params import HclModel, TrainHcl
    from stages.tracks.pgkpr.params import GeneratePgkpr, PgkprModel, PgkprRun, TrainPgkpr

# Architectures of the HCL track that have the weights of another, which they may go on from too.
_TRAINED_OTHERWISE = {"group_wise": "transformer", "t5_claps": "t5"}


@dataclass(frozen=True)
class TrackChecks:
    """What is looked for in the params of a track; each fault would stop a stage hours after others have run.

    Attributes:
        labelled: its models are of labelled texts, and not of pairs.
        earlier: how a model names one that is trained before.
        track: returns what is wrong with the track as a whole.
        model: likewise with a model, given its name, its entry and its settings.
        run: likewise with a run, given its name, its entry, its decoding and the settings of its model.
    """

    labelled: bool = False
    track: Callable[["Params"], list[str]] = lambda params: []
    model: Callable[[str, Any, Any], list[str]] = lambda name, model, settings: []
    run: Callable[[str, Any, Any, Any], list[str]] = lambda name, run, decoding, settings: []


def _beginnings(track: str, models: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the models that others of a track start from: unknown, or going in circles."""
    named = {name: other for name, model in models.items() if (other := earlier_model(model)) is not None}
    problems = [f"models.{track}.{name}.init: no model {other!r}; {nearest(other, models)}"
                for name, other in named.items() if other not in models]
    for name in models:
        seen: set[str] = set()
        start = named.get(name)
        while start in named and start not in seen:
            seen.add(start)
            start = named[start]
        if name in seen or start == name:
            problems.append(f"models.{track}.{name}.init: the model would start from itself, by way of {named[name]}; "
                            f"take one of them out of the circle")
    return problems


def _of_hcl(params: "Params") -> list[str]:
    """Return what is wrong with the models that others start from: unknown, going in circles, of another kind."""
    models = params.models.hcl
    problems = _beginnings("hcl", models)
    kinds = {name: str(model.overrides.get("architecture", params.train_hcl.architecture))
             for name, model in models.items()}
    for name, model in models.items():
        other = earlier_model(model)
        settings = laid_over(params.train_hcl.plain(), model.overrides).get(kinds[name])
        if kinds[name] != "hcl" and other is None and model.init != NOTHING and not (
                isinstance(settings, dict) and settings.get("source") == "path"):
            problems.append(f"models.hcl.{name}.init: {model.init} is a start of architecture hcl, and this row is of "
                            f"architecture {kinds[name]}; name a model of its own kind, or {NOTHING}")
        if other in models and kinds[other] not in (kinds[name], _TRAINED_OTHERWISE.get(kinds[name])):
            problems.append(f"models.hcl.{name}.init: {other} is of architecture {kinds[other]}; a model of "
                            f"architecture {kinds[name]} goes on from one of its own")
    return problems


def _start_under_preset(name: str, model: "HclModel", settings: "TrainHcl") -> list[str]:
    if model.init == NOTHING or settings.preset != "paper":
        return []
    return [f"models.hcl.{name}.init: under preset paper a model starts from the encoder alone; write {NOTHING}, or "
            f"take out the preset"]


# Those that read keywords of the source.
READING = frozenset(("pgkpr", "ianet"))


# Tables that the pairs are joined with, by the sources of keywords that need them.
_JOINED = {"ianet": ("psi",), "psi": ("psi",), "psi_xx": ("psi",), "psi_xy": ("psi",), "s_tagger": ("psi", "s_tags"),
           "textrank": ("textrank",)}


def _of_pgkpr(params: "Params") -> list[str]:
    """Return what is wrong with the track as a whole."""
    return [*_beginnings("pgkpr", params.models.pgkpr), *_missing_modes(params), *_missing_tables(params)]


def _missing_tables(params: "Params") -> list[str]:
    """Return which tables of keywords the pairs are not joined with although a model or a run reads them."""
    problems, joined = [], params.paraphrase_items.datasets
    made = {"psi": "psi", "s_tags": "s_tagger", "textrank": "keywords"}
    for dataset, tables in joined.items():
        for table, place in tables:
            if place == NOTHING:
                continue
            if place != DatasetPaths(dataset).table(table).as_posix():
                problems.append(f"paraphrase_items.datasets.{dataset}.{table}: must be "
                                f"{DatasetPaths(dataset).table(table)} or {NOTHING}, found {place}")
            elif dataset not in params.named(made[table]):
                problems.append(f"paraphrase_items.datasets.{dataset}.{table} needs {made[table]}.datasets to name "
                                f"{dataset!r}")
    for name, model in params.models.pgkpr.items():
        block = laid_over(params.train_pgkpr.plain(), model.overrides)
        decodes = [run.decode for run in params.runs.pgkpr.values() if run.model == name]
        keywords = block.get("keywords")
        read = [block["architecture"], keywords.get("by") if isinstance(keywords, dict) else None,
                *(one.get("keywords", params.generate_pgkpr.keywords) for one in decodes)]
        lacking = {table for source in read for table in _JOINED.get(str(source), ())
                   if model.dataset in joined and getattr(joined[model.dataset], table) == NOTHING}
        problems += [f"models.pgkpr.{name} needs paraphrase_items.datasets.{model.dataset}.{table} to be "
                     f"{DatasetPaths(model.dataset).table(table)}" for table in sorted(lacking)]
    return problems


def _missing_modes(params: "Params") -> list[str]:
    """Return which modes of keyword scores are not computed although a stage reads them."""
    problems = []
    for block, modes in (("attribution", params.attribution.modes), ("psi", params.psi.modes)):
        lacking = [mode for mode in ("xx", "xy") if mode not in modes]
        if lacking and params.models.pgkpr:
            problems.append(f"{block}.modes: {' and '.join(lacking)} missing, and models.pgkpr needs the scores of "
                            f"both; write [xx, xy]")
        elif "xy" in lacking and params.s_tagger.datasets and block == "psi":
            problems.append("psi.modes: xy missing, from which the S-Tagger learns; write [xx, xy], or take the data "
                            "sets out of s_tagger.datasets")
    return problems


def _idle_contrast(name: str, model: "PgkprModel", settings: "TrainPgkpr") -> list[str]:
    """Return what is wrong if a model has a contrast and batches of one pair, so no negatives."""
    if settings.architecture != "pgkpr" or not settings.contrast.weight or settings.training.batch_size > 1:
        return []
    return [f"models.pgkpr.{name}: training.batch_size of 1 leaves the contrast without negatives; give at least 2, or "
            f"set contrast.weight to 0"]


def _unread_keywords(name: str, run: "PgkprRun", decoding: "GeneratePgkpr", settings: "TrainPgkpr") -> list[str]:
    """Return what is wrong if a run says which keywords its model reads, and that reads none."""
    if decoding.keywords is None or settings.architecture in READING:
        return []
    said = f"{decoding.keywords!r} is given, and model {run.model!r} ({settings.architecture}) reads no keywords"
    if run.decode.get("keywords") is not None:
        return [f"runs.pgkpr.{name}.decode.keywords: {said}; take it out"]
    return [f"generate_pgkpr.keywords: {said}; write `keywords: null` under runs.pgkpr.{name}.decode, or here"]


def _unfit_sources(params: "Params") -> list[str]:
    """Return what is wrong with the models that others take their pairs from: they must be CT of the same data set."""
    problems, models = [], params.models.clld
    consulted = params.confusing_pairs.models
    for name, model in models.items():
        if model.pairs_of == NOTHING:
            continue
        place, other = f"models.clld.{name}.pairs_of", earlier_model(model)
        plain = [one for one, found in models.items() if found.contrast == "none" and found.dataset == model.dataset]
        if other is None:
            problems.append(f"{place}: must be {CONFUSED}/NAME, found {model.pairs_of}")
        elif other not in models:
            problems.append(f"{place}: no model {other!r}; {nearest(other, plain or models)}")
        elif models[other].contrast != "none":
            problems.append(f"{place}: model {other!r} has contrast {models[other].contrast}, and pairs are read off a "
                            f"plain CT model (contrast none); {nearest(other, plain)}")
        elif models[other].dataset != model.dataset:
            problems.append(f"{place}: model {other!r} is of data set {models[other].dataset}, and this one of "
                            f"{model.dataset}; {nearest(other, plain)}")
        elif other not in consulted:
            problems.append(f"{place} needs confusing_pairs.models to name {other!r}")
    return problems + [f"confusing_pairs.models: no model {name!r}; {nearest(name, models)}" for name in consulted
                       if name not in models]


def _unfit_settings(name: str, model: "ClldModel", settings: "TrainClld") -> list[str]:
    """Return what is wrong with a model that has batches of one text, so no negatives."""
    if model.contrast == "none" or settings.training.batch_size > 1:
        return []
    return [f"models.clld.{name}: training.batch_size of 1 leaves the contrast nothing but the two views of a text; "
            f"give at least 2, or set contrast to none"]


CHECKS = {"hcl": TrackChecks(track=_of_hcl, model=_start_under_preset),
          "pgkpr": TrackChecks(track=_of_pgkpr, model=_idle_contrast, run=_unread_keywords),
          "clld": TrackChecks(True, _unfit_sources, _unfit_settings)}
