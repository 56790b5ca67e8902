"""Compare the runs of each data set on the same items: paired tests, and means over runs that differ in seed alone.

Reads predictions.parquet, scores.parquet and metrics.json of every run that params.yaml lists; writes
comparison/paired.parquet, comparison/metrics.json and, for classifiers, comparison/mcnemar.parquet. Runs are compared
within a track, data set and split, on identical items with identical references; every pair stands in the table once.
Tracks are kept apart because they are scored on different tokens, and classifiers on none.

Seeds. Runs whose models have the same settings, start from models of the same settings and are decoded alike, and
differ in nothing but the seed, are also taken together, as "NAME (3 seeds)": NAME is what their names have in common,
without a number or a ``-seed`` at its end. The value of such a group is the mean over its runs, on every resample.

Floors take part as "floor copy" and so on.

What an interval says: the items are resampled, with all that was scored on them, and the trained models stay as they
are. How much a metric moves from seed to seed is told by its standard deviation over seeds, in metrics.json. A p
value is of its pair alone and not adjusted for the number of pairs.

McNemar's exact test sets accuracies of single runs and floors against each other; for several seeds taken together,
whose answers to a text may differ, there is none.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from stages.artifacts.paths import COMPARISON, RunPaths
from stages.artifacts.tables import Provenance, read_frame, write_json, write_table
from stages.metrics import Statistic, count_matches, interval, mean_statistic, resampled
from stages.metrics.bleu import ORDERS, RELEASED_WEIGHTS
from stages.metrics.corpus_statistics import corpus_bleu_statistic
from stages.metrics.resampling import difference
from stages.metrics.systems import corpus_statistics
from stages.results.classifiers import Discordance, class_metrics, discordances
from stages.runtime.errors import InputError
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.seeds import derived_seed
from stages.runtime.settings import Params
from stages.tracks.pgkpr.normalisation import as_words

if TYPE_CHECKING:
    from stages.params.hcl import Compare

STAGE = "compare"
# Means of columns of table `scores`; the corpus metrics are computed from the outputs.
MEANS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "extrema", "average", "greedy", "rouge_1", "rouge_2", "rouge_l",
         "bertscore", "source_bleu_4", "keyword_kept")
# Those of table `paraphrase_scores`.
PGKPR_MEANS = (*MEANS, *(f"{prefix}py_rouge_{kind}" for prefix in ("", "released_") for kind in ("1", "2", "l")),
               "keywords_kept")
TEST = ("paired bootstrap over items, two-sided, ties against both; p values are of each pair alone, not adjusted for "
        "the number of pairs; intervals are percentile intervals of the difference")
_DECIMALS = 6
# Tables of predictions and of scores, by track.
_KINDS = {"hcl": ("predictions", "scores"), "pgkpr": ("predictions", "paraphrase_scores"),
          "clld": ("class_predictions", "class_scores")}
_CLASSIFIED = ("example_id", "text", "label", "predicted")     # what is read of class predictions
_STAGES = {"clld": "evaluate_clld"}     # that predict; of the other tracks, generate_TRACK


@dataclass(frozen=True)
class EvaluatedRun:
    """A run with all that was scored in it.

    Attributes:
        name: of the run.
        dataset, split: what it was evaluated on.
        seed: of its model.
        family: equal for runs that differ in their model's seed alone.
        predictions: table ``predictions``, or ``class_predictions``.
        scores: table ``scores``, ``paraphrase_scores`` or ``class_scores``.
        track: ``hcl``, ``pgkpr`` or ``clld``.
        bins: of the calibration error of a classifier.
    """

    name: str
    dataset: str
    split: str
    seed: int
    family: str
    predictions: pd.DataFrame
    scores: pd.DataFrame
    track: str = "hcl"
    bins: int = 15


@dataclass(frozen=True)
class System:
    """Something with a row in a table of results: a run, several runs that differ in their seed, or a floor.

    Attributes:
        name: as in table ``paired``.
        members: metrics of each of its runs (or of the floor) as statistics.
        runs, seeds: of its runs; empty for a floor.
    """

    name: str
    members: list[dict[str, Statistic]]
    runs: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    @property
    def metrics(self) -> list[str]:
        """Metrics that all members have."""
        return [name for name in self.members[0] if all(name in member for member in self.members)]


@dataclass(frozen=True)
class Measured:
    """A metric of a system: of each member, and of their mean on every resample (R,)."""

    values: list[float]
    samples: np.ndarray

    @property
    def mean(self) -> float:
        """Mean over the members."""
        return float(np.mean(self.values))


@dataclass(frozen=True)
class Comparison:
    """What the stage makes: tables ``paired`` and ``mcnemar``, and the content of ``metrics.json``."""

    paired: pd.DataFrame
    metrics: dict[str, Any]
    mcnemar: pd.DataFrame


def run(runs: Sequence[EvaluatedRun], settings: "Compare", seed: int) -> Comparison:
    """Return the comparison of ``runs``; with fewer than two systems on the same items, no pairs.

    Args:
        runs: of all tracks, in the order of the params, which is that of first and second in a pair.
        settings: block ``compare``.
        seed: the project's.

    Raises:
        InputError: the tables of a run do not belong together.
    """
    rows: list[dict[str, Any]] = []
    exact: list[dict[str, Any]] = []
    metrics: dict[str, Any] = {}
    for label, together in comparable(runs).items():
        systems = _systems(together)
        measured = _measured(systems, settings.resamples, derived_seed(seed, STAGE))
        items = len(_first_samples(together[0]))
        rows += [{"dataset": label, "items": items, **row} for row in _pairs(systems, measured, settings.level)]
        metrics[label] = {"groups": {system.name: _summary(system, measured[system.name], settings.level)
                                     for system in systems},
                          "items": items, "resamples": settings.resamples, "level": settings.level, "test": TEST}
        if together[0].track == "clld":
            exact += [{"dataset": label, **_rounded(row)} for row in discordances(list(_correct(together)))]
    columns = ["dataset", "metric", "first", "second", "items", "first_value", "second_value", "difference", "low",
               "high", "p_value"]
    own = ["dataset", "first", "second", "items", *(field.name for field in fields(Discordance))]
    return Comparison(pd.DataFrame(rows, columns=columns), metrics, pd.DataFrame(exact, columns=own))


def comparable(runs: Sequence[EvaluatedRun]) -> dict[str, list[EvaluatedRun]]:
    """Return the runs that may be compared, by ``DATASET/SPLIT``.

    Where runs of one data set and split were evaluated on different items, there are several such groups, and all
    but the first are called ``DATASET/SPLIT (as RUN)`` after their first run. Of several tracks, the first group of
    each further one is called ``DATASET/SPLIT (TRACK)``.
    """
    found: dict[str, list[EvaluatedRun]] = {}
    labels: dict[tuple[str, str, str, str], str] = {}
    for one in runs:
        key, label = (one.track, one.dataset, one.split, _items_of(one)), f"{one.dataset}/{one.split}"
        if key not in labels:
            others = {other.track for other in found.get(label, [])} - {one.track}
            names = [label, *([f"{label} ({one.track.upper()})"] if others else []), f"{label} (as {one.name})"]
            labels[key] = next(name for name in names if name not in found)
        found.setdefault(labels[key], []).append(one)
    return found


def pooled_name(names: Sequence[str]) -> str:
    """Return the name of runs that differ in their seed: ``hcl-s1``, ``hcl-s2`` become ``hcl (2 seeds)``.

    What the names have in common, without digits that the comparison cut in two, without ``-s`` or ``-seed`` and a
    number, and without a hyphen at the end; the first name if nothing is left.
    """
    common = commonprefix(list(names))
    if all(name[len(common):len(common) + 1].isdigit() for name in names):
        common = common.rstrip("0123456789")
    stem = re.sub(r"[-_](?:seed|s)?[-_]?\d*$", "", common)
    return f"{stem or names[0]} ({len(names)} seeds)"


def _items_of(one: EvaluatedRun) -> str:
    """Return the fingerprint of what a run was evaluated on: ids, inputs and references, or classes."""
    rows = _first_samples(one)
    targets = rows["label"] if one.track == "clld" else map(list, rows["references"])
    inputs = rows["text" if one.track == "clld" else "source"]
    return hashlib.sha256(json.dumps([[int(number), *texts] for number, *texts in zip(
        rows["example_id"], inputs, targets, strict=True)]).encode()).hexdigest()


def _first_samples(one: EvaluatedRun) -> pd.DataFrame:
    rows = one.predictions if one.track == "clld" else one.predictions[one.predictions["sample"] == 0]
    return rows.sort_values("example_id", ignore_index=True)


def _systems(runs: Sequence[EvaluatedRun]) -> list[System]:
    """Return groups of seeds, runs and floors, in that order."""
    members = {one.name: _statistics(one, "run") for one in runs}
    single = [System(one.name, [members[one.name]], [one.name], [one.seed]) for one in runs]
    return [*_pooled(runs, members), *single, *_floors(runs)]


def _pooled(runs: Sequence[EvaluatedRun], members: dict[str, dict[str, Statistic]]) -> list[System]:
    families: dict[str, dict[int, str]] = {}
    for one in runs:    # of two runs of one family and seed, the first stands for both
        families.setdefault(one.family, {}).setdefault(one.seed, one.name)
    systems: list[System] = []
    for seeds in families.values():
        if len(seeds) > 1:
            names = list(seeds.values())
            name = pooled_name(names)
            if name in (system.name for system in systems):
                name = " + ".join(names)
            systems.append(System(name, [members[one] for one in names], names, list(seeds)))
    return systems


def _floors(runs: Sequence[EvaluatedRun]) -> Iterator[System]:
    return (System(name, [_statistics(one, floor)]) for name, one, floor in _distinct_floors(runs))


def _distinct_floors(runs: Sequence[EvaluatedRun]) -> Iterator[tuple[str, EvaluatedRun, str]]:
    """Yield name, run and floor of every distinct one; runs share theirs unless their models have other training items.
    """
    seen: dict[str, list[list[str]]] = {}
    for one in runs:
        for floor in sorted(set(one.scores["system"]) - {"run"}):
            outputs = _rows(one, floor)[_answer(one)].tolist()
            if outputs not in seen.setdefault(floor, []):
                seen[floor].append(outputs)
                yield f"floor {floor}" + (f" of {one.name}" if len(seen[floor]) > 1 else ""), one, floor


def _correct(runs: Sequence[EvaluatedRun]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of every classifier and floor, and which of the texts it has right."""
    for name, one, system in (*((one.name, one, "run") for one in runs), *_distinct_floors(runs)):
        yield name, _rows(one, system)["correct"].to_numpy(bool)


