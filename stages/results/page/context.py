"""The page: artifacts are read, turned into plain values, and rendered as one HTML file with its plots beside it."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stages.common.figures import Plot
from stages.common.settings import Params
from stages.results.gather import first_predictions, read_results
from stages.results.model import Block, Model, Results, Run
from stages.results.page.answers import Answer, Step, answer, step_tables
from stages.results.page.classes import ClassifierView, classifier_views
from stages.results.page.corpus import Dataset, explorer_data, json_markup, read_dataset
from stages.results.page.curves import best_epoch, curve_groups, series_colour
from stages.results.page.examples import Example, segments, shown_examples
from stages.results.page.tables import ResultTable, described, percentage, result_tables, settings_text, value_text
from stages.results.track import Question, TrackResults
from stages.results.tracks import TRACKS

GRAPH_BYTES = 700_000       # of the page, shared by all data sets
_TEMPLATES = Path(__file__).parent / "templates"


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
    """Systems on the same items: their answer, tables and some examples; CLLD's steps and classifiers."""

    about: Block
    name: str
    answer: Answer
    tables: list[ResultTable]
    examples: list[Example] = field(default_factory=list)
    steps: list[tuple[str, list[Step]]] = field(default_factory=list)
    classifiers: list[ClassifierView] = field(default_factory=list)

    @property
    def heading(self) -> str:
        """Data set and split."""
        return f"{self.about.dataset}, {self.about.split} split"

    @property
    def level(self) -> str:
        """Level of the intervals."""
        return percentage(float(self.about.settings.get("level", 0.95))).replace(".0", "")

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
    curves: list[tuple[Question, list[Plot]]]

    @property
    def examples(self) -> list[BlockView]:
        """Blocks of which examples are shown."""
        return [block for block in self.blocks if block.examples]

    @property
    def baselines(self) -> list[tuple[str, str]]:
        """Baselines that were scored, each with its meaning."""
        scored = {baseline.name for block in self.blocks for baseline in block.about.baselines}
        return [(name, meaning) for name, meaning in self.about.baselines.items() if name in scored]


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
        return [*(plot for track in self.tracks for _, plots in track.curves for plot in plots),
                *(plot for block in self.blocks for view in block.classifiers for plot in view.plots)]

    @property
    def keyworded(self) -> list[Dataset]:
        """Data sets with keywords or with a graph of them."""
        return [view for view in self.datasets if view.tops or view.graph]

    @property
    def few_seeds(self) -> bool:
        """Whether a row has fewer seeds than a verdict takes."""
        return any(block.answer.few_seeds for block in self.blocks)

    @property
    def sections(self) -> list[tuple[str, str]]:
        """Name (of its template too) and title of each section with content, in the order of the page."""
        parts = (("answer", "In short", self.blocks),
                 ("examples", "Examples", [block for block in self.blocks if block.examples]),
                 ("corpus", "Corpus", self.keyworded), ("results", "Tables", self.blocks),
                 ("training", "Training", [track for track in self.tracks if track.models]), ("ran", "What ran", True))
        return [(name, title) for name, title, content in parts if content]

    def language(self, dataset: str) -> str:
        """Return the language code of a data set's texts."""
        return next((view.settings["language"] for view in self.datasets if view.name == dataset), "")


def gather(params: Params) -> tuple[Results, list[Dataset]]:
    """Read the artifacts of every data set, model and run of the params; missing ones are an ``InputError``."""
    results = read_results(params)
    runs = [run if run.classifier is not None else
            replace(run, predictions=first_predictions(TRACKS[run.track], run.paths)) for run in results.runs]
    return replace(results, runs=runs), [read_dataset(name, block.plain()) for name, block in params.datasets.items()]


def build(results: Results, datasets: list[Dataset], examples: int = 0) -> Page:
    """Return the page's content; ``examples`` is the number of items whose outputs are shown, over all blocks."""
    graphs = {dataset.name: dataset.graph for dataset in datasets if dataset.graph is not None}
    data = {name: explorer_data(graph, GRAPH_BYTES // len(graphs)) for name, graph in graphs.items()}
    used = {run.track for run in results.runs} | {model.track for model in results.models}
    tracks = [track for track in TRACKS.values() if track.name in used]
    writing = sum(not block.track.classifies for block in results.blocks)
    per_block = -(-examples // max(writing, 1))
    # The word vectors of the metrics, each once.
    vectors = [emb for run in results.runs if isinstance(emb := run.metrics["settings"].get("emb"), dict)]
    encoders = list({(encoder["name"], encoder["sha256"]): encoder for encoder in vectors}.values())
    return Page(results, encoders, datasets, [_track(track, results, per_block) for track in tracks],
                {name: shown for name, shown in data.items() if shown["nodes"]})


def _track(track: TrackResults, results: Results, examples: int) -> TrackView:
    """Return the page's content of one track."""
    models = [model for model in results.models if model.track == track.name]
    runs = [run for run in results.runs if run.track == track.name]
    blocks = [block for block in results.blocks if block.track is track]
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
        return replace(view, steps=step_tables(block), classifiers=classifier_views(block, own))
    return replace(view, examples=shown_examples(block, own, examples))


def _model(model: Model, track: TrackResults, place: int) -> ModelView:
    history = model.history
    epochs, best = 0 if history is None else int(history["epoch"].max()), best_epoch(history)
    column, _ = track.judged_by
    kept = [] if history is None or column not in history else history.loc[history["epoch"] == best, column].tolist()
    return ModelView(model.name, model.dataset, model.seed, settings_text(model.overrides) or "none",
                     series_colour(place), epochs, best, value_text(float(kept[0])) if kept else "–")


def rendered(page: Page) -> dict[str, bytes]:
    """Return the files of the report by name: the page, and ``plots/<name>.svg``."""
    files = {"index.html": html(page).encode()}
    for plot in page.plots:
        files[f"plots/{plot.name}.svg"] = plot.svg.encode()
    return files


def html(page: Page) -> str:
    """Return the page as HTML; whatever comes from data is escaped."""
    environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters |= {"embedded": json_markup, "cut": segments}
    script = f"(() => {{\n\"use strict\";\n{_template('page.js')}}})();\n"
    return environment.get_template("page.html").render(page=page, style=Markup(_template("page.css")),
                                                        script=Markup(script), policy=_policy(script))


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")      # our own file, no data in it


def _policy(script: str) -> str:
    """Return the Content-Security-Policy: this script and no other, inline styles (of matplotlib), no network."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
            f"base-uri 'none'; form-action 'none'")
