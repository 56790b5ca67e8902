"""Score the outputs of an HCL run, and of the floors on the same examples, against the references.

Writes scores.parquet, one row per system and example, and metrics.json: ``run`` and ``floors`` (every metric of
METHODS E), ``intervals`` (bootstrap percentile intervals in the same shape), ``counts`` and ``settings``.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from stages.artifacts.paths import ModelPaths, RunPaths
from stages.artifacts.schemas import NO_KEYWORD
from stages.artifacts.tables import Provenance, read_frame, write_json, write_table
from stages.encoders import ResolvedEncoder, resolve_encoder
from stages.metrics import (
    IBLEU_ALPHA,
    EncoderVectors,
    WordVectors,
    basic_tokens,
    derangement,
    intra_distinct,
    keyword_retention,
    nearest_neighbours,
)
from stages.metrics.bertscore import BertScorer, package_baseline, package_layer, rescaled
from stages.metrics.diversity import SELF_BLEU_SAMPLE
from stages.metrics.systems import ScoredItems, SystemScores, score_system
from stages.metrics.word_tables import vectors_from_file, vectors_from_training
from stages.runtime.errors import InputError
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.seeds import derived_seed, seed_everything

if TYPE_CHECKING:
    from stages.params.hcl import BertScore

FLOORS = ("copy", "nearest", "shuffled", "keyword")
# The metrics that lead tables under each reading of BLEU; the others stand beside them.
LEADING = {"individual_m7": [f"bleu_{order}" for order in range(1, 5)],
           "cumulative_m7": [f"cumulative_m7_{order}" for order in range(1, 5)],
           "corpus": [f"corpus_bleu_{order}" for order in range(1, 5)], "sacrebleu": ["sacrebleu"]}
_DECIMALS = 6


@dataclass(frozen=True)
class Evaluation:
    """What the stage makes: table ``scores`` and the content of ``metrics.json``."""

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


def run(predictions: pd.DataFrame, items: pd.DataFrame, vectors: WordVectors, floors: Sequence[str] = FLOORS,
        scorer: BertScorer | None = None, resampling: Resampling = Resampling()) -> Evaluation:
    """Return scores and metrics of a run (METHODS E) and of each floor on the same examples, whatever their order.

    Args:
        predictions: table ``predictions``; sample 0 is scored, further ones only for variety within an item.
        items: table ``items`` of the run's model: the predicted split, and the training split for ``nearest``.
        vectors: word vectors of the embedding metrics.
        floors: outputs that need no model: ``copy`` (the source), ``nearest`` (the target of the most similar
            training source), ``shuffled`` (the first reference of another example), ``keyword`` (the keyword of the
            source; nothing where it has none).
        scorer: of BERTScore; None leaves it out.
        resampling: bootstrap and seed.

    Raises:
        InputError: predictions and items do not belong together, or there is nothing to score.
    """
    scored = predictions[predictions["sample"] == 0].sort_values("example_id", ignore_index=True)
    split = _predicted_split(scored, items)
    targets = _scored_items(scored, items)
    counts = {"examples": len(scored)}
    outputs = {"run": scored["prediction"].tolist()}
    outputs |= {floor: _floor(floor, targets, items, counts, resampling.seed) for floor in floors}
    systems = _score(outputs, targets, vectors, scorer, resampling.seed)
    counts["empty_outputs"] = sum(not basic_tokens(text) for text in outputs["run"])
    counts["skipped_extrema_average"] = systems["run"].skipped
    values = _values(systems, scorer)
    values["run"] |= _within_items(predictions) | _prior_keyword(scored, targets)
    intervals = _intervals(systems, resampling)
    frames = [pd.DataFrame({"system": name, "example_id": scored["example_id"], **system.rows})
              for name, system in systems.items()]
    return Evaluation(pd.concat(frames, ignore_index=True), {
        "run": values["run"], "floors": {floor: values[floor] for floor in floors},
        "intervals": {"run": intervals["run"], "floors": {floor: intervals[floor] for floor in floors}},
        "counts": counts, "settings": {
            "split": split, "ibleu_alpha": IBLEU_ALPHA, "sacrebleu": systems["run"].sacrebleu,
            "tokens": "lower-cased BERT basic tokens", "self_bleu_sample": SELF_BLEU_SAMPLE,
            "seed": resampling.seed, "resamples": resampling.resamples, "level": resampling.level}})


def _score(outputs: Mapping[str, Sequence[str]], targets: ScoredItems, vectors: WordVectors,
           scorer: BertScorer | None, seed: int) -> dict[str, SystemScores]:
    bertscores = {} if scorer is None else scorer.score(outputs, targets.references)
    sample = derived_seed(seed, "evaluate_hcl", "self_bleu")
    return {name: score_system(texts, targets, vectors, bertscores.get(name), sample)
            for name, texts in outputs.items()}


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
    seed = derived_seed(resampling.seed, "evaluate_hcl", "resamples")
    return {name: system.intervals(resampling.resamples, resampling.level, seed) for name, system in systems.items()}


def _predicted_split(scored: pd.DataFrame, items: pd.DataFrame) -> str:
    """Return the split that was predicted, after checking that it was predicted whole."""
    if scored.empty:
        raise InputError("there are no predictions to score: the evaluated split has no examples. Raise ingest.test "
                         "(or ingest.validation), or choose another generate_hcl.split.")
    splits = items.set_index("example_id")["split"]
    unknown = sorted(set(scored["example_id"]) - set(splits.index))
    if unknown:
        raise InputError(f"example {unknown[0]} was predicted but is no item of the model: predictions and model are "
                         f"of different runs. Run generate_hcl again.")
    found = sorted(set(splits[scored["example_id"]]))
    missing = set(splits.index[splits.isin(found)]) - set(scored["example_id"])
    if len(found) > 1 or missing:
        raise InputError(f"predictions hold {len(scored)} examples of {' and '.join(found)}, and {len(missing)} of "
                         f"that split are missing. Run generate_hcl again.")
    return found[0]


def _scored_items(scored: pd.DataFrame, items: pd.DataFrame) -> ScoredItems:
    rows = items.set_index("example_id").loc[scored["example_id"]]
    return ScoredItems(scored["source"].tolist(), [list(texts) for texts in scored["references"]],
                       _keywords(rows["keyword"]), _keywords(rows["target_keyword"]))


def _keywords(column: pd.Series) -> list[str | None]:
    return [None if pd.isna(keyword) or keyword == NO_KEYWORD else keyword for keyword in column]


def _floor(name: str, targets: ScoredItems, items: pd.DataFrame, counts: dict[str, int], seed: int) -> list[str]:
    """Return the outputs of a floor."""
    if name == "copy":
        return list(targets.sources)
    if name == "nearest":
        return _nearest_targets(targets.sources, items, counts)
    if name == "keyword":
        return [keyword or "" for keyword in targets.keywords]
    if len(targets.sources) < 2:
        raise InputError("the floor `shuffled` needs at least two examples. Evaluate more, or take `shuffled` out of "
                         "evaluate_hcl.floors.")
    order = derangement(len(targets.sources), derived_seed(seed, "evaluate_hcl", "shuffled"))
    return [targets.references[other][0] for other in order]


def _nearest_targets(sources: Sequence[str], items: pd.DataFrame, counts: dict[str, int]) -> list[str]:
    training = items[items["split"] == "train"].sort_values("example_id", ignore_index=True)
    if training.empty:
        raise InputError("the floor `nearest` needs training items, and the model has none. Train it again, or take "
                         "`nearest` out of evaluate_hcl.floors.")
    neighbours = nearest_neighbours(sources, training["source"].tolist())
    counts["training_items"] = len(training)
    counts["nearest_without_shared_word"] = int((neighbours.similarities == 0).sum())
    return [training["references"].iloc[index][0] for index in neighbours.indices]


def _within_items(predictions: pd.DataFrame) -> dict[str, float]:
    """Variety among the outputs drawn for one item; nothing where none were drawn."""
    drawn = predictions[predictions["sample"] > 0].sort_values(["example_id", "sample"])
    if drawn.empty:
        return {}
    samples = [texts.tolist() for _, texts in drawn.groupby("example_id")["prediction"]]
    return {f"intra_distinct_{n}": intra_distinct(samples, n) for n in (1, 2)}


def _prior_keyword(scored: pd.DataFrame, targets: ScoredItems) -> dict[str, float]:
    """Share of outputs that show the keyword which conditioned them, where that was not the source's own."""
    given = _keywords(scored["keyword"])
    if not any(keyword is not None and keyword != own for keyword, own in zip(given, targets.keywords, strict=True)):
        return {}
    kept = [shown for shown in keyword_retention(scored["prediction"].tolist(), given) if shown is not None]
    return {"prior_keyword_kept": sum(kept) / len(kept)}


