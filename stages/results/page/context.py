"""The content of the page: artifacts are read and turned into plain values for the templates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stages.common.figures import Plot
from stages.common.settings import Params
from stages.results.gather import first_predictions, read_results
from stages.results.model import Block, Model, Results, Run
from stages.results.page.answers import Answer, StepRow, answer, step_tables
from stages.results.page.classes import ClassifierView, ClassTable, class_table, classifier_views
from stages.results.page.corpus import Dataset, read_dataset
from stages.results.page.curves import CurveGroup, best_epoch, curve_groups, series_colour
from stages.results.page.examples import Example, shown_examples
from stages.results.page.explorer import explorer_data
from stages.results.page.labels import settings_text, value_text
from stages.results.page.tables import ResultTable, described, level, result_tables
from stages.results.track import TrackResults
from stages.results.tracks import TRACKS

GRAPH_BYTES = 700_000       # of the page, shared by all data sets


@dataclass(frozen=True)
class Material:
    """Everything the page is made from; the results have the predictions of all runs that write texts."""

    results: Results
    datasets: list[Dataset]


@dataclass(frozen=True)
class ModelView:
    """A trained model: its colour among the curves, its selected epoch (0 if unknown) and the value that chose it."""

    name: str
    dataset: str
    seed: int
    overrides: str
    colour: str
    epochs: int
    best_epoch: int
    judged: str


@dataclass(frozen=True)
class BlockView:
    """Systems on the same items: their answer, tables and some examples; CLLD's steps, and results by class."""

    about: Block
    name: str
    answer: Answer
    tables: list[ResultTable]
    examples: list[Example] = field(default_factory=list)
    steps: list[tuple[str, list[StepRow]]] = field(default_factory=list)
    classifiers: list[ClassifierView] = field(default_factory=list)
    by_class: ClassTable | None = None

    @property
    def heading(self) -> str:
        """Data set and split."""
        return f"{self.about.dataset}, {self.about.split} split"

    @property
    def level(self) -> str:
        """Level of the intervals."""
        return level(self.about)

    def setting(self, name: str) -> str:
        """Return a setting of the evaluation in one line; empty if it is not given."""
        return described(self.about.settings.get(name))


@dataclass(frozen=True)
class TrackView:
    """Everything of one method: its results, examples and trainings."""

    about: TrackResults
    models: list[ModelView]
    runs: list[tuple[str, str, str, str]]
    blocks: list[BlockView]
    curves: list[CurveGroup]

    @property
    def examples(self) -> list[BlockView]:
        """Blocks of which examples are shown."""
        return [block for block in self.blocks if block.examples]

    @property
    def floors(self) -> list[tuple[str, str]]:
        """Floors that were scored, each with its meaning."""
        scored = {floor.name for block in self.blocks for floor in block.about.floors}
        return [(name, meaning) for name, meaning in self.about.floors.items() if name in scored]


@dataclass(frozen=True)
class Page:
    """Everything that the templates need; ``data`` is the part of each data set's graph that scripts read."""

    results: Results
    encoders: list[dict[str, Any]]
    datasets: list[Dataset]
    tracks: list[TrackView]
    data: Mapping[str, Any]
    first: bool = False

    @property
    def blocks(self) -> list[BlockView]:
        """Results of all tracks."""
        return [block for track in self.tracks for block in track.blocks]

    @property
    def plots(self) -> list[Plot]:
        """Every plot of the page."""
        return [*(plot for track in self.tracks for group in track.curves for plot in group.plots),
                *(plot for block in self.blocks for view in block.classifiers for plot in view.plots)]

    @property
    def keyworded(self) -> list[Dataset]:
        """Data sets with keywords or with a graph of them."""
        return [view for view in self.datasets if view.tops or view.graph]

    @property
    def one_seed(self) -> bool:
        """Whether a row has one seed alone, which gives no verdict."""
        return any(block.answer.one_seed for block in self.blocks)

    @property
    def sections(self) -> list[tuple[str, str]]:
        """Name (of its template too) and title of each section with content, in the order of the page."""
        parts = (("answer", "In short", self.blocks),
                 ("examples", "Examples", [block for block in self.blocks if block.examples]),
                 ("corpus", "Corpus", self.keyworded), ("results", "Tables", self.blocks),
                 ("training", "Training", [track for track in self.tracks if track.models]), ("ran", "What ran", True))
        return [(name, title) for name, title, found in parts if found]

    def language(self, dataset: str) -> str:
        """Return the language code of a data set's texts."""
        return next((view.settings["language"] for view in self.datasets if view.name == dataset), "")


