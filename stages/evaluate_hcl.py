"""Score the outputs of an HCL run, and of the floors on the same examples, against the references."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from stages.artifacts.paths import ModelPaths, RunPaths
from stages.artifacts.tables import Provenance, read_frame, write_json, write_table
from stages.encoders import ResolvedEncoder, resolve_encoder
from stages.metrics import (
    IBLEU_ALPHA,
    EncoderVectors,
    WordVectors,
    basic_tokens,
    bleu,
    bleu_from_counts,
    count_matches,
    distinct,
    embedding_similarity,
    intra_distinct,
    nearest_neighbours,
)
from stages.runtime.errors import InputError
from stages.runtime.process import StageProcess, run_stage

_DECIMALS = 6
_SCORED = ("bleu_1", "bleu_2", "bleu_3", "bleu_4")


@dataclass(frozen=True)
class Evaluation:
    """What the stage makes: table ``scores`` and the content of ``metrics.json``."""

    scores: pd.DataFrame
    metrics: dict[str, Any]


@dataclass(frozen=True)
class SystemScores:
    """Scores of one system: per example (columns of ``scores``), and over all of them."""

    rows: dict[str, Any]
    values: dict[str, float]
    skipped: int
    sacrebleu: str


def run(predictions: pd.DataFrame, items: pd.DataFrame, vectors: WordVectors,
        floors: Sequence[str] = ("copy", "nearest")) -> Evaluation:
    """Return scores and metrics of a run (METHODS E) and of each floor on the same examples.

    Args:
        predictions: table ``predictions``; sample 0 is scored, further ones only for variety within an item.
        items: table ``items`` of the run's model: the predicted split, and the training split for ``nearest``.
        vectors: word vectors of the embedding metrics.
        floors: ``copy`` (the source as output), ``nearest`` (the target of the most similar training source).

    Raises:
        InputError: predictions and items do not belong together, or there is nothing to score.
    """
    scored = predictions[predictions["sample"] == 0].sort_values("example_id", ignore_index=True)
    split = _predicted_split(scored, items)
    sources = scored["source"].tolist()
    references = [list(texts) for texts in scored["references"]]
    outputs, counts = {"run": scored["prediction"].tolist()}, {"examples": len(scored)}
    for floor in floors:
        outputs[floor] = sources if floor == "copy" else _nearest_targets(sources, items, counts)
    systems = {name: score_system(texts, references, sources, vectors) for name, texts in outputs.items()}
    counts["empty_outputs"] = sum(not basic_tokens(text) for text in outputs["run"])
    counts["skipped_extrema_average"] = systems["run"].skipped
    values = {name: system.values for name, system in systems.items()}
    values["run"] |= _within_items(predictions)
    frames = [pd.DataFrame({"system": name, "example_id": scored["example_id"], **system.rows})
              for name, system in systems.items()]
    return Evaluation(pd.concat(frames, ignore_index=True), {
        "run": values["run"], "floors": {floor: values[floor] for floor in floors}, "counts": counts,
        "settings": {"split": split, "ibleu_alpha": IBLEU_ALPHA, "sacrebleu": systems["run"].sacrebleu,
                     "tokens": "lower-cased BERT basic tokens"}})


def score_system(outputs: Sequence[str], references: Sequence[Sequence[str]], sources: Sequence[str],
                 vectors: WordVectors) -> SystemScores:
    """Return every score of one system's ``outputs``; n-grams of each sentence are counted once."""
    counts = count_matches(outputs, references)
    individual, cumulative, corpus = (bleu_from_counts(counts, style)
                                      for style in ("individual_m7", "cumulative_m7", "corpus"))
    copied = count_matches(outputs, [[source] for source in sources])
    source_bleu = bleu_from_counts(copied, "corpus")[3]
    similar = embedding_similarity(outputs, references, vectors)
    sacrebleu = bleu(outputs, references, "sacrebleu")
    rows = {"output": list(outputs), **dict(zip(_SCORED, _columns(individual.sentences), strict=True)),
            "extrema": _nullable(similar.extrema), "average": _nullable(similar.average),
            "greedy": similar.greedy, "source_bleu_4": _columns(bleu_from_counts(copied, "cumulative_m7").sentences)[3]}
    values = {**individual.named("bleu"), **cumulative.named("cumulative_m7"), **corpus.named("corpus_bleu"),
              "sacrebleu": sacrebleu[3], **similar.means(),
              "distinct_1": distinct(outputs, 1), "distinct_2": distinct(outputs, 2),
              "source_bleu": source_bleu,
              "ibleu": IBLEU_ALPHA * corpus[3] - (1 - IBLEU_ALPHA) * source_bleu,
              "mean_length": float(counts.lengths.mean())}
    return SystemScores(rows, values, similar.skipped, sacrebleu.signature)


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


def _columns(sentences: np.ndarray | None) -> np.ndarray:
    assert sentences is not None    # both smoothed styles have a value per sentence
    return sentences.T


def _nullable(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def rounded(content: Any) -> Any:
    """Return ``content`` with every float in it rounded to six decimals."""
    if isinstance(content, Mapping):
        return {name: rounded(value) for name, value in content.items()}
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


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash

    params = load_params()
    model = params.runs.hcl[process.instance].model
    paths, settings = RunPaths(process.instance), params.evaluate_hcl
    vectors, encoder = encoder_vectors(params.encoder.source)
    result = run(read_frame(paths.predictions, "predictions"), read_frame(ModelPaths(model).items, "items"),
                 vectors, settings.floors)
    result.metrics["settings"] |= {"bleu_style": settings.bleu_style, "emb": encoder.description, "model": model}
    write_table(paths.scores, "scores", result.scores, Provenance(
        stage=process.name, params_hash=stage_hash(params, "evaluate_hcl", process.instance),
        models={"encoder": encoder.description}, counts=result.metrics["counts"]))
    write_json(paths.metrics, rounded(result.metrics))


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the run named on the command line."""
    return run_stage("evaluate_hcl", _work, argv, instance="RUN")


if __name__ == "__main__":
    sys.exit(main())
