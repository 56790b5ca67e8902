"""Turn gathered material into what the templates show: plain values, no artifacts, no files."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from stages.common.figures import Plot
from stages.common.methods import METHODS
from stages.keywords.pos_frequency import pos_plot
from stages.metrics.registered import Metric
from stages.results.model import Block, Model, Run
from stages.results.page.alarms import Alarm, alarms_of
from stages.results.page.cases import CaseStudy, case_study
from stages.results.page.classifiers import ClassifierView, ClassTable, class_table, classifier_views
from stages.results.page.corpus import neighbour_table, size_of, top_table
from stages.results.page.curves import CurveGroup, best_epoch, curve_groups, series_colour
from stages.results.page.differences import DifferenceTable, StepRow, difference_tables, step_tables
from stages.results.page.explorer import explorer_data
from stages.results.page.generations import generations_data, shared_items
from stages.results.page.labels import number, percentage, rows_of, settings_text, stage_label, value_text
from stages.results.page.latent_map import ProbeView, probe_view
from stages.results.page.material import DatasetMaterial, Material
from stages.results.page.mistakes import mistakes_data
from stages.results.page.parts_of_speech import PartsOfSpeech, parts_of_speech
from stages.results.page.plots import degree_plot, keyword_plot, neighbourhood_plots
from stages.results.page.summary import SummaryBlock, summary_block
from stages.results.page.tables import PrintedTable, ResultTable, described, level, printed_tables, result_tables
from stages.results.shares import SharesTable, shares_tables
from stages.results.track import TrackResults
from stages.results.tracks import TRACKS

# Bytes of embedded data, shared by all data sets and by all blocks of results; with the tables and pictures of a
# recipe of ordinary size the page stays below 5 MB.
GRAPH_BYTES = 1_800_000
GENERATION_BYTES = 1_600_000
MISTAKE_BYTES = 200_000     # of each block of classifiers
CLASS_BYTES = 900_000       # of pictures of classifiers; on a page without another track, three times as many
# They bound what a contrast over keywords can do (METHODS A.3).
_BOUNDS = (("share_input_equals_output", "input and output have the same keyword"),
           ("share_output_equals_negative", "output and negative have the same keyword"),
           ("share_with_negative_neighbour", "the output keyword has at least one negative neighbour"))
_METHODS = {name: method.title for name, method in METHODS.items()}
_KEYWORD_METHODS = {**_METHODS, "idf": "IDF (fall-back)", "none": "no keyword"}


@dataclass(frozen=True)
class DatasetView:
    """One data set: counts under headings, keyword and graph statistics, plots, and what the map can open.

    Attributes:
        size: in one line.
        top_methods, tops: the most frequent keywords by method, see :func:`stages.results.page.corpus.top_table`.
        listed: the largest keywords with their neighbours.
        single: its texts belong to no pairs.
    """

    name: str
    size: str
    top_methods: list[str]
    tops: list[list[str]]
    listed: list[tuple[str, str, str, str]]
    origin: str
    language: str
    counts: list[tuple[str, list[tuple[str, str]]]]
    fallbacks: list[str]
    keyword_counts: list[tuple[str, str]]
    methods: list[tuple[str, str]]
    keywords: Plot | None
    graph_counts: list[tuple[str, str]]
    bounds: list[tuple[str, str]]
    degrees: Plot | None
    neighbourhoods: list[Plot]
    agreement: list[tuple[str, ...]]
    parts_of_speech: Plot | None
    beside_methods: list[str]
    beside: list[tuple[str, list[str]]]
    graph_data: str
    openable: int
    nodes: int
    single: bool

    @property
    def has_keywords(self) -> bool:
        """Whether there is anything to say of its keywords."""
        return bool(self.keywords or self.tops or self.keyword_counts or self.methods)

    @property
    def has_graph(self) -> bool:
        """Whether there is anything to say of its graph."""
        return bool(self.degrees or self.graph_counts or self.bounds or self.openable)


@dataclass(frozen=True)
class ModelView:
    """One trained model: its colour among the curves, its selected epoch (0 if unknown), settings and names of alarms.

    Attributes:
        judged: what the validation split said of the selected epoch, see ``TrackResults.judged_by``.
    """

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
    """Systems on the same items: tables, differences, some items and the generations (``data``: id of all of them).

    Runs of a classifier have no generations, and are opened class by class.
    """

    about: Block
    tables: list[ResultTable]
    differences: list[DifferenceTable]
    examples: list[list[Any]]
    data: str
    left_out: int
    study: CaseStudy | None = None
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

    @property
    def has_intervals(self) -> bool:
        """Whether any value has small print below it."""
        return any(cell.more for table in self.tables for row in table.rows for cell in row.cells)

    @property
    def mistakes(self) -> str:
        """Id of the data of classifiers text by text."""
        return _mistakes(self.data)

    def setting(self, name: str) -> str:
        """Return a setting of the evaluation in one line; empty if it does not say."""
        return described(self.about.settings.get(name))


@dataclass(frozen=True)
class TrackView:
    """Everything of one method: its results, generations, trainings and probes, and keywords by part of speech."""

    about: TrackResults
    models: list[ModelView]
    runs: list[tuple[str, str, str, str]]
    blocks: list[BlockView]
    printed: list[PrintedTable]
    shares: list[SharesTable]
    curves: list[CurveGroup]
    probes: list[ProbeView]
    parts: list[PartsOfSpeech]
    alarms: list[Alarm]
    summary: list[SummaryBlock]

    @property
    def parts_shown(self) -> list[tuple[str, str]]:
        """Name (of its template too) and title of each part that has something in it, in the order of the page."""
        parts = (("results", "Results", self.blocks), ("published", "Published", self.blocks and self.printed),
                 ("cases", "Case study", self.studied),
                 ("classes", "Classes", self.about.classifies and self.blocks),
                 ("generations", "Generations", [block for block in self.blocks if block.examples]),
                 ("training", "Training", self.models), ("probes", "Keyword swap, latent space", self.probes),
                 ("parts", "Parts of speech", self.parts))
        return [(name, title) for name, title, found in parts if found]

    @property
    def studied(self) -> list[BlockView]:
        """Blocks with a case study."""
        return [block for block in self.blocks if block.study is not None]

    @property
    def glossary(self) -> list[tuple[str, tuple[Metric, ...]]]:
        """Columns of all tables by the heading of their group, each once."""
        groups = {group.label: group.columns for block in self.blocks for table in block.tables
                  for group in table.groups}
        return list(groups.items())

    @property
    def floors(self) -> list[tuple[str, str]]:
        """Floors that were scored, and what each tells."""
        scored = {floor.name for block in self.blocks for floor in block.about.floors}
        return [(name, said) for name, said in self.about.floors.items() if name in scored]


@dataclass(frozen=True)
class Page:
    """Everything that the templates need.

    Attributes:
        remark_on_alarms: a sentence that the recipe says beside them; None for none.
        data: what scripts read, by the id of its element.
        shown: items of the generations shown at a time.
        first: it is a first page, which the report follows.
    """

    recipe: str
    seed: int
    encoder: str
    encoders: list[dict[str, Any]]
    datasets: list[DatasetView]
    tracks: list[TrackView]
    shown: int
    remark_on_alarms: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    first: bool = False

    @property
    def plots(self) -> list[Plot]:
        """Every plot of the page, in its order."""
        found = [plot for track in self.tracks for group in track.curves for plot in group.plots]
        found += [part.plot for track in self.tracks for part in track.parts]
        found += [plot for track in self.tracks for block in track.blocks for view in block.classifiers
                  for plot in view.plots]
        for dataset in self.datasets:
            found += [plot for plot in (dataset.keywords, dataset.parts_of_speech, dataset.degrees) if plot]
            found += dataset.neighbourhoods
        return found

    @property
    def keyworded(self) -> list[DatasetView]:
        """Data sets of which there are keywords or a graph of them."""
        return [view for view in self.datasets if view.has_keywords or view.has_graph]

    @property
    def summarised(self) -> list[SummaryBlock]:
        """What the summary says, of all tracks."""
        return [block for track in self.tracks for block in track.summary]

    @property
    def alarms(self) -> list[Alarm]:
        """Alarms of all tracks."""
        return [alarm for track in self.tracks for alarm in track.alarms]

    def count(self, what: str) -> int:
        """Return how many ``models`` or ``runs`` all tracks have."""
        return sum(len(getattr(track, what)) for track in self.tracks)

    def language(self, dataset: str) -> str:
        """Return the language code of a data set's texts."""
        return next((view.language for view in self.datasets if view.name == dataset), "")


