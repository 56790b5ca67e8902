"""The whole of ``params.yaml``."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, model_validator

from stages.common.methods import FOR_ANY_TEXT, METHODS
from stages.common.settings import laid_over
from stages.ingest.layouts.registry import structure_of
from stages.params import clld, hcl, pgkpr
from stages.params.block import Block
from stages.params.checks import TrackChecks, with_watched
from stages.params.clld import ClldModel, ClldRun, ConfusingPairs, EvaluateClld, LinearFloor, TrainClld
from stages.params.data import (
    Annotate,
    Attribution,
    CharacterEncoder,
    Dataset,
    EmbedRank,
    Graph,
    Ingest,
    Keywords,
    NodeVectors,
    PairClassifier,
    Psi,
    SideBySide,
    STagger,
    TextRank,
    WordVectors,
    Yake,
)
from stages.params.evaluation import Compare, Evaluation
from stages.params.for_dvc import NO_OWN_ENCODER, UNREAD, with_names
from stages.params.hcl import GenerateHcl, HclModel, HclRun, Probe, ProbeHcl, TrainHcl
from stages.params.machines import Artifacts, Cluster, Runtime
from stages.params.pgkpr import (
    EvaluatePgkpr,
    GeneratePgkpr,
    ParaphraseItems,
    PgkprModel,
    PgkprRun,
    TrainPgkpr,
)
from stages.params.problems import problem_lines
from stages.params.seeding import with_seeds
from stages.params.watched import BLOCKS, rows_watched
from stages.run.errors import nearest

Laid = TypeVar("Laid", bound=Block)
CHECKS = {"hcl": hcl.CHECKS, "pgkpr": pgkpr.CHECKS, "clld": clld.CHECKS}
# Names become folders, and parts of dotted params keys for DVC: no dots.
Name = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9_-]*$")]
# Folders of artifacts/ that are no data set.
RESERVED = frozenset({"models", "runs", "predictions", "confusing_pairs", "report", "manifests", "comparison",
                      "probes"})


class Encoder(Block):
    """The pre-trained text encoder."""

    source: str = Field("bundled", pattern=r"^(bundled|scratch|hub:.+|path:.+|characters:.+)$", description=(
        "hub:ID is whatever the hub has, hub:ID@COMMIT never another; so with every param that takes hub:ID"))


class Empty(Block):
    """No settings: DVC makes stage instances from the keys of a map."""


class Ranked(Block):
    """Which texts of a data set a keyword method ranks, as DVC watches it."""

    texts: Literal["sources", "all"] = Field("sources", description="all where it names the keywords of the data set, "
                                                                    "or ranks any text")


class Named(Block):
    """What names the keywords of a data set, as DVC watches it."""

    method: str = Field("textrank", description="`keywords.method`, or what `keywords.by_dataset` has in its place")


class OwnEncoders(Block):
    """Encoders that are made here or lie in a folder, as DVC makes and watches them."""

    datasets: dict[Name, Empty] = Field(default_factory=dict, description="whose characters `encoder.source` names")
    watched: str = Field(NO_OWN_ENCODER, description="its folder, or the one that `encoder.source` names; a file that "
                                                     "always exists for others")


class Watched(Block):
    """Files and folders from elsewhere that the params of a block may name, as DVC watches them."""

    pipeline: str = Field(BLOCKS["pipeline"].nothing, description="the folder that `annotate.pipeline` names")
    embedrank: str = Field(BLOCKS["embedrank"].nothing, description="likewise `embedrank.encoder`; a file that always "
                                                                    "exists where it names none")
    word_vectors: str = Field(BLOCKS["word_vectors"].nothing, description="likewise `word_vectors.source`")
    bertscore: str = Field(BLOCKS["bertscore"].nothing, description="likewise `evaluation.bertscore.encoder`")
    emb: str = Field(BLOCKS["emb"].nothing, description="likewise `evaluation.emb`")


class Joined(Block):
    """Tables that the pairs of a data set of the PGKPR track are joined with, as DVC watches them."""

    psi: str = Field(UNREAD["psi"], description="a file that always exists where no model reads primary words")
    s_tags: str = Field(UNREAD["s_tags"], description="likewise, where no run reads the S-Tagger's")
    textrank: str = Field(UNREAD["textrank"], description="likewise, where no model and no run reads words of phrases")


class Models(Block):
    """Trained models by track."""

    hcl: dict[Name, HclModel] = Field(default_factory=dict)
    pgkpr: dict[Name, PgkprModel] = Field(default_factory=dict)
    clld: dict[Name, ClldModel] = Field(default_factory=dict)


class Runs(Block):
    """Rows of the results tables by track."""

    hcl: dict[Name, HclRun] = Field(default_factory=dict)
    pgkpr: dict[Name, PgkprRun] = Field(default_factory=dict)
    clld: dict[Name, ClldRun] = Field(default_factory=dict)


class Probes(Block):
    """Models that are probed, by track."""

    hcl: dict[Name, Probe] = Field(default_factory=dict)


class Report(Block):
    """The page."""

    examples: int = Field(12, ge=0, description="items of the generations shown at a time; 0 leaves them out")
    remark_on_alarms: str | None = Field(
        None, min_length=1, max_length=400, description="a sentence of the recipe's that stands beside the alarms of "
                                                        "its trainings, where there are any")


class Params(Block):
    """The single truth that DVC sees."""

    recipe: str
    seed: int = Field(13, ge=0)
    runtime: Runtime = Runtime()
    cluster: Cluster = Cluster()
    artifacts: Artifacts = Artifacts()
    encoder: Encoder = Encoder()
    datasets: dict[Name, Dataset]
    paired_datasets: dict[Name, Empty] = Field(
        default_factory=dict, description="data sets that are no single texts, for DVC; filled in from `datasets`")
    text_datasets: dict[Name, Named] = Field(
        default_factory=dict, description="data sets of plain texts, likewise, and the method whose phrases are their "
                                          "graph's nodes")
    compared_datasets: dict[Name, Empty] = Field(
        default_factory=dict, description="those of them with `side_by_side`, likewise")
    ranked_datasets: dict[str, dict[Name, Ranked]] = Field(
        default_factory=dict, description="by keyword method, the data sets whose ranking something reads: "
                                          "`side_by_side`, the block `keywords` or models.pgkpr; likewise")
    tagged_datasets: dict[Name, Empty] = Field(
        default_factory=dict, description="those whose S-Tagger something reads, likewise")
    contrasted_datasets: dict[Name, Empty] = Field(
        default_factory=dict, description="data sets that models.hcl names, likewise")
    paraphrase_datasets: dict[Name, Joined] = Field(
        default_factory=dict, description="data sets that models.pgkpr names, likewise")
    keyword_datasets: dict[Name, Named] = Field(
        default_factory=dict, description="data sets whose `keywords` is not false, likewise, and the method that "
                                          "names their keywords")
    classified_datasets: dict[Name, Empty] = Field(
        default_factory=dict, description="data sets that models.clld names, likewise")
    consulted_models: dict[Name, Empty] = Field(
        default_factory=dict, description="models that others of models.clld take their pairs of classes from "
                                          "(pairs_of); filled in from these")
    own_encoders: OwnEncoders = Field(OwnEncoders(), description="likewise, filled in from `encoder`")
    watched: Watched = Field(Watched(), description="likewise, filled in from the blocks that name files and folders")
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
    side_by_side: SideBySide = SideBySide()
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
    linear_floor: LinearFloor = LinearFloor()
    evaluation: Evaluation = Evaluation()
    compare: Compare = Compare()
    models: Models = Models()
    runs: Runs = Runs()
    probes: Probes = Probes()
    report: Report = Report()

    @model_validator(mode="before")
    @classmethod
    def _branches_are_named(cls, content: Any) -> Any:
        datasets = content.get("datasets") if isinstance(content, Mapping) else None
        if not isinstance(datasets, Mapping):
            return content
        return with_names(rows_watched(content), datasets)

    @model_validator(mode="before")
    @classmethod
    def _earlier_models_are_watched(cls, content: Any) -> Any:
        models, runs = (content.get(name) if isinstance(content, Mapping) else None for name in ("models", "runs"))
        if not isinstance(models, Mapping):
            return content
        filled = {**content, "models": {track: with_watched(track, rows, CHECKS[track].earlier)
                                        if isinstance(rows, Mapping) and track in CHECKS else rows
                                        for track, rows in models.items()}}
        if isinstance(runs, Mapping) and isinstance(runs.get("clld"), Mapping):
            filled["runs"] = {**runs, "clld": clld.with_data_sets(runs["clld"], models.get("clld"))}
        return filled

    @model_validator(mode="before")
    @classmethod
    def _seeds_are_spelt_out(cls, content: Any) -> Any:
        models = content.get("models") if isinstance(content, Mapping) else None
        if not isinstance(models, Mapping):
            return content
        seed = content.get("seed", cls.model_fields["seed"].default)
        return {**content, "models": {track: with_seeds(rows, seed) if isinstance(rows, Mapping) else rows
                                      for track, rows in models.items()}}

    @model_validator(mode="after")
    def _names_meet(self) -> "Params":
        problems = [problem for track, models in self.models
                    for problem in _unknown_names(track, models, getattr(self.runs, track), self.datasets)]
        problems += [f"probes.hcl.{name}.model: no model {probe.model!r}; {nearest(probe.model, self.models.hcl)}"
                     for name, probe in self.probes.hcl.items() if probe.model not in self.models.hcl]
        problems += [f"{block}.{later}.{name}: {block}.{earlier} has one of that name too, and both would write the "
                     f"same folder; rename one of them"
                     for block, tracks in (("models", self.models), ("runs", self.runs))
                     for (earlier, its), (later, others) in combinations(tracks, 2) for name in others if name in its]
        problems += [f"datasets.{name}: the name is taken by a folder of the project; choose another"
                     for name in self.datasets if name in RESERVED]
        problems += self._keyword_problems()
        if (own := self.encoder.source.removeprefix("characters:")) != self.encoder.source and (
                own not in self.paired_datasets):
            problems.append(f"encoder.source: no data set of pairs is called {own!r}; "
                            f"{nearest(own, self.paired_datasets)}")
        scorer = self.evaluation.bertscore.encoder or ""
        if scorer.startswith("characters:") and scorer != self.encoder.source:
            problems.append(f"evaluation.bertscore.encoder: {scorer} is made only as encoder.source, and that is "
                            f"{self.encoder.source}; name it there too, or take another one here")
        for name in self.datasets:
            problems += _problems(f"datasets.{name}.ingest", partial(self.ingest_settings, name))
        for track, checks in CHECKS.items():
            problems += [*self._unfit_data_sets(track, checks), *self._track_problems(track, checks)]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _keyword_problems(self) -> list[str]:
        """Return which data sets cannot have their keywords from the method that the block ``keywords`` says."""
        own = self.keywords.by_dataset
        problems = [f"keywords.by_dataset.{name}: no data set of that name has keywords; "
                    f"{nearest(name, self.keyword_datasets)}" for name in own if name not in self.keyword_datasets]
        for name, found in self.keyword_datasets.items():
            method = found.method
            place = f"keywords.{f'by_dataset.{name}' if name in own else 'method'}: {method}"
            if METHODS[method].needs_pairs and name not in self.paired_datasets:
                problems.append(f"{place} learns from pairs of texts, and data set {name} has {self._kind(name)} "
                                f"texts; choose {' or '.join(FOR_ANY_TEXT)}")
            elif METHODS[method].needs_pairs and "xx" not in getattr(self, method).modes:
                problems.append(f"{place} names keywords by the scores of a text beside itself; add xx to "
                                f"{method}.modes")
        return problems

    def _unfit_data_sets(self, track: str, checks: TrackChecks) -> list[str]:
        """Return which models of a track are of data sets of another kind than they need."""
        single = self.datasets.keys() - self.paired_datasets.keys()
        models = [(f"models.{track}.{name}.dataset: {model.dataset} has", model.dataset)
                  for name, model in getattr(self.models, track).items() if model.dataset in self.datasets]
        if not checks.labelled:
            return [f"{place} {self._kind(name)} texts, and the model needs pairs"
                    for place, name in models if name in single]
        labelled = [name for name in single if self._kind(name) == "labelled"]
        return [f"{place} {'pairs' if name in self.paired_datasets else 'plain texts'}, and the model needs labelled "
                f"texts; {nearest(name, labelled)}" for place, name in models if name not in labelled]

    def _kind(self, dataset: str) -> str:
        """Return what texts a data set of single texts has."""
        return "labelled" if structure_of(self.datasets[dataset].layout) == "labelled" else "plain"

    def _track_problems(self, track: str, checks: TrackChecks) -> list[str]:
        """Return what is wrong with the values of models and runs of a track, and with what they are made of.

        A run is held against its model if both are sound by themselves.
        """
        problems, sound = checks.track(self), set()
        for name, model in getattr(self.models, track).items():
            wrong = _problems(f"models.{track}.{name}.overrides", partial(self._model, track, name))
            problems += wrong or checks.model(name, model, self._model(track, name))
            sound |= set() if wrong else {name}
        for name, run in getattr(self.runs, track).items():
            if hasattr(run, "decode"):
                wrong = _problems(f"runs.{track}.{name}.decode", partial(self._decoding, track, name))
                problems += wrong
                if not wrong and run.model in sound:
                    problems += checks.run(name, run, self._decoding(track, name), self._model(track, run.model))
        return problems

    def ingest_settings(self, name: str) -> Ingest:
        """Return the ingest settings of data set ``name``: the ``ingest`` block with its own."""
        return _laid(self.ingest, self.datasets[name].ingest)

    def model(self, name: str) -> Any:
        """Return the settings of model ``name``: the block of its track's training with the model's overrides."""
        return self._model(_track(self.models, name), name)

    def decoding(self, run: str) -> Any:
        """Return the decoding settings of ``run``: the block of its track with the run's own."""
        return self._decoding(_track(self.runs, run), run)

    def _model(self, track: str, name: str) -> Any:
        return _laid(getattr(self, f"train_{track}"), getattr(self.models, track)[name].overrides)

    def _decoding(self, track: str, run: str) -> Any:
        return _laid(getattr(self, f"generate_{track}"), getattr(self.runs, track)[run].decode)

    def settled(self) -> "Params":
        """Return the same with all spelt out that data sets, models and runs lay over blocks, presets among it."""
        datasets = {name: _spelt(dataset, "ingest", self.ingest_settings(name))
                    for name, dataset in self.datasets.items()}
        models = {track: {name: _spelt(model, "overrides", self.model(name)) for name, model in entries.items()}
                  for track, entries in self.models}
        runs = {track: {name: _spelt(run, "decode", self.decoding(name)) if hasattr(run, "decode") else run
                        for name, run in entries.items()} for track, entries in self.runs}
        return self.model_copy(update={"datasets": datasets, "models": self.models.model_copy(update=models),
                                       "runs": self.runs.model_copy(update=runs)})

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
    """Return ``entry`` whose ``field`` holds the values that ``settings`` has for what it lays over a block."""
    given = getattr(entry, field)
    presets = getattr(settings, "presets", {})
    whole = laid_over(presets.get(str(given.get("preset")), {}), given)
    return entry.model_copy(update={field: _picked(settings.plain(), whole)})


def _picked(values: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _picked(values[name], inner) if isinstance(inner, Mapping) else values[name]
            for name, inner in names.items()}


def _track(tracks: Models | Runs, name: str) -> str:
    return next(track for track in type(tracks).model_fields if name in getattr(tracks, track))


def _unknown_names(track: str, models: Mapping[str, Any], runs: Mapping[str, Any],
                   datasets: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the names by which models of a track mean data sets, and runs mean models."""
    return [*(f"models.{track}.{name}.dataset: no data set {model.dataset!r}; {nearest(model.dataset, datasets)}"
              for name, model in models.items() if model.dataset not in datasets),
            *(f"runs.{track}.{name}.model: no model {run.model!r}; {nearest(run.model, models)}"
              for name, run in runs.items() if run.model not in models)]


def _problems(place: str, check: Callable[[], object]) -> list[str]:
    try:
        check()
    except ValueError as error:
        return problem_lines(error, place)
    return []