def rounded(content: Any) -> Any:
    """Return ``content`` with every float in it rounded to six decimals."""
    if isinstance(content, Mapping):
        return {name: rounded(value) for name, value in content.items()}
    if isinstance(content, list):
        return [rounded(value) for value in content]
    return round(content, _DECIMALS) if isinstance(content, float) else content


def encoder_vectors(source: str) -> tuple[EncoderVectors, ResolvedEncoder]:
    """Return the static word-piece table of the encoder that ``encoder.source`` names.

    Random vectors measure nothing: with ``scratch`` the table is that of the bundled encoder, whose
    tokenizer it shares.
    """
    from models.encoders import load_encoder

    resolved = resolve_encoder("bundled" if source == "scratch" else source)
    model, tokenizer = load_encoder(str(resolved.location))
    table = model.get_input_embeddings().state_dict()["weight"].numpy()     # (V, d)
    return EncoderVectors(table, tokenizer), resolved


def word_vectors(emb: str, encoder: str, predictions: pd.DataFrame, items: pd.DataFrame,
                 seed: int) -> tuple[WordVectors, dict[str, Any]]:
    """Return the word vectors that ``evaluate_hcl.emb`` names, and what they are.

    Args:
        emb: ``encoder``, ``train`` (on the training split of ``items``) or ``path:FILE``.
        encoder: ``encoder.source``.
        predictions: table ``predictions``.
        items: table ``items``.
        seed: the project's.
    """
    if emb == "encoder":
        found, resolved = encoder_vectors(encoder)
        return found, {**resolved.description, "origin": "static word-piece table of the encoder, mean per word",
                       "size": found.size}
    if emb == "train":
        table = vectors_from_training(_texts(items[items["split"] == "train"]), derived_seed(seed, "evaluate_hcl", emb))
    else:
        wanted = _texts(items) | set(predictions["prediction"])
        table = vectors_from_file(Path(emb.removeprefix("path:")), wanted)
    return table, table.description