def build(material: Material, examples: int, remark_on_alarms: str | None = None) -> Page:
    """Return the page's content.

    Args:
        material: what :func:`stages.results.page.material.gather` read.
        examples: items of the generations shown at a time; with 0 there are none.
        remark_on_alarms: a sentence beside the alarms, if there are any.
    """
    data: dict[str, Any] = {}
    graphs = [dataset for dataset in material.datasets if dataset.graph is not None]
    for dataset in graphs:
        if dataset.graph is not None:
            data[f"graph-{dataset.name}"] = explorer_data(dataset.graph, GRAPH_BYTES // len(graphs))
    results = material.results
    shown = [track for track in TRACKS.values() if results.runs_of(track) or results.models_of(track)]
    writing = sum(len(results.blocks_of(track)) for track in shown if not track.classifies)
    pictures = CLASS_BYTES * (1 if len(shown) > 1 else 3)
    budgets = {track.name: pictures // max(1, len(results.blocks_of(track))) if track.classifies
               else GENERATION_BYTES // max(1, writing) for track in shown}
    return Page(
        recipe=results.recipe, seed=results.seed, encoder=results.encoder, encoders=_encoders(material),
        datasets=[_dataset(dataset, data) for dataset in material.datasets],
        tracks=[_track(track, material, examples, data, budgets[track.name]) for track in shown],
        shown=examples, remark_on_alarms=remark_on_alarms, data=data)


def _track(track: TrackResults, material: Material, examples: int, data: dict[str, Any], budget: int) -> TrackView:
    """Return what the page shows of one track."""
    results = material.results
    blocks, models, runs = results.blocks_of(track), results.models_of(track), results.runs_of(track)
    used, alarms = {run.dataset for run in runs}, alarms_of(models)
    return TrackView(
        track, [_model(model, track, place) for place, model in enumerate(models)],
        [(run.name, track.names.label(run.row), run.model, settings_text(run.decode) or "none") for run in runs],
        [_classes(block, f"classes-{track.name}-{place}", runs, examples, data, budget) if track.classifies
         else _block(block, f"generations-{track.name}-{place}", material, examples, data, budget)
         for place, block in enumerate(blocks)],
        printed_tables(blocks, track), shares_tables(track, models, {block.split for block in blocks}),
        curve_groups(models, track.questions, track.curve_names),
        [probe_view(probe) for probe in material.probes if probe.model in [model.name for model in models]],
        [found for dataset in material.datasets if track.many_keywords and dataset.name in used
         and (found := parts_of_speech(dataset)) is not None],
        alarms, [summary_block(block, runs, alarms, level(block)) for block in blocks])


def _block(block: Block, name: str, material: Material, examples: int, data: dict[str, Any],
           budget: int) -> BlockView:
    left_out, study, shown, many = 0, None, [], block.track.many_keywords
    if examples:
        runs, details = _runs_of(block, material.results.runs), None if many else material.details[block.dataset]
        data[name] = generations_data(runs, details, budget, many)
        left_out = data[name]["total"] - len(data[name]["items"])
        shown = shared_items(runs, details, examples)
        study = case_study(runs, material.pairs, material.results.seed)
    return BlockView(block, result_tables(block), difference_tables(block), shown, name, left_out, study)


def _classes(block: Block, name: str, runs: Sequence[Run], examples: int, data: dict[str, Any],
             budget: int) -> BlockView:
    """Return runs of classifiers on the same texts."""
    own = _runs_of(block, runs)
    if examples and len(own) > 1:
        data[_mistakes(name)] = mistakes_data(own, MISTAKE_BYTES)
    return BlockView(block, result_tables(block), difference_tables(block), [], name, 0, steps=step_tables(block),
                     classifiers=classifier_views(own, budget), by_class=class_table(block, own))


def _mistakes(name: str) -> str:
    return name.replace("classes", "mistakes", 1)


def _runs_of(block: Block, runs: Sequence[Run]) -> list[Run]:
    names = [system.name for system in block.runs]
    return [run for run in runs if run.name in names]


def _dataset(dataset: DatasetMaterial, data: dict[str, Any]) -> DatasetView:
    settings, graph = dataset.settings, dataset.metrics.get("graph", {})
    counts = [(stage_label(stage), list(rows_of(content))) for stage, content in dataset.metrics.items()
              if stage not in ("keywords", "graph", "side_by_side")]
    beside = dataset.beside if dataset.beside is not None else pd.DataFrame({"text": []})
    methods = [name for name in beside if name != "text"]
    top_methods, tops = top_table(dataset.tops)
    return DatasetView(
        dataset.name, size_of(0 if dataset.keywords is None else len(dataset.keywords), graph), top_methods, tops,
        neighbour_table(dataset.graph), f"{settings.get('source', '')} ({settings.get('layout', '')})",
        settings.get("language", ""), counts, dataset.fallbacks, list(rows_of(dataset.metrics.get("keywords", {}))),
        _methods(dataset), keyword_plot(dataset),
        list(rows_of({key: value for key, value in graph.items() if key not in dict(_BOUNDS)})),
        [(text, percentage(graph[key])) for key, text in _BOUNDS if key in graph],
        degree_plot(dataset), neighbourhood_plots(dataset), _agreement(dataset), _parts_of_speech(dataset),
        [_METHODS.get(name, name) for name in methods],
        [(row["text"], [", ".join(row[name]) for name in methods]) for _, row in beside.iterrows()],
        f"graph-{dataset.name}", len(data.get(f"graph-{dataset.name}", {}).get("nodes", [])),
        0 if dataset.graph is None else dataset.graph.total, dataset.single)


def _agreement(dataset: DatasetMaterial) -> list[tuple[str, ...]]:
    """One row per two methods: names, texts, same best keyword, shared word, overlap of all words."""
    pairs = dataset.metrics.get("side_by_side", {}).get("agreement", {})
    return [(" and ".join(_METHODS.get(name, name) for name in pair.split("~")), number(found["texts"]),
             *(percentage(found[share]) for share in ("same_best", "shared_word", "jaccard")))
            for pair, found in pairs.items()]


def _parts_of_speech(dataset: DatasetMaterial) -> Plot | None:
    counted = dataset.metrics.get("side_by_side", {}).get("pos_frequency")
    if counted is None or dataset.frequencies is None:
        return None
    plot = pos_plot(dataset.frequencies, counted["sources"], counted["split"])
    return replace(plot, name=f"{plot.name}-{dataset.name}")


def _model(model: Model, track: TrackResults, place: int) -> ModelView:
    history = model.history
    epochs, best = 0 if history is None else len(history), best_epoch(history)
    settings = [row for group in sorted(model.shown) for row in rows_of({group: model.shown[group]})]
    column, _ = track.judged_by
    kept = [] if history is None or column not in history else history.loc[history["epoch"] == best, column].tolist()
    return ModelView(model.name, model.dataset, model.seed, settings_text(model.overrides) or "none",
                     series_colour(place), epochs, best, value_text(float(kept[0])) if kept else "–", settings,
                     [alarm.name for alarm in alarms_of([model])])


def _methods(dataset: DatasetMaterial) -> list[tuple[str, str]]:
    """Share of texts by the method that found their keyword."""
    if dataset.keywords is None or dataset.keywords.empty:
        return []
    counts = dataset.keywords["method"].value_counts()
    return [(_KEYWORD_METHODS.get(method, method),
             f"{number(int(counts[method]))} text{'' if counts[method] == 1 else 's'}, "
             f"{percentage(counts[method] / counts.sum())}")
            for method in sorted(counts.index)]


def _encoders(material: Material) -> list[dict[str, Any]]:
    """Return the encoders that tables and metrics name, each once."""
    found = [one for dataset in material.datasets for one in dataset.encoders]
    found += [emb for run in material.results.runs if isinstance(emb := run.metrics["settings"].get("emb"), dict)]
    # A metric says beside the encoder what it makes of it.
    return list({tuple(one.get(key) for key in ("name", "version", "sha256")): one for one in reversed(found)}.values()
                )[::-1]
