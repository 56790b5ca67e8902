"""Classify the texts of a data set by logistic regression on TF-IDF: the floor that papers omit.

Reads the labelled texts; writes table linear_floor, the probabilities of every validation and test text, and metrics.
It knows words and nothing else; another one, on request, knows the frozen vectors of the project's encoder. Their
regularisation is chosen on the validation split, of equal accuracies the strongest; no text but those of the training
split is learned from.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from keycontrast.errors import InputError
from keycontrast.progress import progress
from keycontrast.text.batches import Chunk
from stages.common.encoders import embed_texts, resolve_encoder
from stages.common.paths import DatasetPaths
from stages.common.precision import computing
from stages.common.seeds import seed_everything
from stages.common.tables import Provenance, write_json, write_table
from stages.metrics.classification import class_statistics
from stages.run.process import StageProcess, run_stage
from stages.tracks.clld.schemas.evaluated import LINEAR_FLOOR
from stages.tracks.clld.texts import class_numbers, classes_of, read_labelled_texts

STAGE = "linear_floor"
# Words with their inner apostrophes and hyphens, or single signs: those of TextCNN (models.clld.textcnn).
WORD = r"\w+(?:['’-]\w+)*|[^\w\s]"
_DECIMALS = 6
_BATCH = 64  # texts of a forward pass; part of what decides the bytes


@dataclass(frozen=True)
class Floor:
    """What the stage makes: table ``linear_floor`` and the content of its metrics."""

    predictions: pd.DataFrame
    metrics: dict[str, Any]


@dataclass(frozen=True)
class _Classified:
    """What a classifier makes of the splits that it was not trained on, and how it was chosen."""

    probabilities: dict[str, np.ndarray]
    metrics: dict[str, Any]


def run(items: pd.DataFrame, values: Mapping[str, Any], vectors: np.ndarray | None = None) -> Floor:
    """Return what a linear classifier makes of the validation and test texts.

    Args:
        items: from :func:`stages.tracks.clld.texts.labelled_texts`, all splits.
        values: plain values of the block ``linear_floor``.
        vectors: of all items, in their order (n, d), for a second classifier; None for none.

    Raises:
        InputError: no word of the training texts is frequent enough to be a feature.
    """
    classes = classes_of(items)
    parts = {split: items[items["split"] == split] for split in ("train", "validation", "test")}
    numbers = {split: np.array(class_numbers(part["label"], classes)) for split, part in parts.items()}
    words = TfidfVectorizer(lowercase=True, token_pattern=WORD, ngram_range=(1, values["ngrams"]),
                            min_df=values["min_count"], sublinear_tf=values["sublinear"])
    try:
        features = words.fit_transform(parts["train"]["text"])
    except ValueError as error:
        raise InputError(f"linear_floor.min_count: {values['min_count']}: no word is in so many training texts; lower "
                         f"it.") from error
    held = {split: words.transform(parts[split]["text"]) for split in ("validation", "test") if len(parts[split])}
    found = _classified(features, held, numbers, len(classes), values)
    metrics, probabilities = {**found.metrics, "classes": len(classes)}, found.probabilities
    by_vectors: dict[str, np.ndarray] = {}
    if vectors is not None:
        of_split = {split: vectors[items["split"].eq(split).to_numpy()] for split in ("train", *held)}
        frozen = _classified(of_split.pop("train"), of_split, numbers, len(classes), values)
        metrics["vectors"], by_vectors = frozen.metrics, frozen.probabilities
    rows = [_rows(parts[split], probabilities[split], by_vectors.get(split), classes) for split in probabilities]
    return Floor(pd.concat(rows, ignore_index=True), metrics)


def frozen_vectors(texts: list[str], source: str, device: str, max_length: int,
                   track: Callable[[list[Chunk]], Iterable[Chunk]] = iter) -> np.ndarray:
    """Return the mean over the tokens' states of each text, of length 1 (n, d).

    Args:
        texts: in any order, the same for the same bytes.
        source: as ``encoder.source`` has it.
        device: to compute on.
        max_length: tokens of a text, special ones included; the rest is cut.
        track: wraps the list of chunks, to show progress.

    Raises:
        InputError: the encoder is not to be had.
    """
    from models.common.encoders import load_encoder  # brings torch, which a classifier of words does not need

    resolved = resolve_encoder(source)
    encoder, tokenizer = load_encoder(resolved.location, pretrained=resolved.pretrained)
    assert tokenizer is not None  # that is for no source
    encoder.eval().to(device)
    longest = min(int(tokenizer.model_max_length), max_length)
    vectors = np.empty((len(texts), encoder.config.hidden_size), dtype=np.float32)
    for items, found in embed_texts(encoder, tokenizer, texts, _BATCH, longest, "mean", track):
        vectors[items] = found
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _classified(features: Any, held: Mapping[str, Any], numbers: Mapping[str, np.ndarray], n_classes: int,
                values: Mapping[str, Any]) -> _Classified:
    """Fit a classifier of each strength to the training texts, and let the best one classify the others."""
    with threadpool_limits(1):  # sums of several threads differ in their last digits
        fitted = {strength: _fitted(features, numbers["train"], strength, values["max_iterations"])
                  for strength in sorted(values["strengths"])}
        accuracies = {strength: float(np.mean(model.predict(held["validation"]) == numbers["validation"]))
                      for strength, model in fitted.items()}
        best = max(accuracies, key=lambda strength: (accuracies[strength], -strength))
        found = {split: _probabilities(fitted[best], rows, n_classes) for split, rows in held.items()}
    return _Classified(found, {
        **{split: _measured(numbers[split], found[split]) for split in found}, "strength": best,
        "features": features.shape[1],
        "validation_accuracy": {f"{strength:g}": round(value, _DECIMALS) for strength, value in accuracies.items()},
        "unfinished": [strength for strength, model in fitted.items()
                       if model.n_iter_.max() >= values["max_iterations"]]})


def _fitted(features: Any, numbers: np.ndarray, strength: float, iterations: int) -> LogisticRegression:
    model = LogisticRegression(C=strength, max_iter=iterations, solver="lbfgs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `unfinished` says so
        return model.fit(features, numbers)


def _probabilities(model: LogisticRegression, rows: Any, n_classes: int) -> np.ndarray:
    """Return the probabilities of all classes (n, N); a class without a training text has none."""
    found = np.zeros((rows.shape[0], n_classes))
    found[:, model.classes_] = model.predict_proba(rows)
    return found


def _measured(numbers: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    statistics = class_statistics(numbers, probabilities.argmax(1), probabilities.shape[1])
    return {"texts": len(numbers), **{name: round(one.value(), _DECIMALS) for name, one in statistics.items()}}


def _rows(part: pd.DataFrame, probabilities: np.ndarray, by_vectors: np.ndarray | None,
          classes: list[str]) -> pd.DataFrame:
    return part[["example_id", "text_id", "split", "label"]].assign(
        predicted=[classes[number] for number in probabilities.argmax(1)], probabilities=list(probabilities),
        by_vectors=[None] * len(part) if by_vectors is None else list(by_vectors))


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    values, items, vectors = params.linear_floor.plain(), read_labelled_texts(paths), None
    if values["vectors"]:
        seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
        with computing(params.runtime) as device:
            vectors = frozen_vectors(items["text"].tolist(), params.encoder.source, device, values["max_length"],
                                     lambda chunks: progress(chunks, process.name, unit="batch"))
    floor = run(items, values, vectors)
    unfinished = {*floor.metrics["unfinished"], *floor.metrics.get("vectors", {}).get("unfinished", [])}
    if unfinished:
        process.log.warning("%s: not finished after %d iterations with C of %s. Raise linear_floor.max_iterations, or "
                            "take these out of linear_floor.strengths.", process.name, values["max_iterations"],
                            ", ".join(map(str, sorted(unfinished))))
    write_table(paths.table(STAGE), LINEAR_FLOOR, floor.predictions,
                Provenance(process.name, process.params_hash,
                           counts={"features": floor.metrics["features"]}))
    write_json(paths.metrics(STAGE), floor.metrics)


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