def _answer(one: EvaluatedRun) -> str:
    """Return the column of scores that holds what a system says."""
    return "predicted" if one.track == "clld" else "output"


def _rows(one: EvaluatedRun, system: str) -> pd.DataFrame:
    """Return the scores of a system, sorted by example."""
    rows = one.scores[one.scores["system"] == system].sort_values("example_id", ignore_index=True)
    predicted = _first_samples(one)
    told = predicted["predicted" if one.track == "clld" else "prediction"]
    outputs_differ = system == "run" and rows[_answer(one)].tolist() != told.tolist()
    if outputs_differ or rows["example_id"].tolist() != predicted["example_id"].tolist():
        raise InputError(f"{RunPaths(one.name).scores}: the scores are not those of the run's predictions. Score them "
                         f"again with `keycontrast run evaluate_{one.track}@{one.name}`.")
    return rows


def _statistics(one: EvaluatedRun, system: str) -> dict[str, Statistic]:
    rows, predicted = _rows(one, system), _first_samples(one)
    if one.track == "clld":
        return class_metrics(rows, one.bins)
    names = MEANS if one.track == "hcl" else PGKPR_MEANS
    means = {name: rows[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in names}
    found = {name: mean_statistic(values) for name, values in means.items() if not np.isnan(values).all()}
    references = [list(texts) for texts in predicted["references"]]
    if one.track == "hcl":
        return found | corpus_statistics(rows["output"].tolist(), references, predicted["source"].tolist())
    return found | _released_bleu(rows) | corpus_statistics(
        _words(rows["output"]), [_words(texts) for texts in references], _words(predicted["source"]),
        range(1, ORDERS + 1))


def _released_bleu(rows: pd.DataFrame) -> dict[str, Statistic]:
    counts = count_matches(_words(rows["released_output"]), [_words(texts) for texts in rows["released_references"]])
    return {f"released_bleu_{order}": corpus_bleu_statistic(counts, order, RELEASED_WEIGHTS)
            for order in range(1, ORDERS + 1)}


def _words(texts: Iterable[str]) -> list[list[str]]:
    return [as_words(text) for text in texts]


def _measured(systems: Sequence[System], resamples: int, seed: int) -> dict[str, dict[str, Measured]]:
    """Return every metric of every system by name, on the same resamples of the items."""
    distinct = {id(member): member for system in systems for member in system.members}
    samples = resampled({f"{key}/{name}": statistic for key, member in distinct.items()
                         for name, statistic in member.items()}, resamples, seed)
    found: dict[str, dict[str, Measured]] = {}
    for system in systems:
        found[system.name] = {
            name: Measured([member[name].value() for member in system.members],
                           np.mean([samples[f"{id(member)}/{name}"] for member in system.members], axis=0))
            for name in system.metrics}
    return found


def _pairs(systems: Sequence[System], measured: dict[str, dict[str, Measured]],
           level: float) -> Iterator[dict[str, Any]]:
    for first, second in combinations(systems, 2):
        if set(first.runs) & set(second.runs):
            continue    # a run and the group that it belongs to
        for metric, left in measured[first.name].items():
            right = measured[second.name].get(metric)
            if right is not None:
                found = difference(left.mean, right.mean, left.samples, right.samples, level)
                yield _rounded({"metric": metric, "first": first.name, "second": second.name,
                                "first_value": found.first, "second_value": found.second,
                                "difference": found.difference, "low": found.low, "high": found.high,
                                "p_value": found.p_value})


def _summary(system: System, measured: dict[str, Measured], level: float) -> dict[str, Any]:
    summary: dict[str, Any] = {"runs": system.runs, "seeds": system.seeds}
    for name, one in measured.items():
        low, high = interval(one.samples, level)
        sd = float(np.std(one.values, ddof=1)) if len(one.values) > 1 else None
        summary[name] = _rounded({"mean": one.mean, "sd": sd, "low": low, "high": high})
    return summary


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, _DECIMALS) if isinstance(value, float) else value for name, value in row.items()}


