"""Evaluation of generated texts: a run and its baselines scored on the same examples, with intervals."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from keycontrast.errors import InputError
from stages.common.device import computed_in, computing
from stages.common.encoders import resolve_encoder
from stages.common.manifest import write_manifest
from stages.common.paths import MODELS, PREDICTED, RUNS, ModelPaths, RunPaths
from stages.common.schemas import TableSchema
from stages.common.seeds import derived_seed, seed_everything
from stages.common.settings import Params, hash_files
from stages.common.tables import Provenance, read_frame, rounded, write_json, write_table
from stages.metrics.baselines import derangement, nearest_neighbours
from stages.metrics.bertscore import BertScorer, package_baseline, package_layer, rescaled
from stages.metrics.bleu import IBLEU_ALPHA, SELF_BLEU_SAMPLE
from stages.metrics.embeddings import EncoderVectors, WordVectors, vectors_from_file, vectors_from_training
from stages.metrics.resampling import Statistic, intervals
from stages.metrics.systems import ScoredItems, SystemScores, score_system
from stages.metrics.tokens import Text, joined
from stages.run.process import StageProcess
from stages.tracks.common.frame import for_each_seed
from stages.tracks.common.schemas import BASELINES, ITEMS, PREDICTIONS

# Names the draw of references for all tracks, so that they draw the same references for the same examples.
SEEDED_AS = "evaluate_hcl"

def similarity_sources(params: Params) -> list[Any]:
    """Return plain values that change with the content of the similarity models."""
    emb, encoder = params.evaluation.emb, params.evaluation.bertscore.encoder
    file = Path(emb.removeprefix("path:"))
    vectors = resolve_encoder(_table_source(params.encoder.source)).description if emb == "encoder" else (
        hash_files([file]) if emb.startswith("path:") and file.exists() else emb)
    return [vectors, None if encoder is None else resolve_encoder(encoder).description]


def _table_source(encoder: str) -> str:
    return "bundled" if encoder == "scratch" else encoder


def word_vectors(params: Params, predictions: pd.DataFrame, items: pd.DataFrame,
                 cut: Callable[[str], Text]) -> tuple[WordVectors, dict[str, Any]]:
    """Return the word vectors that ``evaluation.emb`` names, and their description.

    Encoder ``scratch`` is replaced by the bundled one, since random vectors measure nothing.
    """
    emb = params.evaluation.emb
    if emb == "encoder":
        resolved = resolve_encoder(_table_source(params.encoder.source))
        model, tokenizer = _loaded(resolved, "encoder.source")
        vectors = EncoderVectors(model.get_input_embeddings().state_dict()["weight"].numpy(), tokenizer)  # (V, d)
        return vectors, {**resolved.description, "origin": "static word-piece table of the encoder, mean per word",
                         "size": vectors.size}
    if emb == "train":
        texts = map(cut, _texts(items[items["split"] == "train"].assign(keyword=None)))
        table = vectors_from_training(texts, derived_seed(params.seed, SEEDED_AS, emb))
    else:
        wanted = _texts(items) | set(predictions["prediction"])
        table = vectors_from_file(Path(emb.removeprefix("path:")), map(cut, wanted))
    return table, table.description


def _loaded(encoder: Any, param: str) -> tuple[Any, Any]:
    from models.common.encoders import load_encoder  # with torch, which a page of results does not need

    try:
        return load_encoder(encoder.location)
    except ValueError as error:
        raise InputError(f"{param}: {error}.") from error


def _texts(items: pd.DataFrame) -> set[str]:
    """Return every text of ``items``, and the keywords, which a baseline outputs."""
    lists = (text for column in ("references", "negatives") for texts in items[column] for text in texts)
    return {*items["source"], *(keyword for keyword in items["keyword"] if isinstance(keyword, str)), *lists}


def bert_scorer(settings: Any, device: str) -> tuple[BertScorer | None, dict[str, Any] | None]:
    """Return the scorer of the block ``evaluation.bertscore`` and its description; None and None to leave it out."""
    if settings.encoder is None:
        return None, None
    resolved = resolve_encoder(settings.encoder, "evaluation.bertscore.encoder")
    model, tokenizer = _loaded(resolved, "evaluation.bertscore.encoder")
    name = str(resolved.description["name"])
    layer = package_layer(name) if settings.layer is None else settings.layer
    if layer is not None and layer > model.config.num_hidden_layers:
        raise InputError(f"evaluation.bertscore.layer: {layer}, but {name} has {model.config.num_hidden_layers} "
                         f"layers. Give one of them, or null for the last.")
    layer = model.config.num_hidden_layers if layer is None else layer
    baseline = package_baseline(name, layer, settings.idf)
    scorer = BertScorer(model.float().to(device), tokenizer, layer, settings.idf, baseline)
    return scorer, {**resolved.description, "layer": layer, "idf": settings.idf, "baseline": baseline}


@dataclass(frozen=True)
class Resampling:
    """Settings of the bootstrap over examples; 0 resamples give no intervals."""

    resamples: int = 1000
    level: float = 0.95
    seed: int = 0   # of the project; resamples, shuffled references and the self-BLEU sample derive their seeds from it

    @classmethod
    def of(cls, params: Params) -> "Resampling":
        """Return the settings of a project."""
        return cls(params.evaluation.resamples, params.evaluation.level, params.seed)


@dataclass(frozen=True)
class Evaluated:
    """Input of the evaluation of a run."""

    predictions: pd.DataFrame   # table of that name
    items: pd.DataFrame         # table ``items`` of its model, with the training split
    vectors: WordVectors        # for the embedding metrics
    scorer: BertScorer | None = None    # None where BERTScore is left out
    baselines: Collection[str] = tuple(BASELINES)
    resampling: Resampling = Resampling()


@dataclass(frozen=True)
class Evaluation:
    """Table ``scores`` and the content of ``metrics.json``."""

    scores: pd.DataFrame
    metrics: dict[str, Any]


def scored_predictions(given: Evaluated, track: str) -> tuple[pd.DataFrame, str]:
    """Return sample 0 of each example, in the order of ids, and the split, which must be complete.

    ``track`` is for errors.
    """
    scored = given.predictions[given.predictions["sample"] == 0].sort_values("example_id", ignore_index=True)
    splits = given.items.set_index("example_id")["split"]
    unknown = sorted(set(scored["example_id"]) - set(splits.index))
    if unknown:
        raise InputError(f"example {unknown[0]} was predicted but is no item of the model: predictions and model are "
                         f"of different runs. Run generate_{track} again.")
    names = sorted(set(splits[scored["example_id"]]))
    missing = set(splits.index[splits.isin(names)]) - set(scored["example_id"])
    if len(names) > 1 or missing:
        raise InputError(f"predictions hold {len(scored)} examples of {' and '.join(names)}, and {len(missing)} of "
                         f"that split are missing. Run generate_{track} again.")
    return scored, str(names[0])


def score_systems(given: Evaluated, targets: ScoredItems, outputs: Sequence[Text], counts: dict[str, int],
                  cut: Callable[[str], Text] = str, own: Mapping[str, Sequence[Text]] = MappingProxyType({}),
                  ) -> dict[str, SystemScores]:
    """Return the scores of the run, by its ``outputs``, and of the baselines, whose outputs ``own`` may replace.

    ``counts`` is updated; ``cut`` splits texts as ``targets`` are.
    """
    systems = {"run": outputs}
    for name in given.baselines:
        systems[name] = own[name] if name in own else baseline_outputs(name, targets, given, counts, cut)
    texts = {name: [joined(text) for text in system] for name, system in systems.items()}
    references = [[joined(text) for text in item] for item in targets.references]
    bertscores = {} if given.scorer is None else given.scorer.score(texts, references)
    sample = derived_seed(given.resampling.seed, SEEDED_AS, "self_bleu")
    return {name: score_system(system, targets, given.vectors, bertscores.get(name), sample)
            for name, system in systems.items()}


def baseline_outputs(name: str, targets: ScoredItems, given: Evaluated, counts: dict[str, int],
                  cut: Callable[[str], Text]) -> list[Text]:
    """Return the outputs of a baseline of :data:`BASELINES`, one per item."""
    references = targets.references
    if name == "copy":
        return list(targets.sources)
    if name == "keyword":  # nothing where the source has none
        return [cut(keyword or "") for keyword in targets.keywords]
    if name == "shuffled":
        if len(references) < 2:
            raise InputError("the baseline `shuffled` needs at least two examples. Evaluate more, or take `shuffled` "
                             "out of evaluation.baselines.")
        order = derangement(len(references), derived_seed(given.resampling.seed, SEEDED_AS, "shuffled"))
        return [references[other][0] for other in order]
    training = given.items[given.items["split"] == "train"].sort_values("example_id", ignore_index=True)
    if training.empty:
        raise InputError("the baseline `nearest` needs training items, and the model has none. Train it again, or take "
                         "`nearest` out of evaluation.baselines.")
    neighbours, similarities = nearest_neighbours(targets.sources, [cut(text) for text in training["source"]])
    counts["training_items"] = len(training)
    counts["nearest_without_shared_word"] = int((similarities == 0).sum())
    return [cut(training["references"].iloc[index][0]) for index in neighbours]


def extended(system: SystemScores, statistics: Mapping[str, Statistic], rows: Mapping[str, Any]) -> SystemScores:
    """Return ``system`` with further metrics and columns of its table."""
    return replace(system, values=system.values | {name: statistic.value() for name, statistic in statistics.items()},
                   statistics=system.statistics | dict(statistics), rows=system.rows | dict(rows))


def evaluation(given: Evaluated, example_ids: pd.Series, systems: Mapping[str, SystemScores], counts: Mapping[str, Any],
               split: str, tokens: str) -> Evaluation:
    """Return scores and metrics of ``run`` and of the baselines, which are all other systems."""
    values = {name: dict(system.values) for name, system in systems.items()}
    if given.scorer is not None:
        shuffled = values["shuffled"]["bertscore"] if "shuffled" in values else 1.0
        for metrics in values.values():
            if given.scorer.baseline is not None:
                metrics["bertscore_rescaled"] = rescaled(metrics["bertscore"], given.scorer.baseline)
            if shuffled < 1:
                metrics["bertscore_over_shuffled"] = rescaled(metrics["bertscore"], shuffled)
    resampling = given.resampling
    seed = derived_seed(resampling.seed, SEEDED_AS, "resamples")
    ends = {name: intervals(system.statistics, resampling.resamples, resampling.level, seed)
            for name, system in systems.items()}
    frames = [pd.DataFrame({"system": name, "example_id": example_ids, **system.rows})
              for name, system in systems.items()]
    return Evaluation(pd.concat(frames, ignore_index=True), {
        "run": values.pop("run"), "baselines": values,
        "intervals": {"run": ends.pop("run"), "baselines": ends},
        "counts": {"examples": len(example_ids), **counts, "skipped_extrema_average": systems["run"].skipped},
        "settings": {"split": split, "ibleu_alpha": IBLEU_ALPHA, "sacrebleu": systems["run"].sacrebleu,
                     "tokens": tokens, "self_bleu_sample": SELF_BLEU_SAMPLE, **vars(resampling)}})


def evaluate(process: StageProcess, schema: TableSchema,
             scored: Callable[[Params, Evaluated, ModelPaths, RunPaths], Evaluation],
             cut: Callable[[str], Text] = str) -> None:
    """Write the result of ``scored`` for each seed of a run; ``cut`` splits texts into words, if need be."""
    def make(process: StageProcess, paths: ModelPaths) -> None:
        params, runtime, run = process.params, process.params.runtime, RunPaths(process.instance, paths.seed)
        predictions, items = read_frame(run.predictions, PREDICTIONS), read_frame(paths.items, ITEMS)
        seed_everything(params.seed, runtime.threads, runtime.deterministic, runtime.tf32)
        with computing(runtime) as device:
            vectors, emb = word_vectors(params, predictions, items, cut)
            scorer, bertscore = bert_scorer(params.evaluation.bertscore, device)
            result = scored(params, Evaluated(predictions, items, vectors, scorer, params.evaluation.baselines,
                                              Resampling.of(params)), paths, run)
        result.metrics["settings"] |= {"model": paths.name, "emb": emb, "bertscore": bertscore}
        write_table(run.scores, schema, result.scores, Provenance(
            process.name, process.params_hash, models={"word_vectors": emb, "bertscore": bertscore},
            counts=result.metrics["counts"], precision=computed_in(runtime.precision, runtime.tf32)))
        write_json(run.metrics, rounded(result.metrics))

    for_each_seed(process, make, lambda run: [run.folder], lambda run: [run.predictions.parent],
                  similarity=similarity_sources(process.params))
    write_run_manifest(process)


def write_run_manifest(process: StageProcess) -> None:
    """List the files of a run: its model, its outputs and their scores."""
    name = process.instance
    write_manifest(process, "runs", [MODELS / process.params.run_model(name), PREDICTED / name, RUNS / name])
