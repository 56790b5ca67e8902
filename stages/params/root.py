"""The whole of ``params.yaml``: every block, and the checks between blocks."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from typing import Any, Literal, TypeVar

from pydantic import Field, model_validator

from keycontrast.errors import nearest
from stages.annotate.params import Annotate
from stages.attribution.params import Attribution, PairClassifier
from stages.common.examples import is_paired, structure_of
from stages.common.methods import FOR_ANY_TEXT, METHODS
from stages.common.params import Block, Cluster, Encoder, Name, Runtime
from stages.common.settings import earlier_model, laid_over
from stages.graph.params import Graph, NodeVectors
from stages.ingest.params import Dataset, Ingest
from stages.keywords.params import EmbedRank, KeywordComparison, Keywords, TextRank, Yake
from stages.params.paths import named_path_problems, with_paths
from stages.params.problems import problem_lines
from stages.params.tracks import TRACK_PROBLEMS, model_problems, unread_keywords
from stages.psi.params import CharacterEncoder, Psi, STagger, WordVectors
from stages.results.params import Compare, Report
from stages.tracks.clld.params import ClldModel, ConfusingPairs, EvaluateClld, LinearBaseline, TrainClld
from stages.tracks.common.params import Evaluation, TextModel, TextRun
from stages.tracks.hcl.params import GenerateHcl, Probe, ProbeHcl, TrainHcl
from stages.tracks.pgkpr.params import EvaluatePgkpr, GeneratePgkpr, ParaphraseItems, TrainPgkpr

Laid = TypeVar("Laid", bound=Block)
# The blocks that a block needs: its data sets must be among theirs.
NEEDS = {"keywords": (), "attribution": ("keywords",), "psi": ("keywords",), "s_tagger": ("psi",),
         "keyword_comparison": ("keywords", "attribution", "psi"), "graph": ("keywords",), "node_vectors": ("graph",),
         "paraphrase_items": ("attribution",), "character_encoder": (), "linear_baseline": ()}
# The blocks that the models of a track need.
MODELS_NEED = {"hcl": ("graph", "node_vectors"), "pgkpr": ("paraphrase_items",), "clld": ("linear_baseline",)}
# The kind of data sets that a block or the models of a track need.
_KIND = {**dict.fromkeys(("attribution", "psi", "s_tagger", "keyword_comparison", "node_vectors", "paraphrase_items",
                          "character_encoder", "hcl", "pgkpr"), "pairs"),
         "linear_baseline": "labelled", "clld": "labelled"}
_TEXTS = {"pairs": "pairs", "labelled": "labelled texts", "plain": "plain texts"}


class Models(Block):
    """Trained models by track."""

    hcl: dict[Name, TextModel] = Field(default_factory=dict)
    pgkpr: dict[Name, TextModel] = Field(default_factory=dict)
    clld: dict[Name, ClldModel] = Field(default_factory=dict)


class ClldRun(Block):
    """A row of the CLLD table, which is made for each model of the track."""

    model: str
    split: Literal["validation", "test"]


class Runs(Block):
    """Rows of the results tables by track; each model of CLLD is a row."""

    hcl: dict[Name, TextRun] = Field(default_factory=dict)
    pgkpr: dict[Name, TextRun] = Field(default_factory=dict)
    clld: dict[Name, ClldRun] = Field(default_factory=dict)


class Probes(Block):
    """Models that are probed, by track."""

    hcl: dict[Name, Probe] = Field(default_factory=dict)


class Params(Block):
    """All params, which DVC tracks."""

    recipe: Name
    seed: int = Field(13, ge=0)
    runtime: Runtime = Runtime()
    cluster: Cluster = Cluster()
    encoder: Encoder = Encoder()
    datasets: dict[Name, Dataset]
    ingest: Ingest = Ingest()
    annotate: Annotate = Annotate()
    textrank: TextRank = TextRank()
    yake: Yake = Yake()
    embedrank: EmbedRank = EmbedRank()
    pair_classifier: PairClassifier = PairClassifier()
    attribution: Attribution = Attribution()
    word_vectors: WordVectors = WordVectors()
    psi: Psi = Psi()
    s_tagger: STagger = STagger()
    keywords: Keywords = Keywords()
    keyword_comparison: KeywordComparison = KeywordComparison()
    graph: Graph = Graph()
    character_encoder: CharacterEncoder = CharacterEncoder()
    node_vectors: NodeVectors = NodeVectors()
    train_hcl: TrainHcl = TrainHcl()
    generate_hcl: GenerateHcl = GenerateHcl()
    probe_hcl: ProbeHcl = ProbeHcl()
    paraphrase_items: ParaphraseItems = ParaphraseItems()
    train_pgkpr: TrainPgkpr = TrainPgkpr()
    generate_pgkpr: GeneratePgkpr = GeneratePgkpr()
    evaluate_pgkpr: EvaluatePgkpr = EvaluatePgkpr()
    train_clld: TrainClld = TrainClld()
    confusing_pairs: ConfusingPairs = ConfusingPairs()
    evaluate_clld: EvaluateClld = EvaluateClld()
    linear_baseline: LinearBaseline = LinearBaseline()
    evaluation: Evaluation = Evaluation()
    compare: Compare = Compare()
    models: Models = Models()
    runs: Runs = Runs()
    probes: Probes = Probes()
    report: Report = Report()

    @model_validator(mode="before")
    @classmethod
    def _rows_are_spelt_out(cls, content: Any) -> Any:
        """Fill in the seeds of models, and the rows of CLLD from its models."""
        models = content.get("models") if isinstance(content, Mapping) else None
        if not isinstance(models, Mapping):
            return content
        seed = content.get("seed", cls.model_fields["seed"].default)
        seeded = {track: {name: _seeded(row, seed) for name, row in rows.items()}
                  if isinstance(rows, Mapping) else rows for track, rows in models.items()}
        runs, block = content.get("runs") or {}, content.get("evaluate_clld")
        if not isinstance(runs, Mapping):
            return {**content, "models": seeded}
        if "clld" in runs:
            raise ValueError("runs.clld: every model of models.clld is a row; take this out (evaluate_clld.split says "
                             "which texts are classified)")
        split = block.get("split", "test") if isinstance(block, Mapping) else "test"
        rows = models.get("clld")
        return {**content, "models": seeded, "runs": {**runs, "clld": {
            name: {"model": name, "split": split} for name in (rows if isinstance(rows, Mapping) else ())}}}

    @model_validator(mode="before")
    @classmethod
    def _data_sets_are_named(cls, content: Any) -> Any:
        """Fill in the data sets of blocks that name none with those that models and other blocks need."""
        if not isinstance(content, Mapping):
            return content
        wanted: dict[str, list[Any]] = {block: [] for block in NEEDS}
        for track, rows in _mapping(content.get("models")).items():
            for row in _mapping(rows).values():
                for block in MODELS_NEED.get(track, ()):
                    wanted[block] += [row["dataset"]] if isinstance(_mapping(row).get("dataset"), str) else []
        filled = dict(content)
        for block in reversed(NEEDS):  # a block comes after those that it needs
            values = content.get(block, {})
            if wanted[block] and isinstance(values, Mapping) and "datasets" not in values:
                names: dict[str, Any] = dict.fromkeys(wanted[block], {})
                values = filled[block] = {**values, "datasets": names if block == "paraphrase_items" else list(names)}
            named = _mapping(values).get("datasets")
            if isinstance(named, list | Mapping):
                for needed in NEEDS[block]:
                    wanted[needed] += [name for name in named if isinstance(name, str)]
        return filled

    @model_validator(mode="after")
    def _blocks_agree(self) -> "Params":
        problems = [f"models.{track}.{name}.dataset: no data set {model.dataset!r}; "
                    f"{nearest(model.dataset, self.datasets)}" for track, models in self.models
                    for name, model in models.items() if model.dataset not in self.datasets]
        problems += [f"runs.{track}.{name}.model: no model {run.model!r}; {nearest(run.model, models)}"
                     for track, models in self.models for name, run in getattr(self.runs, track).items()
                     if run.model not in models]
        problems += [f"probes.hcl.{name}.model: no model {probe.model!r}; {nearest(probe.model, self.models.hcl)}"
                     for name, probe in self.probes.hcl.items() if probe.model not in self.models.hcl]
        problems += [f"{block}.{later}.{name}: {block}.{earlier} has one of that name too, and both would write the "
                     f"same folder; rename one of them"
                     for block, tracks in (("models", self.models), ("runs", self.runs))
                     for (earlier, its), (later, others) in combinations(tracks, 2) for name in others if name in its]
        problems += [*self._branch_problems(), *self._keyword_problems(), *named_path_problems(self)]
        for name in self.datasets:
            problems += _problems(f"datasets.{name}.ingest", partial(self.ingest_settings, name))
        for track in MODELS_NEED:
            problems += [*self._unfit_data_sets(track), *self._track_problems(track)]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _branch_problems(self) -> list[str]:
        """Return the problems of data sets of blocks and models: unknown, of another kind, or not in a needed block."""
        problems = []
        for block, needed in NEEDS.items():
            for name in self.named(block):
                if name not in self.datasets:
                    problems.append(f"{block}.datasets: no data set {name!r}; {nearest(name, self.datasets)}")
                    continue
                kind, needed_kind = self._kind(name), _KIND.get(block)
                if needed_kind is not None and kind != needed_kind:
                    problems.append(f"{block}.datasets: data set {name} has {_TEXTS[kind]}, and the stage needs "
                                    f"{_TEXTS[needed_kind]}")
                problems += [_lacking(f"{block}.datasets", other, name) for other in needed
                             if name not in self.named(other)]
        problems += [_lacking(f"models.{track}.{name}", block, model.dataset)
                     for track, models in self.models for name, model in models.items()
                     for block in MODELS_NEED[track]
                     if model.dataset in self.datasets and model.dataset not in self.named(block)
                     and self._kind(model.dataset) == _KIND[track]]
        return problems

    def named(self, block: str) -> list[str]:
        """Return the data sets of a block."""
        return list(getattr(self, block).datasets)

    def _keyword_problems(self) -> list[str]:
        """Return the problems of data sets that cannot have keywords by ``keywords.method``."""
        method = self.keywords.method
        if not METHODS[method].needs_pairs:
            return []
        problems = [f"keywords.method: {method} learns from pairs of texts, and data set {name} of keywords.datasets "
                    f"has {self._kind(name)} texts; choose {' or '.join(FOR_ANY_TEXT)}"
                    if self._kind(name) != "pairs" else _lacking(f"keywords.method {method}", method, name)
                    for name in self.keywords.datasets
                    if name in self.datasets and name not in self.named(method)]
        if "xx" not in getattr(self, method).modes:
            problems.append(f"keywords.method: {method} names keywords by the scores of a text paired with itself; add "
                            f"xx to {method}.modes")
        return problems

    def _unfit_data_sets(self, track: str) -> list[str]:
        """Return the models of a track whose data set is of another kind than they need."""
        fit = [name for name in self.datasets if self._kind(name) == _KIND[track]]
        return [f"models.{track}.{name}.dataset: {model.dataset} has {_TEXTS[self._kind(model.dataset)]}, and the "
                f"model needs {_TEXTS[_KIND[track]]}; {nearest(model.dataset, fit)}"
                for name, model in getattr(self.models, track).items()
                if model.dataset in self.datasets and model.dataset not in fit]

    def _kind(self, dataset: str) -> str:
        """Return the kind of a data set: ``pairs``, ``labelled`` or ``plain``."""
        layout = self.datasets[dataset].layout
        return "pairs" if is_paired(layout) else "labelled" if structure_of(layout) == "labelled" else "plain"

    def _track_problems(self, track: str) -> list[str]:
        """Return the problems of the models and runs of a track; a valid run is also compared with its valid model."""
        problems, valid = TRACK_PROBLEMS[track](self), set()
        for name, model in getattr(self.models, track).items():
            wrong = _problems(f"models.{track}.{name}.overrides", partial(self.model, name, track))
            problems += wrong or model_problems(track, name, model, self.model(name, track))
            valid |= set() if wrong else {name}
        for name, run in getattr(self.runs, track).items():
            if hasattr(run, "decode"):
                wrong = _problems(f"runs.{track}.{name}.decode", partial(self.decoding, name, track))
                problems += wrong
                if track == "pgkpr" and not wrong and run.model in valid:
                    problems += unread_keywords(name, run, self.decoding(name, track), self.model(run.model, track))
        return problems

    def ingest_settings(self, name: str) -> Ingest:
        """Return the settings of data set ``name``: the block ``ingest`` with its own values."""
        return _laid(self.ingest, self.datasets[name].ingest)

    def model(self, name: str, track: str = "") -> Any:
        """Return the settings of model ``name``: the block of its track with the model's overrides."""
        track = track or _track(self.models, name)
        return _laid(getattr(self, f"train_{track}"), getattr(self.models, track)[name].overrides)

    def decoding(self, run: str, track: str = "") -> Any:
        """Return the decoding settings of ``run``: the block of its track with the run's own values."""
        track = track or _track(self.runs, run)
        return _laid(getattr(self, f"generate_{track}"), getattr(self.runs, track)[run].decode)

    def resolved(self) -> "Params":
        """Return the params with presets and paths resolved in all values that data sets, models and runs replace."""
        datasets = {name: _spelt(dataset, "ingest", self.ingest_settings(name))
                    for name, dataset in self.datasets.items()}
        models = {track: {name: _spelt(model, "overrides", self.model(name)) for name, model in entries.items()}
                  for track, entries in self.models}
        runs = {track: {name: _spelt(run, "decode", self.decoding(name)) if hasattr(run, "decode") else run
                        for name, run in entries.items()} for track, entries in self.runs}
        return with_paths(self.model_copy(update={
            "datasets": datasets, "models": self.models.model_copy(update=models),
            "runs": self.runs.model_copy(update=runs)}))

    def plain(self) -> dict[str, Any]:
        """Return the plain params as stages read them, with the seed of the model that each model starts from."""
        values = super().plain()
        for track, models in self.models:
            for name, model in models.items():
                earlier = earlier_model(model)
                if earlier is not None:
                    seeds = getattr(self.models, track)[earlier].seeds
                    values["models"][track][name]["earlier_seeds"] = [seed if seed in seeds else seeds[0]
                                                                      for seed in model.seeds]
        return values

    def model_seeds(self, name: str) -> list[int]:
        """Return the seeds that model ``name`` of any track is trained with."""
        seeds: list[int] = getattr(self.models, _track(self.models, name))[name].seeds
        return seeds

    def run_seeds(self, name: str) -> list[int]:
        """Return the seeds of run ``name`` of any track: those of its model."""
        return self.model_seeds(getattr(self.runs, _track(self.runs, name))[name].model)


