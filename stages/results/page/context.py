"""From artifacts to what the templates show: read them, and turn results into plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stages.common.figures import Plot
from stages.common.settings import Params
from stages.results.gather import first_predictions, read_results
from stages.results.model import Block, Model, Results, Run
from stages.results.page.classes import ClassifierView, ClassTable, class_table, classifier_views
from stages.results.page.corpus import Dataset, read_dataset
from stages.results.page.curves import CurveGroup, best_epoch, curve_groups, series_colour
from stages.results.page.differences import StepRow, step_tables
from stages.results.page.examples import Example, shown_examples
from stages.results.page.explorer import explorer_data
from stages.results.page.labels import settings_text, value_text
from stages.results.page.summary import SummaryBlock, summary_block
from stages.results.page.tables import PrintedTable, ResultTable, described, level, printed_tables, result_tables
from stages.results.track import TrackResults
from stages.results.tracks import TRACKS

GRAPH_BYTES = 1_800_000     # shared by all data sets


@dataclass(frozen=True)
class Material:
    """Everything the page is made from; the results have the predictions of all runs that write texts."""

    results: Results
    datasets: list[Dataset]


@dataclass(frozen=True)
class ModelView:
    """One trained model: its colour among the curves, its selected epoch (0 if unknown) and how that was judged."""

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
    """Systems on the same items: tables, some examples; CLLD's steps, and classifiers class by class."""

    about: Block
    name: str
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
        """Return a setting of the evaluation in one line; empty if it does not say."""
        return described(self.about.settings.get(name))


@dataclass(frozen=True)
class TrackView:
    """Everything of one method: its results, examples and trainings."""

    about: TrackResults
    models: list[ModelView]
    runs: list[tuple[str, str, str, str]]
    blocks: list[BlockView]
    printed: list[PrintedTable]
    curves: list[CurveGroup]
    summary: list[SummaryBlock]

    @property
    def parts_shown(self) -> list[tuple[str, str]]:
        """Name (of its template too) and title of each part that has something in it, in the order of the page."""
        parts = (("results", "Results", self.blocks), ("published", "Published", self.blocks and self.printed),
                 ("classes", "Classes", self.about.classifies and self.blocks),
                 ("examples", "Examples", [block for block in self.blocks if block.examples]),
                 ("training", "Training", self.models))
        return [(name, title) for name, title, found in parts if found]

    @property
    def floors(self) -> list[tuple[str, str]]:
        """Floors that were scored, and what each tells."""
        scored = {floor.name for block in self.blocks for floor in block.about.floors}
        return [(name, said) for name, said in self.about.floors.items() if name in scored]


@dataclass(frozen=True)
class Page:
    """Everything that the templates need; ``data`` is what scripts read of the graphs, by data set."""

    results: Results
    encoders: list[dict[str, Any]]
    datasets: list[Dataset]
    tracks: list[TrackView]
    data: dict[str, Any]
    first: bool = False

    @property
    def plots(self) -> list[Plot]:
        """Every plot of the page, in its order."""
        found = [plot for track in self.tracks for group in track.curves for plot in group.plots]
        found += [plot for track in self.tracks for block in track.blocks for view in block.classifiers
                  for plot in view.plots]
        return found

    @property
    def keyworded(self) -> list[Dataset]:
        """Data sets of which there are keywords or a graph of them."""
        return [view for view in self.datasets if view.tops or view.graph]

    @property
    def summarised(self) -> list[SummaryBlock]:
        """What the summary says, of all tracks."""
        return [block for track in self.tracks for block in track.summary]

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
    """Return the page's content, with the outputs for so many ``examples`` of each block."""
    results = material.results
    graphs = {dataset.name: dataset.graph for dataset in material.datasets if dataset.graph is not None}
    data = {name: explorer_data(graph, GRAPH_BYTES // len(graphs)) for name, graph in graphs.items()}
    shown = [track for track in TRACKS.values() if results.runs_of(track) or results.models_of(track)]
    return Page(results, _encoders(material), material.datasets,
                [_track(track, results, examples) for track in shown],
                {name: found for name, found in data.items() if found["nodes"]})


def _track(track: TrackResults, results: Results, examples: int) -> TrackView:
    """Return what the page shows of one track."""
    blocks, models, runs = results.blocks_of(track), results.models_of(track), results.runs_of(track)
    return TrackView(
        track, [_model(model, track, place) for place, model in enumerate(models)],
        [(run.name, track.names.label(run.row), run.model, settings_text(run.decode) or "none") for run in runs],
        [_block(block, f"{track.name}-{place}", runs, examples) for place, block in enumerate(blocks)],
        printed_tables(blocks, track), curve_groups(models, track.questions, track.curve_names),
        [summary_block(block, level(block)) for block in blocks])


def _block(block: Block, name: str, runs: Sequence[Run], examples: int) -> BlockView:
    names = [system.name for system in block.runs]
    own = [run for run in runs if run.name in names]
    found = BlockView(block, name, result_tables(block))
    if block.track.classifies:
        return replace(found, steps=step_tables(block), classifiers=classifier_views(block, own),
                       by_class=class_table(block, own))
    return replace(found, examples=shown_examples(block, own, examples))


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
