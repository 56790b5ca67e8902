"""Read what the page shows beside results, through the schemas; what a recipe does not make is None, not an error."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.common.columns.graph import NODES
from stages.common.columns.items import EXAMPLES
from stages.common.columns.keywords import KEYWORDS
from stages.common.columns.side_by_side import SIDE_BY_SIDE
from stages.common.columns.texts import TEXTS
from stages.common.layouts import structure_of
from stages.common.methods import NAMING
from stages.common.paths import DatasetPaths, ModelPaths, ProbePaths, row_name, seeded_name
from stages.common.schemas import TableSchema
from stages.common.settings import Params
from stages.common.tables import read_frame, read_metadata, read_table
from stages.results.artifacts import first_predictions, item_scores, model_config, read_json
from stages.results.gather import read_results
from stages.results.model import Results, Run
from stages.results.page.corpus import Tops, read_tops
from stages.results.page.examples import seeded_examples
from stages.results.page.explorer import GraphMaterial, read_graph
from stages.results.tracks import TRACKS
from stages.tracks.hcl.probing.schemas import KEYWORD_SWAP, LATENT
from stages.tracks.pgkpr.schemas import PARAPHRASE_ITEMS

# In the order in which a data set passes through them.
_DATA_STAGES = ("ingest", "annotate", "textrank", "pair_classifier", "attribution", "word_vectors", "psi", "s_tagger",
                "side_by_side", "keywords", "graph", "node_vectors", "paraphrase_items", "linear_floor")
_TABLES = ("examples", "texts", "tokens", *NAMING, "word_vectors", "s_tags", "side_by_side", "keywords", "clusters",
           "nodes", "edges", "node_vectors", "paraphrase_items", "linear_floor")
# What there is of a data set as soon as its graph is.
# Tables that tell what stages counted.
_FIRST_COUNTS = {"ingest": "examples", "keywords": "keywords", "graph": "nodes"}
_FIRST_TABLES = ("examples", "texts", "tokens", "keywords", "clusters", "nodes", "edges")
_BESIDE = 8     # texts whose keywords are shown method by method
CASES = 6       # items of the case study


@dataclass(frozen=True)
class DatasetMaterial:
    """One data set: its params, the counts of its stages, and the tables that are drawn.

    Attributes:
        frequencies: keyword tokens by method and part of speech.
        tops: by method, its most frequent keywords.
        single: its texts belong to no pairs, so that its graph has one sign.
        beside: column ``text`` and one of keywords per method, for a few texts.
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
    tops: Tops = field(default_factory=dict)
    single: bool = False


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
        results: with the predictions of all runs that write texts.
        details: per data set, evaluated examples beyond their predictions: columns example_id,
            reference_keyword, negative, negative_keyword.
        probes: of the probed models.
        pairs: by run of PGKPR, a few of the pairs that it was evaluated on.
    """

    results: Results
    datasets: list[DatasetMaterial]
    details: dict[str, pd.DataFrame] = field(default_factory=dict)
    probes: list[ProbeMaterial] = field(default_factory=list)
    pairs: dict[str, PairsMaterial] = field(default_factory=dict)


def gather(params: Params) -> Material:
    """Read the artifacts of every data set, model and run that the params list.

    Raises:
        InputError: a listed run has no metrics or predictions, or a file cannot be read.
    """
    results = read_results(params)
    runs = [run if run.classifier is not None else
            replace(run, predictions=first_predictions(TRACKS[run.track], run.paths),
                    item_scores=item_scores(run.paths))
            for run in results.runs]
    single = [run for run in runs if run.classifier is None and not TRACKS[run.track].many_keywords]
    return Material(
        replace(results, runs=runs),
        [_dataset(name, block.plain(), dataset_counts(name)) for name, block in params.datasets.items()],
        {name: _details(name, [run for run in single if run.dataset == name]) for name in params.datasets},
        [found for name, probe in params.probes.hcl.items()
         if (found := _probe(name, probe.model, params.models.hcl[probe.model]))],
        {run.name: read for run in runs if TRACKS[run.track].many_keywords
         and (read := _pairs(run, params.seed)) is not None})


def gather_first(params: Params, name: str) -> Material:
    """Read of data set ``name`` what its graph was made from, the graph, and nothing that there may be besides.

    Raises:
        InputError: a file cannot be read.
    """
    paths = DatasetPaths(name)
    counts = {stage: read_metadata(paths.table(kind))["counts"] for stage, kind in _FIRST_COUNTS.items()}
    return Material(Results(params.recipe, params.seed, params.encoder.source, [], [], []),
                    [_dataset(name, params.datasets[name].plain(), counts, _FIRST_TABLES)])


def dataset_counts(name: str) -> dict[str, dict[str, Any]]:
    """Return what the stages of a data set reported, by stage; nothing of those that have not run."""
    paths = DatasetPaths(name)
    return {stage: read_json(paths.metrics(stage), f"{stage}@{name}") for stage in _DATA_STAGES
            if paths.metrics(stage).exists()}


def _dataset(name: str, settings: dict[str, Any], counts: dict[str, dict[str, Any]],
             kinds: Sequence[str] = _TABLES) -> DatasetMaterial:
    paths = DatasetPaths(name)
    tables = [paths.table(kind) for kind in kinds if paths.table(kind).exists()]
    metadata = [read_metadata(path) for path in tables]
    fallbacks = [f"{path.stem}: {text}" for path, one in zip(tables, metadata, strict=True)
                 for text in one.get("fallbacks", [])]
    encoders = [one["models"]["encoder"] for one in metadata if "encoder" in one.get("models", {})]
    keywords, compared = _optional(paths, KEYWORDS), SIDE_BY_SIDE.name in kinds
    return DatasetMaterial(
        name, settings, counts, list(dict.fromkeys(fallbacks)), encoders,
        keywords=keywords, nodes=_optional(paths, NODES), graph=read_graph(paths),
        frequencies=_frequencies(paths) if compared else None, beside=_beside(paths) if compared else None,
        tops=read_tops(paths, keywords, compared),
        single=structure_of(settings["layout"]) == "texts")


def _frequencies(paths: DatasetPaths) -> pd.DataFrame | None:
    file = paths.pos_frequency / "pos_frequency.csv"
    return pd.read_csv(file) if file.exists() else None


def _beside(paths: DatasetPaths) -> pd.DataFrame | None:
    """Return the first texts for which every method names a keyword."""
    table = _optional(paths, SIDE_BY_SIDE)
    if table is None:
        return None
    methods = [name for name in table if name != "text_id"]
    named = table[[all(row[name] is not None and len(row[name]) for name in methods) for _, row in table.iterrows()]]
    named = named.head(_BESIDE)
    texts = _lookup(paths, TEXTS, "text", set(named["text_id"].tolist()))
    return named.assign(text=named["text_id"].map(texts))[["text", *methods]]


def _pairs(run: Run, seed: int) -> PairsMaterial | None:
    """Return a few pairs that a run of PGKPR was evaluated on, as its model reads them; None if its model has none."""
    model = ModelPaths(row_name(run.model), run.seed)
    path, config = model.paraphrase_items, model_config(model)
    if not path.exists() or config is None:
        return None
    chosen = seeded_examples(run.predictions["example_id"], CASES, seed)
    rows = read_table(path, PARAPHRASE_ITEMS)
    wanted = pc.and_(pc.is_in(rows["example_id"], value_set=pa.array(chosen, pa.int64())),
                     pc.equal(rows["reference"], 0))
    return PairsMaterial(rows.filter(wanted).to_pandas(), int(config["max_words"]))


def _probe(name: str, model: str, block: Any) -> ProbeMaterial | None:
    paths = ProbePaths(name)
    if not paths.metrics.exists():
        return None
    probed = seeded_name(model, block.seeds[0], block.seeds)
    return ProbeMaterial(name, probed, block.dataset, read_json(paths.metrics, f"probe_hcl@{name}"),
                         read_frame(paths.table("latent"), LATENT),
                         read_frame(paths.table("keyword_swap"), KEYWORD_SWAP))


def _details(dataset: str, runs: list[Run]) -> pd.DataFrame:
    """Return reference keyword, negative and its keyword of every evaluated example, as far as tables tell."""
    columns = ["example_id", "reference_keyword", "negative", "negative_keyword"]
    paths = DatasetPaths(dataset)
    shown = sorted({int(number) for run in runs for number in run.predictions["example_id"]})
    examples = _optional(paths, EXAMPLES) if shown else None
    if examples is None:
        return pd.DataFrame(columns=columns)
    examples = examples[examples["example_id"].isin(shown)]
    wanted = {int(number) for name in ("target_id", "negative_id") for number in examples[name].dropna()}
    texts = _lookup(paths, TEXTS, "text", wanted)
    keywords = _lookup(paths, KEYWORDS, "keyword", wanted)
    rows = [(row.example_id, keywords.get(row.target_id), texts.get(row.negative_id), keywords.get(row.negative_id))
            for row in examples.itertuples()]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def _lookup(paths: DatasetPaths, schema: TableSchema, column: str, wanted: set[int]) -> dict[int, str]:
    path = paths.table(schema.name)
    if not path.exists():
        return {}
    table = read_table(path, schema).select(["text_id", column])
    table = table.filter(pc.is_in(table["text_id"], value_set=pa.array(sorted(wanted), pa.int64())))
    return dict(zip(table["text_id"].to_pylist(), table[column].to_pylist(), strict=True))


def _optional(paths: DatasetPaths, schema: TableSchema) -> pd.DataFrame | None:
    path = paths.table(schema.name)
    return read_frame(path, schema) if path.exists() else None
