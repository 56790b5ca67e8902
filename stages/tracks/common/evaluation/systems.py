"""A run and its floors scored on the same examples: tables ``scores``, ``metrics.json``, intervals.

    scored = first_samples(predictions)
    split = predicted_split(scored, items, "hcl")
    systems = score_systems({"run": outputs, "copy": sources}, targets, vectors, scorer, seed=13)
    result = evaluation(scored["example_id"], systems, scorer, {"examples": len(scored)}, resampling)
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from keycontrast.errors import InputError
from stages.common.paths import RunPaths
from stages.common.schemas import TableSchema
from stages.common.seeds import derived_seed
from stages.common.settings import Params
from stages.common.tables import Provenance, write_json, write_table
from stages.metrics import IBLEU_ALPHA, Statistic, WordVectors
from stages.metrics.bertscore import BertScorer, rescaled
from stages.metrics.diversity import SELF_BLEU_SAMPLE
from stages.metrics.systems import ScoredItems, SystemScores, score_system
from stages.metrics.tokens import Text, joined
from stages.tracks.common.floors import SEEDED_AS

_DECIMALS = 6


@dataclass(frozen=True)
class Evaluation:
    """What an evaluate stage makes: table ``scores`` and the content of ``metrics.json``."""

    scores: pd.DataFrame
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Resampling:
    """How intervals are made.

    Attributes:
        resamples: bootstrap resamples of the examples; 0 for no intervals.
        level: of the intervals.
        seed: the project's; resamples, shuffled references and the sample of self-BLEU have their own of it.
    """

    resamples: int = 1000
    level: float = 0.95
    seed: int = 0

    @classmethod
    def of(cls, params: Params) -> "Resampling":
        """Return how the evaluation of every track makes its intervals."""
        return cls(params.evaluation.resamples, params.evaluation.level, params.seed)


USUAL = Resampling()


def first_samples(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the predictions that are scored: sample 0 of each example, in the order of ids."""
    return predictions[predictions["sample"] == 0].sort_values("example_id", ignore_index=True)


def predicted_split(scored: pd.DataFrame, items: pd.DataFrame, track: str) -> str:
    """Return the split that was predicted, after checking that it was predicted whole.

    Args:
        scored: from :func:`first_samples`.
        items: table ``items`` of the run's model.
        track: ``hcl`` or ``pgkpr``, which names stages in errors.

    Raises:
        InputError: predictions and items do not belong together, or there is nothing to score.
    """
    if scored.empty:
        raise InputError(f"there are no predictions to score: the evaluated split has no examples. Raise ingest.test "
                         f"(or ingest.validation), or choose another generate_{track}.split.")
    splits = items.set_index("example_id")["split"]
    unknown = sorted(set(scored["example_id"]) - set(splits.index))
    if unknown:
        raise InputError(f"example {unknown[0]} was predicted but is no item of the model: predictions and model are "
                         f"of different runs. Run generate_{track} again.")
    found = sorted(set(splits[scored["example_id"]]))
    missing = set(splits.index[splits.isin(found)]) - set(scored["example_id"])
    if len(found) > 1 or missing:
        raise InputError(f"predictions hold {len(scored)} examples of {' and '.join(found)}, and {len(missing)} of "
                         f"that split are missing. Run generate_{track} again.")
    return str(found[0])


def score_systems(outputs: Mapping[str, Sequence[Text]], targets: ScoredItems, vectors: WordVectors,
                  scorer: BertScorer | None, seed: int) -> dict[str, SystemScores]:
    """Return the scores of each system.

    Args:
        outputs: by system, one per item.
        targets: what they are scored against.
        vectors: of the embedding metrics.
        scorer: of BERTScore; None leaves it out.
        seed: the project's.
    """
    texts = {name: [joined(text) for text in found] for name, found in outputs.items()}
    references = [[joined(text) for text in item] for item in targets.references]
    bertscores = {} if scorer is None else scorer.score(texts, references)
    sample = derived_seed(seed, SEEDED_AS, "self_bleu")
    return {name: score_system(found, targets, vectors, bertscores.get(name), sample)
            for name, found in outputs.items()}