def _texts(items: pd.DataFrame) -> set[str]:
    """Every text of ``items``, and the keywords, which a floor outputs."""
    lists = (text for column in ("references", "negatives") for texts in items[column] for text in texts)
    return {*items["source"], *(keyword for keyword in items["keyword"] if isinstance(keyword, str)), *lists}


def bert_scorer(settings: "BertScore", device: str) -> tuple[BertScorer | None, dict[str, Any] | None]:
    """Return the scorer of BERTScore and what it is; None and None where it is left out.

    Raises:
        InputError: the encoder cannot be had, or has no such layer.
    """
    if settings.encoder is None:
        return None, None
    from models.encoders import load_encoder

    resolved = resolve_encoder(settings.encoder)
    model, tokenizer = load_encoder(str(resolved.location))
    assert tokenizer is not None     # there is a source
    name = str(resolved.description["name"])
    layer = package_layer(name) if settings.layer is None else settings.layer
    if layer is not None and layer > model.config.num_hidden_layers:
        raise InputError(f"evaluate_hcl.bertscore.layer: {layer}, but {name} has {model.config.num_hidden_layers} "
                         f"layers. Give one of them, or null for the last.")
    layer = model.config.num_hidden_layers if layer is None else layer
    baseline = package_baseline(name, layer, settings.idf)
    scorer = BertScorer(model.float().to(device), tokenizer, layer, settings.idf, baseline)
    return scorer, {**resolved.description, "layer": layer, "idf": settings.idf, "baseline": baseline}


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash
    from stages.runtime.device import choose_device

    params = load_params()
    model = params.runs.hcl[process.instance].model
    paths, settings = RunPaths(process.instance), params.evaluate_hcl
    predictions, items = read_frame(paths.predictions, "predictions"), read_frame(ModelPaths(model).items, "items")
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic)
    vectors, emb = word_vectors(settings.emb, params.encoder.source, predictions, items, params.seed)
    scorer, bertscore = bert_scorer(settings.bertscore, choose_device(params.runtime.device))
    result = run(predictions, items, vectors, settings.floors, scorer,
                 Resampling(settings.resamples, settings.level, params.seed))
    result.metrics["settings"] |= {"bleu_style": settings.bleu_style, "leading": LEADING[settings.bleu_style],
                                   "emb": emb, "bertscore": bertscore, "model": model}
    write_table(paths.scores, "scores", result.scores, Provenance(
        stage=process.name, params_hash=stage_hash(params, "evaluate_hcl", process.instance),
        models={"word_vectors": emb, "bertscore": bertscore}, counts=result.metrics["counts"]))
    write_json(paths.metrics, rounded(result.metrics))


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the run named on the command line."""
    return run_stage("evaluate_hcl", _work, argv, instance="RUN")


if __name__ == "__main__":
    sys.exit(main())
