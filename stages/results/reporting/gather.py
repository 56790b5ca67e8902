"""Read what the page shows, through the schemas; what a recipe does not make is None, not an error."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.artifacts.paths import COMPARISON, DatasetPaths, ModelPaths, ProbePaths, RunPaths
from stages.artifacts.tables import read_frame, read_metadata, read_table
from stages.data.layouts.layout import structure_of
from stages.keywords.methods import NAMING
from stages.results.reporting.examples import seeded_examples
from stages.results.reporting.explorer import GraphMaterial, read_graph
from stages.results.reporting.gather_clld import ClassifierMaterial, read_classifier, row_kind, shown_settings
from stages.results.reporting.published_pgkpr import keywords_of
from stages.runtime.errors import InputError
from stages.runtime.settings import Params

# In the order in which a data set passes through them.
_DATA_STAGES = ("ingest", "annotate", "textrank", "pair_classifier", "attribution", "word_vectors", "psi", "s_tagger",
                "side_by_side", "keywords", "clusters", "graph", "node_vectors", "paraphrase_items", "linear_floor")
_SETTINGS = ("graph", "keyword", "latent", "contrasts", "decoder")
# Groups of `train_pgkpr` by the architecture that reads them.
_READ_BY = {"pgkpr": ("keywords", "reconstruction", "contrast", "sizes"), "transformer": ("sizes",),
            "residual_lstm": ("residual_lstm",), "latent_bow": ("latent_bow",), "ianet": ("sizes", "ianet")}
_TABLES = ("examples", "texts", "tokens", *NAMING, "word_vectors", "s_tags", "side_by_side", "keywords",
           "clusters", "nodes", "edges", "node_vectors", "paraphrase_items", "linear_floor")
_BESIDE = 8     # texts whose keywords are shown method by method
CASES = 6       # items of the case study
ITEM_SCORES = ("bleu_1", "bleu_2", "bleu_4")    # those that stand beside an output


@dataclass(frozen=True)
class DatasetMaterial:
    """One data set: its params, the counts of its stages, and the tables that are drawn.

    Attributes:
        frequencies: keyword tokens by method and part of speech.
        beside: column ``text`` and one of keywords per method, for a few texts.
        labelled: it is of texts with classes, of which there is no graph.
    """

    name: str
    settings: dict[str, Any]
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    fallbacks: list[str] = field(default_factory=list)
    encoders: list[dict[str, Any]] = field(default_factory=list)
    keywords: pd.DataFrame | None = None
    nodes: pd.DataFrame | None = None
    graph: GraphMaterial | None = None
    frequencies: pd.DataFrame | None = None
    beside: pd.DataFrame | None = None
    labelled: bool = False


@dataclass(frozen=True)
class ModelMaterial:
    """One trained model: what defines it, and one row per epoch (None where no history was kept).

    Attributes:
        settings: groups of its ``config.json``, named as in the params; empty if it has none. For PGKPR and CLLD, the
            groups of ``train_pgkpr`` or ``train_clld`` that it reads.
        metrics: what its training reported; ``alarms`` are a list in it.
        track: ``hcl``, ``pgkpr`` or ``clld``.
    """

    name: str
    dataset: str
    seed: int
    overrides: dict[str, Any]
    history: pd.DataFrame | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    track: str = "hcl"


@dataclass(frozen=True)
class RunMaterial:
    """One row of the results: model, decoding, metrics and predictions.

    Attributes:
        predictions: rows of table ``predictions`` with sample 0; none of a classifier.
        item_scores: by example, the scores that stand beside its output.
        track: ``hcl``, ``pgkpr`` or ``clld``.
        keywords: where a run of PGKPR takes keywords from, see ``published_pgkpr.keywords_of``; None without any.
        classifier: what a run of CLLD says of classes; None for the others.
    """

    name: str
    model: str
    dataset: str
    decode: dict[str, Any]
    metrics: dict[str, Any]
    predictions: pd.DataFrame
    item_scores: dict[int, list[float | None]] = field(default_factory=dict)
    track: str = "hcl"
    keywords: str | None = None
    classifier: ClassifierMaterial | None = None


@dataclass(frozen=True)
class ProbeMaterial:
    """What was found in one model: points of its latent space, and outputs under other keywords."""

    name: str
    model: str
    dataset: str
    metrics: dict[str, Any]
    latent: pd.DataFrame
    swaps: pd.DataFrame


@dataclass(frozen=True)
class PairsMaterial:
    """A few evaluated pairs as a model of PGKPR reads them.

    Attributes:
        rows: of table ``paraphrase_items``, one per example: that of its target.
        max_length: words of a text that the model reads.
    """

    rows: pd.DataFrame
    max_length: int


@dataclass(frozen=True)
class Material:
    """Everything the page is made from.

    Attributes:
        details: per data set, evaluated examples beyond their predictions: columns example_id,
            reference_keyword, negative, negative_keyword.
        paired: rows of table ``paired``; empty where no runs were compared.
        exact: of table ``mcnemar``, likewise.
        comparison: what the comparison reported beside them, such as means over seeds.
        probes: of the probed models.
        pairs: by run of PGKPR, a few of the pairs that it was evaluated on.
    """

    recipe: str
    seed: int
    encoder: str
    datasets: list[DatasetMaterial]
    models: list[ModelMaterial]
    runs: list[RunMaterial]
    details: dict[str, pd.DataFrame]
    paired: pd.DataFrame = field(default_factory=pd.DataFrame)
    exact: pd.DataFrame = field(default_factory=pd.DataFrame)
    comparison: dict[str, Any] = field(default_factory=dict)
    probes: list[ProbeMaterial] = field(default_factory=list)
    pairs: dict[str, PairsMaterial] = field(default_factory=dict)

    def of(self, track: str) -> "Material":
        """Return the material with the models, runs and probes of one track alone; only HCL has probes."""
        return replace(self, models=[model for model in self.models if model.track == track],
                       runs=[run for run in self.runs if run.track == track],
                       probes=self.probes if track == "hcl" else [])


def gather(params: Params) -> Material:
    """Read the artifacts of every data set, model and run that the params list.

    Raises:
        InputError: a listed run has no metrics or predictions, or a file cannot be read.
    """
    models = [*(_model(name, params) for name in params.models.hcl),
              *(_rewriter(name, params) for name in params.models.pgkpr),
              *(_classifier(name, params) for name in params.models.clld)]
    datasets = {model.name: model.dataset for model in models}
    runs = [_run("hcl", name, run.model, datasets[run.model], run.decode) for name, run in params.runs.hcl.items()]
    rewriting = [_rewriting(name, datasets[run.model], params) for name, run in params.runs.pgkpr.items()]
    classifying = [_classifying(name, datasets[run.model], params) for name, run in params.runs.clld.items()]
    comparison = COMPARISON / "metrics.json"
    return Material(
        recipe=params.recipe, seed=params.seed, encoder=params.encoder.source,
        datasets=[replace(_dataset(name, block.plain()), labelled=structure_of(block.layout) == "labelled")
                  for name, block in params.datasets.items()],
        models=models, runs=[*runs, *rewriting, *classifying],
        details={name: _details(name, [run for run in runs if run.dataset == name]) for name in params.datasets},
        paired=_compared("paired"), exact=_compared("mcnemar"),
        comparison=_json(comparison) if comparison.exists() else {},
        probes=[found for name, probe in params.probes.hcl.items()
                if (found := _probe(name, probe.model, datasets[probe.model]))],
        pairs={run.name: read for run in rewriting if (read := _pairs(run, params.seed)) is not None})


def _compared(kind: str) -> pd.DataFrame:
    path = COMPARISON / f"{kind}.parquet"
    return read_frame(path, kind) if path.exists() else pd.DataFrame()


def _dataset(name: str, settings: dict[str, Any]) -> DatasetMaterial:
    paths = DatasetPaths(name)
    metrics = {stage: _json(paths.metrics(stage)) for stage in _DATA_STAGES if paths.metrics(stage).exists()}
    tables = [paths.table(kind) for kind in _TABLES if paths.table(kind).exists()]
    metadata = [read_metadata(path) for path in tables]
    fallbacks = [f"{path.stem}: {text}" for path, one in zip(tables, metadata, strict=True)
                 for text in one.get("fallbacks", [])]
    encoders = [one["models"]["encoder"] for one in metadata if "encoder" in one.get("models", {})]
    return DatasetMaterial(
        name, settings, metrics, list(dict.fromkeys(fallbacks)), encoders,
        keywords=_optional(paths.table("keywords"), "keywords"), nodes=_optional(paths.table("nodes"), "nodes"),
        graph=read_graph(paths), frequencies=_frequencies(paths), beside=_beside(paths))


def _frequencies(paths: DatasetPaths) -> pd.DataFrame | None:
    file = paths.pos_frequency / "pos_frequency.csv"
    return pd.read_csv(file) if file.exists() else None


def _beside(paths: DatasetPaths) -> pd.DataFrame | None:
    """Return the first texts for which every method names a keyword."""
    table = _optional(paths.table("side_by_side"), "side_by_side")
    if table is None:
        return None
    methods = [name for name in table if name != "text_id"]
    named = table[[all(row[name] is not None and len(row[name]) for name in methods) for _, row in table.iterrows()]]
    named = named.head(_BESIDE)
    texts = _lookup(paths.table("texts"), "texts", "text", set(named["text_id"].tolist()))
    return named.assign(text=named["text_id"].map(texts))[["text", *methods]]


def _model(name: str, params: Params) -> ModelMaterial:
    block = params.models.hcl[name]
    config = ModelPaths(name).weights / "config.json"
    settings = _json(config) if config.exists() else {}
    return ModelMaterial(name, block.dataset, params.model_seed(name), block.overrides, _history("hcl", name),
                         {group: settings[group] for group in _SETTINGS if group in settings}, _training(name))


def _rewriter(name: str, params: Params) -> ModelMaterial:
    """Return a model of PGKPR; its config.json leaves out what only training reads, so the params are taken."""
    block, settings = params.models.pgkpr[name], params.model(name).plain()
    shown = ("architecture", *_READ_BY[settings["architecture"]])
    return ModelMaterial(name, block.dataset, params.model_seed(name), block.overrides, _history("pgkpr", name),
                         {group: settings[group] for group in shown}, _training(name), "pgkpr")


def _classifier(name: str, params: Params) -> ModelMaterial:
    """Return a model of CLLD; which row it is, and with which encoder, stands before its overrides."""
    block, settings = params.models.clld[name], shown_settings(row_kind(name, params))
    given = {"pairs_of": block.pairs_of} if block.pairs_of else {}
    own = {"row": settings["row"], "encoder": settings["encoder"], **given, **block.overrides}
    return ModelMaterial(name, block.dataset, params.model_seed(name), own, _history("clld", name), settings,
                         _training(name), "clld")


def _history(track: str, name: str) -> pd.DataFrame | None:
    path = ModelPaths(name).history
    history = pd.read_csv(path) if path.exists() else None
    if history is not None and "epoch" not in history:
        raise InputError(f"{path}: column 'epoch' is missing. Train the model again with "
                         f"`keycontrast stage train_{track}@{name}`.")
    return history


def _training(name: str) -> dict[str, Any]:
    path = ModelPaths(name).metrics
    return _json(path) if path.exists() else {}


def _classifying(name: str, dataset: str, params: Params) -> RunMaterial:
    run = params.runs.clld[name]
    metrics = _evaluated("clld", name)
    return RunMaterial(name, run.model, dataset, {"split": run.split}, metrics, pd.DataFrame(), track="clld",
                       classifier=read_classifier(name, params))


def _run(track: str, name: str, model: str, dataset: str, decode: dict[str, Any]) -> RunMaterial:
    paths, metrics = RunPaths(name), _evaluated(track, name)
    predictions = read_frame(paths.predictions, "predictions")
    first = predictions[predictions["sample"] == 0].reset_index(drop=True)
    return RunMaterial(name, model, dataset, decode, metrics, first, _item_scores(paths.scores), track)


def _evaluated(track: str, name: str) -> dict[str, Any]:
    path = RunPaths(name).metrics
    metrics = _json(path)
    if not {"run", "floors", "counts", "settings"} <= set(metrics):
        raise InputError(f"{path}: not the metrics of a run. Make them again with "
                         f"`keycontrast stage evaluate_{track}@{name}`.")
    return metrics


def _rewriting(name: str, dataset: str, params: Params) -> RunMaterial:
    run = params.runs.pgkpr[name]
    keywords = keywords_of(params.model(run.model).plain(), params.decoding(name).plain())
    return replace(_run("pgkpr", name, run.model, dataset, run.decode), keywords=keywords)


def _pairs(run: RunMaterial, seed: int) -> PairsMaterial | None:
    """Return a few pairs that a run of PGKPR was evaluated on, as its model reads them; None if its model has none."""
    paths = ModelPaths(run.model)
    config = paths.weights / "config.json"
    if not paths.paraphrase_items.exists() or not config.exists():
        return None
    chosen = seeded_examples(run.predictions["example_id"], CASES, seed)
    rows = read_table(paths.paraphrase_items, "paraphrase_items")
    wanted = pc.and_(pc.is_in(rows["example_id"], value_set=pa.array(chosen, pa.int64())),
                     pc.equal(rows["reference"], 0))
    return PairsMaterial(rows.filter(wanted).to_pandas(), int(_json(config)["max_words"]))


def _item_scores(path: Path) -> dict[int, list[float | None]]:
    if not path.exists():
        return {}
    table = read_table(path, columns=["system", "example_id", *ITEM_SCORES])
    table = table.filter(pc.equal(table["system"], "run"))
    columns = [table[name].to_pylist() for name in ITEM_SCORES]
    return {number: [None if value is None else round(value, 3) for value in values]
            for number, *values in zip(table["example_id"].to_pylist(), *columns, strict=True)}


def _probe(name: str, model: str, dataset: str) -> ProbeMaterial | None:
    paths = ProbePaths(name)
    if not paths.metrics.exists():
        return None
    return ProbeMaterial(name, model, dataset, _json(paths.metrics), read_frame(paths.table("latent"), "latent"),
                         read_frame(paths.table("keyword_swap"), "keyword_swap"))


def _details(dataset: str, runs: list[RunMaterial]) -> pd.DataFrame:
    """Return reference keyword, negative and its keyword of every evaluated example, as far as tables tell."""
    columns = ["example_id", "reference_keyword", "negative", "negative_keyword"]
    paths = DatasetPaths(dataset)
    shown = sorted({int(number) for run in runs for number in run.predictions["example_id"]})
    examples = _optional(paths.table("examples"), "examples") if shown else None
    if examples is None:
        return pd.DataFrame(columns=columns)
    examples = examples[examples["example_id"].isin(shown)]
    wanted = {int(number) for name in ("target_id", "negative_id") for number in examples[name].dropna()}
    texts = _lookup(paths.table("texts"), "texts", "text", wanted)
    keywords = _lookup(paths.table("keywords"), "keywords", "keyword", wanted)
    rows = [(row.example_id, keywords.get(row.target_id), texts.get(row.negative_id), keywords.get(row.negative_id))
            for row in examples.itertuples()]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def _lookup(path: Path, kind: str, column: str, wanted: set[int]) -> dict[int, str]:
    if not path.exists():
        return {}
    table = read_table(path, kind).select(["text_id", column])
    table = table.filter(pc.is_in(table["text_id"], value_set=pa.array(sorted(wanted), pa.int64())))
    return dict(zip(table["text_id"].to_pylist(), table[column].to_pylist(), strict=True))


def _optional(path: Path, kind: str) -> pd.DataFrame | None:
    return read_frame(path, kind) if path.exists() else None


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"{path}: no such artifact. The report needs the metrics of every run in params.yaml: make "
                         f"them with `keycontrast run`.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid JSON ({error}). Remove it and run its stage again.") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: must hold names and values. Remove it and run its stage again.")
    return content
