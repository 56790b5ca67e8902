"""From artifacts to what the templates show: read them, and turn results into plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stages.common.figures import Plot
from stages.common.paths import ProbePaths, seeded_name
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.results.gather import first_predictions, read_json, read_results
from stages.results.model import Block, Model, Results, Run, SharesTable, shares_tables
from stages.results.page.classifiers import ClassifierView, ClassTable, class_table, classifier_views
from stages.results.page.corpus import Dataset, read_dataset
from stages.results.page.curves import CurveGroup, best_epoch, curve_groups, series_colour
from stages.results.page.differences import DifferenceTable, StepRow, difference_tables, step_tables
from stages.results.page.examples import Example, shown_examples
from stages.results.page.explorer import explorer_data
from stages.results.page.labels import rows_of, settings_text, value_text
from stages.results.page.summary import Alarm, SummaryBlock, alarms_of, summary_block
from stages.results.page.tables import PrintedTable, ResultTable, described, level, printed_tables, result_tables
from stages.results.track import TrackResults
from stages.results.tracks import TRACKS
from stages.tracks.hcl.track import KEYWORD_SWAP

# Bytes shared by all data sets, and by all blocks of classifiers; the page of a recipe of ordinary size stays below
# 5 MB.
GRAPH_BYTES = 1_800_000
CLASS_BYTES = 900_000       # of pictures; on a page without another track, three times as many
_CHOICES = {"textrank": "its own (TextRank)", "random": "random", "given": "given"}


@dataclass(frozen=True)
class Probe:
    """What a model writes under other keywords: counts, and rows of table ``keyword_swap``, of one input together."""

    model: str
    dataset: str
    counts: list[tuple[str, str]]
    items: list[list[dict[Any, Any]]]


@dataclass(frozen=True)
class Material:
    """Everything the page is made from; the results have the predictions of all runs that write texts."""

    results: Results
    datasets: list[Dataset]
    probes: list[Probe] = field(default_factory=list)


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
    settings: list[tuple[str, str]]
    alarms: list[str]


@dataclass(frozen=True)
class BlockView:
    """Systems on the same items: tables, differences, some examples; runs of classifiers are opened class by class."""

    about: Block
    name: str
    tables: list[ResultTable]
    differences: list[DifferenceTable]
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
    """Everything of one method: its results, examples, trainings and probes."""

    about: TrackResults
    models: list[ModelView]
    runs: list[tuple[str, str, str, str]]
    blocks: list[BlockView]
    printed: list[PrintedTable]
    shares: list[SharesTable]
    curves: list[CurveGroup]
    probes: list[Probe]
    alarms: list[Alarm]
    summary: list[SummaryBlock]

    @property
    def parts_shown(self) -> list[tuple[str, str]]:
        """Name (of its template too) and title of each part that has something in it, in the order of the page."""
        parts = (("results", "Results", self.blocks), ("published", "Published", self.blocks and self.printed),
                 ("classes", "Classes", self.about.classifies and self.blocks),
                 ("examples", "Examples", [block for block in self.blocks if block.examples]),
                 ("training", "Training", self.models), ("probes", "Keyword swap", self.probes))
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
    remark_on_alarms: str | None = None
    first: bool = False

    @property
    def plots(self) -> list[Plot]:
        """Every plot of the page, in its order."""
        found = [plot for track in self.tracks for group in track.curves for plot in group.plots]
        found += [plot for track in self.tracks for block in track.blocks for view in block.classifiers
                  for plot in view.plots]
        found += [plot for dataset in self.datasets for plot in (dataset.parts_of_speech, dataset.degrees) if plot]
        return found

    @property
    def keyworded(self) -> list[Dataset]:
        """Data sets of which there are keywords or a graph of them."""
        return [view for view in self.datasets if view.has_keywords or view.graph]

    @property
    def summarised(self) -> list[SummaryBlock]:
        """What the summary says, of all tracks."""
        return [block for track in self.tracks for block in track.summary]

    @property
    def alarms(self) -> list[Alarm]:
        """Alarms of all tracks."""
        return [alarm for track in self.tracks for alarm in track.alarms]

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
    return Material(
        replace(results, runs=runs),
        [read_dataset(name, block.plain()) for name, block in params.datasets.items()],
        [_probe(paths, seeded_name(probe.model, block.seeds[0], block.seeds), block.dataset)
         for name, probe in params.probes.hcl.items() for block in [params.models.hcl[probe.model]]
         if (paths := ProbePaths(name)).metrics.exists()])


def _probe(paths: ProbePaths, model: str, dataset: str) -> Probe:
    """Return a probe, the rows of each input with its own keyword first."""
    order = list(_CHOICES)
    items = [sorted(rows.to_dict("records"), key=lambda row: order.index(row["choice"]))
             for _, rows in read_frame(paths.table("keyword_swap"), KEYWORD_SWAP).groupby("example_id", sort=True)]
    counts = read_json(paths.metrics, f"probe_hcl@{paths.name}").get("keyword_swap", {})
    return Probe(model, dataset, list(rows_of(counts)),
                 [[{**row, "choice": _CHOICES[row["choice"]]} for row in item] for item in items])


def build(material: Material, examples: int = 0, remark_on_alarms: str | None = None) -> Page:
    """Return the page's content, with the outputs for so many ``examples`` of each block."""
    results = material.results
    graphs = {dataset.name: dataset.graph for dataset in material.datasets if dataset.graph is not None}
    data = {name: explorer_data(graph, GRAPH_BYTES // len(graphs)) for name, graph in graphs.items()}
    shown = [track for track in TRACKS.values() if results.runs_of(track) or results.models_of(track)]
    pictures = CLASS_BYTES * (1 if len(shown) > 1 else 3)
    return Page(results, _encoders(material), material.datasets,
                [_track(track, material, examples, pictures) for track in shown],
                {name: found for name, found in data.items() if found["nodes"]}, remark_on_alarms)


def _track(track: TrackResults, material: Material, examples: int, pictures: int) -> TrackView:
    """Return what the page shows of one track."""
    results = material.results
    blocks, models, runs = results.blocks_of(track), results.models_of(track), results.runs_of(track)
    alarms = alarms_of(models)
    return TrackView(
        track, [_model(model, track, place) for place, model in enumerate(models)],
        [(run.name, track.names.label(run.row), run.model, settings_text(run.decode) or "none") for run in runs],
        [_block(block, f"{track.name}-{place}", runs, examples, pictures // len(blocks))
         for place, block in enumerate(blocks)],
        printed_tables(blocks, track), shares_tables(track, models, {block.split for block in blocks}),
        curve_groups(models, track.questions, track.curve_names),
        [probe for probe in material.probes if probe.model in [model.name for model in models]],
        alarms, [summary_block(block, runs, alarms, level(block)) for block in blocks])


def _block(block: Block, name: str, runs: Sequence[Run], examples: int, pictures: int) -> BlockView:
    names = [system.name for system in block.runs]
    own = [run for run in runs if run.name in names]
    found = BlockView(block, name, result_tables(block), difference_tables(block))
    if block.track.classifies:
        return replace(found, steps=step_tables(block), classifiers=classifier_views(own, pictures),
                       by_class=class_table(block, own))
    return replace(found, examples=shown_examples(block, own, examples))


def _model(model: Model, track: TrackResults, place: int) -> ModelView:
    history = model.history
    epochs, best = 0 if history is None else len(history), best_epoch(history)
    settings = [row for group in sorted(model.shown) for row in rows_of({group: model.shown[group]})]
    column, _ = track.judged_by
    kept = [] if history is None or column not in history else history.loc[history["epoch"] == best, column].tolist()
    return ModelView(model.name, model.dataset, model.seed, settings_text(model.overrides) or "none",
                     series_colour(place), epochs, best, value_text(float(kept[0])) if kept else "–", settings,
                     [alarm.name for alarm in alarms_of([model])])


def _encoders(material: Material) -> list[dict[str, Any]]:
    """Return the encoders that tables and metrics name, each once."""
    found = [one for dataset in material.datasets for one in dataset.encoders]
    found += [emb for run in material.results.runs if isinstance(emb := run.metrics["settings"].get("emb"), dict)]
    # A metric says beside the encoder what it makes of it.
    return list({tuple(one.get(key) for key in ("name", "version", "sha256")): one for one in reversed(found)}.values()
                )[::-1]