def gather(params: Params) -> Material:
    """Read the artifacts of every data set, model and run that the params list.

    Raises:
        InputError: a listed run has no metrics or predictions, or a file cannot be read.
    """
    results = read_results(params)
    runs = [run if run.classifier is not None else
            replace(run, predictions=first_predictions(TRACKS[run.track], run.paths)) for run in results.runs]
    return Material(replace(results, runs=runs),
                    [read_dataset(name, block.plain()) for name, block in params.datasets.items()])


def build(material: Material, examples: int = 0) -> Page:
    """Return the page's content; ``examples`` is the number of items whose outputs are shown, over all blocks."""
    results = material.results
    graphs = {dataset.name: dataset.graph for dataset in material.datasets if dataset.graph is not None}
    data = {name: explorer_data(graph, GRAPH_BYTES // len(graphs)) for name, graph in graphs.items()}
    shown = [track for track in TRACKS.values() if results.runs_of(track) or results.models_of(track)]
    writing = sum(not block.track.classifies for block in results.blocks)
    each = -(-examples // max(writing, 1))
    return Page(results, _encoders(material), material.datasets, [_track(track, results, each) for track in shown],
                {name: found for name, found in data.items() if found["nodes"]})


def _track(track: TrackResults, results: Results, examples: int) -> TrackView:
    """Return the page's content of one track."""
    blocks, models, runs = results.blocks_of(track), results.models_of(track), results.runs_of(track)
    return TrackView(
        track, [_model(model, track, place) for place, model in enumerate(models)],
        [(run.name, track.names.label(run.row), run.model, settings_text(run.decode) or "none") for run in runs],
        [_block(block, f"{track.name}-{place}", runs, examples) for place, block in enumerate(blocks)],
        curve_groups(models, track.questions, track.curve_names))


def _block(block: Block, name: str, runs: Sequence[Run], examples: int) -> BlockView:
    names = [system.name for system in block.runs]
    own = [run for run in runs if run.name in names]
    view = BlockView(block, name, answer(block), result_tables(block))
    if block.track.classifies:
        return replace(view, steps=step_tables(block), classifiers=classifier_views(block, own),
                       by_class=class_table(block, own))
    return replace(view, examples=shown_examples(block, own, examples))


def _model(model: Model, track: TrackResults, place: int) -> ModelView:
    history = model.history
    epochs, best = 0 if history is None else len(history), best_epoch(history)
    column, _ = track.judged_by
    kept = [] if history is None or column not in history else history.loc[history["epoch"] == best, column].tolist()
    return ModelView(model.name, model.dataset, model.seed, settings_text(model.overrides) or "none",
                     series_colour(place), epochs, best, value_text(float(kept[0])) if kept else "–")


def _encoders(material: Material) -> list[dict[str, Any]]:
    """Return the encoders that tables and metrics name, each once."""
    found = [one for dataset in material.datasets for one in dataset.encoders]
    found += [emb for run in material.results.runs if isinstance(emb := run.metrics["settings"].get("emb"), dict)]
    # A metric says beside the encoder what it makes of it.
    return list({tuple(one.get(key) for key in ("name", "version", "sha256")): one for one in reversed(found)}.values()
                )[::-1]