def extended(system: SystemScores, statistics: Mapping[str, Statistic], rows: Mapping[str, Any],
             without: Collection[str] = ()) -> SystemScores:
    """Return ``system`` with further scores.

    Args:
        system: as scored.
        statistics: further metrics.
        rows: further columns of its table.
        without: metrics that it is to lose.
    """
    values = system.values | {name: one.value() for name, one in statistics.items()}
    kept = system.statistics | dict(statistics)
    return replace(system, values={name: value for name, value in values.items() if name not in without},
                   statistics={name: one for name, one in kept.items() if name not in without},
                   rows=system.rows | dict(rows))


def evaluation(example_ids: pd.Series, systems: Mapping[str, SystemScores], scorer: BertScorer | None,
               counts: Mapping[str, Any], split: str, tokens: str, resampling: Resampling) -> Evaluation:
    """Return scores and metrics of ``run`` and of the floors, which are all other systems.

    Args:
        example_ids: of the items.
        systems: ``run`` and floors.
        scorer: that made their BERTScore.
        counts: whatever was counted.
        split: that was predicted.
        tokens: what n-grams are of, for people.
        resampling: of the intervals.
    """
    values, intervals = _values(systems, scorer), _intervals(systems, resampling)
    floors = [name for name in systems if name != "run"]
    frames = [pd.DataFrame({"system": name, "example_id": example_ids, **system.rows})
              for name, system in systems.items()]
    return Evaluation(pd.concat(frames, ignore_index=True), {
        "run": values["run"], "floors": {floor: values[floor] for floor in floors},
        "intervals": {"run": intervals["run"], "floors": {floor: intervals[floor] for floor in floors}},
        "counts": dict(counts), "settings": {
            "split": split, "ibleu_alpha": IBLEU_ALPHA, "sacrebleu": systems["run"].sacrebleu,
            "tokens": tokens, "self_bleu_sample": SELF_BLEU_SAMPLE,
            "seed": resampling.seed, "resamples": resampling.resamples, "level": resampling.level}})


def _values(systems: Mapping[str, SystemScores], scorer: BertScorer | None) -> dict[str, dict[str, float]]:
    """Return the metrics of each system, BERTScore also rescaled wherever there is something to rescale by."""
    values = {name: dict(system.values) for name, system in systems.items()}
    if scorer is None:
        return values
    shuffled = values["shuffled"]["bertscore"] if "shuffled" in values else None
    for found in values.values():
        if scorer.baseline is not None:
            found["bertscore_rescaled"] = rescaled(found["bertscore"], scorer.baseline)
        if shuffled is not None and shuffled < 1:
            found["bertscore_over_shuffled"] = rescaled(found["bertscore"], shuffled)
    return values


def _intervals(systems: Mapping[str, SystemScores], resampling: Resampling) -> dict[str, dict[str, list[float]]]:
    seed = derived_seed(resampling.seed, SEEDED_AS, "resamples")
    return {name: system.intervals(resampling.resamples, resampling.level, seed) for name, system in systems.items()}


def write_evaluation(paths: RunPaths, schema: TableSchema, result: Evaluation, stage: str, params_hash: str,
                     precision: dict[str, Any]) -> None:
    """Write scores.parquet and metrics.json of a run.

    Args:
        paths: of the run.
        schema: of the scores.
        result: what was made.
        stage: stage instance.
        params_hash: of the params that it depends on.
        precision: of the encoder behind BERTScore, see :func:`stages.common.device.computed_in`.
    """
    settings = result.metrics["settings"]
    write_table(paths.scores, schema, result.scores, Provenance(
        stage, params_hash, models={"word_vectors": settings["emb"], "bertscore": settings["bertscore"]},
        counts=result.metrics["counts"], precision=precision))
    write_json(paths.metrics, rounded(result.metrics))


def rounded(content: Any) -> Any:
    """Return ``content`` with every float in it rounded to six decimals."""
    if isinstance(content, Mapping):
        return {name: rounded(value) for name, value in content.items()}
    if isinstance(content, list):
        return [rounded(value) for value in content]
    return round(content, _DECIMALS) if isinstance(content, float) else content
