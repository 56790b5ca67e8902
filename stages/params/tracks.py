"""Checks of the models and runs of each track that no block can make alone; each fault would stop a later stage."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from keycontrast.errors import nearest
from stages.common.paths import CONFUSED, DatasetPaths
from stages.common.settings import NOTHING, earlier_model, laid_over

if TYPE_CHECKING:
    from stages.params.root import Params
    from stages.tracks.common.params import TextRun
    from stages.tracks.pgkpr.params import GeneratePgkpr, TrainPgkpr

# Architectures of HCL that may also start from a model of another one, because they have the same weights.
_SAME_WEIGHTS = {"group_wise": "transformer", "t5_claps": "t5"}
# Architectures of PGKPR that read keywords of the source.
READING = frozenset(("pgkpr", "ianet"))
# Tables that PGKPR's pairs are joined with, by architecture or source of keywords.
_JOINED = {"ianet": ("psi",), "psi": ("psi",), "psi_xx": ("psi",), "psi_xy": ("psi",), "s_tagger": ("psi", "s_tags"),
           "textrank": ("textrank",)}


def _start_problems(track: str, models: Mapping[str, Any]) -> list[str]:
    """Return the problems of models that start from others: unknown names and circles."""
    starts = {name: other for name, model in models.items() if (other := earlier_model(model)) is not None}
    problems = [f"models.{track}.{name}.init: no model {other!r}; {nearest(other, models)}"
                for name, other in starts.items() if other not in models]
    for name in models:
        seen: set[str] = set()
        start = starts.get(name)
        while start in starts and start not in seen:
            seen.add(start)
            start = starts[start]
        if name in seen or start == name:
            problems.append(f"models.{track}.{name}.init: the model would start from itself, by way of {starts[name]}; "
                            f"take one of them out of the circle")
    return problems


def _hcl_problems(params: "Params") -> list[str]:
    models = params.models.hcl
    problems = _start_problems("hcl", models)
    kinds = {name: str(model.overrides.get("architecture", params.train_hcl.architecture))
             for name, model in models.items()}
    for name, model in models.items():
        other = earlier_model(model)
        settings = laid_over(params.train_hcl.plain(), model.overrides).get(kinds[name])
        if kinds[name] != "hcl" and other is None and model.init != NOTHING and not (
                isinstance(settings, dict) and settings.get("source") == "path"):
            problems.append(f"models.hcl.{name}.init: {model.init} is a start of architecture hcl, and this row is of "
                            f"architecture {kinds[name]}; name a model of its own kind, or {NOTHING}")
        if other in models and kinds[other] not in (kinds[name], _SAME_WEIGHTS.get(kinds[name])):
            problems.append(f"models.hcl.{name}.init: {other} is of architecture {kinds[other]}; a model of "
                            f"architecture {kinds[name]} goes on from one of its own")
    problems += [f"probes.hcl.{name}.model: {probe.model} is of architecture {kinds[probe.model]}, and only models of "
                 f"architecture hcl are probed" for name, probe in params.probes.hcl.items()
                 if kinds.get(probe.model, "hcl") != "hcl"]
    return problems


def _missing_tables(params: "Params") -> list[str]:
    """Return the problems of keyword tables that models or runs read, but that the pairs are not joined with."""
    problems, joined = [], params.paraphrase_items.datasets
    makers = {"psi": "psi", "s_tags": "s_tagger", "textrank": "keywords"}
    for dataset, tables in joined.items():
        for table, place in tables:
            if place == NOTHING:
                continue
            if place != DatasetPaths(dataset).table(table).as_posix():
                problems.append(f"paraphrase_items.datasets.{dataset}.{table}: must be "
                                f"{DatasetPaths(dataset).table(table)} or {NOTHING}, found {place}")
            elif dataset not in params.named(makers[table]):
                problems.append(f"paraphrase_items.datasets.{dataset}.{table} needs {makers[table]}.datasets to name "
                                f"{dataset!r}")
    for name, model in params.models.pgkpr.items():
        block = laid_over(params.train_pgkpr.plain(), model.overrides)
        decodes = [run.decode for run in params.runs.pgkpr.values() if run.model == name]
        keywords = block.get("keywords")
        read = [block["architecture"], keywords.get("by") if isinstance(keywords, dict) else None,
                *(decode.get("keywords", params.generate_pgkpr.keywords) for decode in decodes)]
        missing = {table for source in read for table in _JOINED.get(str(source), ())
                   if model.dataset in joined and getattr(joined[model.dataset], table) == NOTHING}
        problems += [f"models.pgkpr.{name} needs paraphrase_items.datasets.{model.dataset}.{table} to be "
                     f"{DatasetPaths(model.dataset).table(table)}" for table in sorted(missing)]
    return problems


def _missing_modes(params: "Params") -> list[str]:
    """Return the modes of keyword scores that a stage reads and none computes."""
    problems = []
    for block, modes in (("attribution", params.attribution.modes), ("psi", params.psi.modes)):
        missing = [mode for mode in ("xx", "xy") if mode not in modes]
        if missing and (params.models.pgkpr or ("xx" in missing and params.keyword_comparison.datasets)):
            reader = "models.pgkpr" if params.models.pgkpr else "keyword_comparison"
            problems.append(f"{block}.modes: {' and '.join(missing)} missing, which {reader} reads; write [xx, xy]")
        elif "xy" in missing and params.s_tagger.datasets and block == "psi":
            problems.append("psi.modes: xy missing, from which the S-Tagger learns; write [xx, xy], or take the data "
                            "sets out of s_tagger.datasets")
    return problems


def unread_keywords(name: str, run: "TextRun", decoding: "GeneratePgkpr", settings: "TrainPgkpr") -> list[str]:
    """Return the problem of a run of PGKPR with keywords, if its model reads none."""
    if decoding.keywords is None or settings.architecture in READING:
        return []
    fault = f"{decoding.keywords!r} is given, and model {run.model!r} ({settings.architecture}) reads no keywords"
    if run.decode.get("keywords") is not None:
        return [f"runs.pgkpr.{name}.decode.keywords: {fault}; take it out"]
    return [f"generate_pgkpr.keywords: {fault}; write `keywords: null` under runs.pgkpr.{name}.decode, or here"]


def _clld_problems(params: "Params") -> list[str]:
    """Return the problems of models that take pairs of classes from others, which must be CT of the same data set."""
    problems, models = [], params.models.clld
    consulted = params.confusing_pairs.models
    for name, model in models.items():
        if model.pairs_of == NOTHING:
            continue
        place, other = f"models.clld.{name}.pairs_of", earlier_model(model)
        plain = [base for base, row in models.items() if row.contrast == "none" and row.dataset == model.dataset]
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


def model_problems(track: str, name: str, model: Any, settings: Any) -> list[str]:
    """Return the problem of one model of a track, given its row and its settings, if it has one."""
    if track == "hcl":
        return [f"models.hcl.{name}.init: under preset paper a model starts from the encoder alone; write {NOTHING}, "
                f"or take out the preset"] if model.init != NOTHING and settings.preset == "paper" else []
    if settings.training.batch_size > 1:
        return []
    if track == "clld":
        return [f"models.clld.{name}: training.batch_size of 1 leaves the contrast nothing but the two views of a "
                f"text; give at least 2, or set contrast to none"] if model.contrast != "none" else []
    contrasted = settings.architecture == "pgkpr" and settings.contrast.weight
    return [f"models.pgkpr.{name}: training.batch_size of 1 leaves the contrast without negatives; give at least 2, "
            f"or set contrast.weight to 0"] if contrasted else []


# The problems of all models of a track.
TRACK_PROBLEMS: dict[str, Callable[["Params"], list[str]]] = {
    "hcl": _hcl_problems, "clld": _clld_problems,
    "pgkpr": lambda params: [*_start_problems("pgkpr", params.models.pgkpr), *_missing_modes(params),
                             *_missing_tables(params)]}
