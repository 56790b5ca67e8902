"""Turn gathered material into what the template shows: plain values, no artifacts, no files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from stages.comparison.figure import pos_plot
from stages.reporting.examples import Segment, chosen_examples, segments
from stages.reporting.figures import Plot
from stages.reporting.gather import DatasetMaterial, Material, ModelMaterial, RunMaterial
from stages.reporting.labels import number, percentage, rows_of, settings_text, stage_label
from stages.reporting.plots import best_epoch, degree_plot, history_plots, keyword_plot, neighbourhood_plots
from stages.reporting.results import ResultBlock, result_blocks

# They bound what a contrast over keywords can do (METHODS A.3).
_BOUNDS = (("share_input_equals_output", "input and output have the same keyword"),
           ("share_output_equals_negative", "output and negative have the same keyword"),
           ("share_with_negative_neighbour", "the output keyword has at least one negative neighbour"))
_KEYWORD_METHODS = {"textrank": "TextRank", "attribution": "attribution", "psi": "PSI", "idf": "IDF (fall-back)",
                    "none": "no keyword"}
_METHODS = {"textrank": "TextRank", "attribution": "attribution", "psi": "PSI", "yake": "YAKE", "idf": "IDF"}


@dataclass(frozen=True)
class ExampleView:
    """One example: its texts cut at their keywords, and the output of every run."""

    example_id: int
    keyword: str | None
    known: bool
    source: list[Segment]
    references: list[list[Segment]]
    reference_keyword: str | None
    negative: list[Segment] | None
    negative_keyword: str | None
    outputs: list[tuple[str, list[Segment]]]


@dataclass(frozen=True)
class DatasetView:
    """One data set: counts under headings, keyword and graph statistics, plots."""

    name: str
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


@dataclass(frozen=True)
class ModelView:
    """One trained model: its curves, its selected epoch (0 if unknown) and its settings."""

    name: str
    plots: list[Plot]
    epochs: int
    best_epoch: int
    settings: list[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """Everything that the template needs."""

    recipe: str
    seed: int
    encoder: str
    encoders: list[dict[str, Any]]
    datasets: list[DatasetView]
    models: list[tuple[str, str, int, str]]
    runs: list[tuple[str, str, str]]
    results: list[ResultBlock]
    histories: list[ModelView]
    examples: list[tuple[ResultBlock, list[ExampleView]]]

    @property
    def plots(self) -> list[Plot]:
        """Every plot of the page, in its order."""
        found = [plot for model in self.histories for plot in model.plots]
        for dataset in self.datasets:
            found += [plot for plot in (dataset.keywords, dataset.parts_of_speech, dataset.degrees) if plot]
            found += dataset.neighbourhoods
        return found

    def language(self, dataset: str) -> str:
        """Return the language code of a data set's texts."""
        return next((view.language for view in self.datasets if view.name == dataset), "")


def build(material: Material, examples: int) -> Page:
    """Return the page's content.

    Args:
        material: what :func:`stages.reporting.gather.gather` read.
        examples: examples shown per block of results.
    """
    blocks = result_blocks(material.runs)
    return Page(
        recipe=material.recipe, seed=material.seed, encoder=material.encoder, encoders=_encoders(material),
        datasets=[_dataset(dataset) for dataset in material.datasets],
        models=[(model.name, model.dataset, model.seed, settings_text(model.overrides) or "none")
                for model in material.models],
        runs=[(run.name, run.model, settings_text(run.decode) or "none") for run in material.runs],
        results=blocks, histories=[_model(model) for model in material.models],
        examples=[(block, example_views(block, material, examples)) for block in blocks])


def example_views(block: ResultBlock, material: Material, count: int) -> list[ExampleView]:
    """Return the shown examples of one block, each with the outputs of all its runs side by side."""
    runs = [run for run in material.runs if run.name in block.runs]
    rows = {run.name: {row.example_id: row for row in run.predictions.itertuples()} for run in runs}
    shared = set.intersection(*(set(found) for found in rows.values()))
    details = {row.example_id: row for row in material.details[block.dataset].itertuples()}
    return [_example(number, runs, rows, details.get(number)) for number in chosen_examples(shared, count)]


def _example(number: int, runs: Sequence[RunMaterial], rows: dict[str, dict[int, Any]], detail: Any) -> ExampleView:
    # A run without keyword has none in its predictions; another of the same data set knows it.
    own = [rows[run.name][number] for run in runs]
    first = next((row for row in own if isinstance(row.keyword, str)), own[0])
    keyword = first.keyword if isinstance(first.keyword, str) else None
    target, negative, impostor = (None, None, None) if detail is None else (
        detail.reference_keyword, detail.negative, detail.negative_keyword)
    return ExampleView(
        number, keyword, bool(first.keyword_known), segments(first.source, [keyword]),
        [segments(text, [target or keyword]) for text in first.references], target,
        None if negative is None else segments(negative, [impostor]), impostor,
        [(run.name, segments(row.prediction, [keyword, target])) for run, row in zip(runs, own, strict=True)])


def _dataset(dataset: DatasetMaterial) -> DatasetView:
    settings, graph = dataset.settings, dataset.metrics.get("graph", {})
    counts = [(stage_label(stage), list(rows_of(content))) for stage, content in dataset.metrics.items()
              if stage not in ("keywords", "graph", "side_by_side")]
    beside = dataset.beside if dataset.beside is not None else pd.DataFrame({"text": []})
    methods = [name for name in beside if name != "text"]
    return DatasetView(
        dataset.name, f"{settings.get('source', '')} ({settings.get('layout', '')})", settings.get("language", ""),
        counts, dataset.fallbacks, list(rows_of(dataset.metrics.get("keywords", {}))), _methods(dataset),
        keyword_plot(dataset), list(rows_of({key: value for key, value in graph.items() if key not in dict(_BOUNDS)})),
        [(text, percentage(graph[key])) for key, text in _BOUNDS if key in graph],
        degree_plot(dataset), neighbourhood_plots(dataset), _agreement(dataset), _parts_of_speech(dataset),
        [_METHODS.get(name, name) for name in methods],
        [(row["text"], [", ".join(row[name]) for name in methods]) for _, row in beside.iterrows()])


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


def _model(model: ModelMaterial) -> ModelView:
    epochs = 0 if model.history is None else len(model.history)
    settings = [row for group in sorted(model.settings) for row in rows_of({group: model.settings[group]})]
    return ModelView(model.name, history_plots(model), epochs, best_epoch(model.history), settings)


def _methods(dataset: DatasetMaterial) -> list[tuple[str, str]]:
    """Share of texts by the method that found their keyword."""
    if dataset.keywords is None or dataset.keywords.empty:
        return []
    counts = dataset.keywords["method"].value_counts()
    return [(_KEYWORD_METHODS.get(method, method),
             f"{number(int(counts[method]))} texts, {percentage(counts[method] / counts.sum())}")
            for method in sorted(counts.index)]


def _encoders(material: Material) -> list[dict[str, Any]]:
    """Distinct encoder descriptions among those that tables and metrics name."""
    found = [one for dataset in material.datasets for one in dataset.encoders]
    found += [emb for run in material.runs if isinstance(emb := run.metrics["settings"].get("emb"), dict)]
    return [one for place, one in enumerate(found) if one not in found[:place]]