def _laid(block: Laid, own: Mapping[str, Any]) -> Laid:
    return type(block).model_validate(laid_over(block.under(own), own))


def _spelt(entry: Laid, field: str, settings: Block) -> Laid:
    """Return ``entry`` whose ``field`` has the validated values, those of its preset included."""
    given = getattr(entry, field)
    presets = getattr(settings, "presets", {})
    merged = laid_over(presets.get(str(given.get("preset")), {}), given)
    return entry.model_copy(update={field: _picked(settings.plain(), merged)})


def _picked(values: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _picked(values[name], inner) if isinstance(inner, Mapping) else values[name]
            for name, inner in names.items()}


def _mapping(content: Any) -> Mapping[str, Any]:
    return content if isinstance(content, Mapping) else {}


def _seeded(row: Any, seed: Any) -> Any:
    return {**row, "seeds": [seed]} if isinstance(row, Mapping) and row.get("seeds") is None else row


def _lacking(place: str, block: str, dataset: str) -> str:
    return f"{place} needs {block}.datasets to name {dataset!r}"


def _track(tracks: Models | Runs, name: str) -> str:
    return next(track for track in type(tracks).model_fields if name in getattr(tracks, track))


def _problems(place: str, check: Callable[[], object]) -> list[str]:
    try:
        check()
    except ValueError as error:
        return problem_lines(error, place)
    return []