def family(params: Params, run_name: str) -> str:
    """Return all that decides the outputs of a run, but for seeds, as text."""
    if run_name in params.runs.hcl:
        decode = params.decoding(run_name).plain()
        return json.dumps([_model_family(params, params.runs.hcl[run_name].model), decode], sort_keys=True)
    if run_name in params.runs.clld:
        run = params.runs.clld[run_name]
        return json.dumps([_classifier_family(params, run.model), run.split], sort_keys=True)
    name = params.runs.pgkpr[run_name].model
    return json.dumps([params.models.pgkpr[name].dataset, params.model(name).plain(),
                       params.decoding(run_name).plain()], sort_keys=True)


def _model_family(params: Params, name: str) -> list[Any]:
    model = params.models.hcl[name]
    start = None if model.init_from is None else _model_family(params, model.init_from)
    return [model.dataset, params.model(name).plain(), start]


def _classifier_family(params: Params, name: str) -> list[Any]:
    model = params.models.clld[name]
    pairs_of = None if model.pairs_of is None else _classifier_family(params, model.pairs_of)
    return [model.dataset, model.encoder, model.contrast, model.pairs, pairs_of,
            params.model(name).plain()]


def read_run(params: Params, name: str) -> EvaluatedRun:
    """Return run ``name`` with its tables.

    Raises:
        InputError: it was not decoded, or not evaluated.
    """
    paths = RunPaths(name)
    track = next(one for one in _KINDS if name in getattr(params.runs, one))
    model = getattr(params.runs, track)[name].model
    generate, evaluate = _STAGES.get(track, f"generate_{track}"), f"evaluate_{track}"
    _require([(paths.predictions, generate), (paths.scores, evaluate), (paths.metrics, evaluate)], name, track)
    settings = json.loads(paths.metrics.read_text(encoding="utf-8"))["settings"]
    kind, scored = _KINDS[track]
    predictions = read_frame(paths.predictions, kind, list(_CLASSIFIED) if track == "clld" else None)
    scores = read_frame(paths.scores, scored)
    return EvaluatedRun(name, getattr(params.models, track)[model].dataset, settings["split"], params.model_seed(model),
                        family(params, name), predictions, scores, track, settings.get("bins", 15))


def _require(needed: Iterable[tuple[Path, str]], name: str, track: str) -> None:
    for path, stage in needed:
        if not path.exists():
            raise InputError(f"{path}: no such artifact. Make it with `keycontrast run {stage}@{name}`, or take the "
                             f"run out of runs.{track}.")


def _work(process: StageProcess) -> None:
    params = process.params
    runs = [read_run(params, name) for track in _KINDS for name in getattr(params.runs, track)]
    result = run(runs, params.compare, params.seed)
    counts = {label: len(found["groups"]) for label, found in result.metrics.items()}
    process.log.info("%d tests; systems: %s", len(result.paired), counts or "none")
    write_table(COMPARISON / "paired.parquet", "paired", result.paired, Provenance(
        process.name, process.params_hash, {"test": TEST}, {"systems": counts}))
    write_table(COMPARISON / "mcnemar.parquet", "mcnemar", result.mcnemar, Provenance(
        process.name, process.params_hash))
    write_json(COMPARISON / "metrics.json", result.metrics)


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage(STAGE, _work, argv, instance=None)


if __name__ == "__main__":
    sys.exit(main())
