"""Train the classifier of sentence pairs whose gradients become keyword scores (PGKPR section 3).

Reads tables examples and texts of a data set; writes artifacts/DATASET/pair_classifier/ (Hugging
Face layout) and its metrics. Trains on the training split alone and selects by validation accuracy.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from keycontrast.files import atomic_folder
from models.common.task import Bar, CheckpointStore, Criterion, History, Settings
from models.common.training import fit
from models.keywords.pair_classifier import PairPoint, PairTask, build_pair_classifier
from stages.attribution.pair_points import model_card, split_points
from stages.common.encoders import resolve_encoder
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES, TEXTS
from stages.common.seeds import derived_seed
from stages.common.tables import read_frame, read_table, write_json
from stages.common.training import fit_of_data_set
from stages.run.process import StageProcess, run_stage
from stages.run.processes import keep_freed_memory

STAGE = "pair_classifier"
# Columns of the examples that are needed.
_READ = ["split", "source_id", "target_id", "negative_id", "reference_ids", "negative_origin"]


@dataclass(frozen=True)
class TrainedClassifier:
    """What :func:`run` makes."""

    classifier: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    metrics: dict[str, Any]


def run(examples: pd.DataFrame, texts: Mapping[int, str], values: Mapping[str, Any], encoder: ResolvedEncoder,
        seed: int, store: CheckpointStore, device: str = "cpu",
        open_bar: Callable[[int, int], Bar] | None = None) -> TrainedClassifier:
    """Train a pair classifier on the pairs of the training split.

    Args:
        examples: table ``examples``.
        texts: by id.
        values: plain values of the params block ``pair_classifier``.
        encoder: pre-trained encoder to start from.
        seed: fans out by name into negatives, order and dropout.
        store: keeps the training's state.
        device: ``cpu`` or ``cuda``.
        open_bar: given steps in all and done, returns a progress bar.

    Raises:
        InputError: too few pairs in a split, or more layers to freeze than there are.
    """
    rule = values["stage1_neg"]
    train = split_points(examples, "train", seed, values["max_sources"], rule)
    validation = split_points(examples, "validation", seed, rule=rule)
    tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    task = PairTask(_classifier(encoder, values["freeze_layers"], device), tokenizer, texts, train, validation,
                    values["max_length"], values["learning_rate"], values["batch_size"])
    settings = Settings(
        epochs=values["epochs"], batch_size=values["batch_size"], eps=1e-8, warmup=0.0, clip=values["clip"],
        precision=values["precision"],
        select=(Criterion("accuracy", largest=True), Criterion("loss")))
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    # A tokenizer that has worked remembers its last padding, which must not enter the saved bytes.
    fresh = AutoTokenizer.from_pretrained(encoder.location)
    fresh.model_max_length = values["max_length"]
    return TrainedClassifier(task.module, fresh, _metrics(history, train, validation))


def _classifier(encoder: ResolvedEncoder, freeze_layers: int, device: str) -> PreTrainedModel:
    try:
        classifier = build_pair_classifier(encoder.location, encoder.pretrained, freeze_layers)
    except ValueError as error:
        raise InputError(f"pair_classifier.freeze_layers or encoder.source: {error}.") from error
    nn.Module.to(classifier, device)
    return classifier


def _metrics(history: History, train: list[PairPoint], validation: list[PairPoint]) -> dict[str, Any]:
    return {"validation_accuracy": history.best["accuracy"], "validation_loss": history.best["loss"],
            "best_epoch": history.best_epoch, "training_points": len(train), "validation_points": len(validation),
            "training_negatives": sum(point.label == 0 for point in train),
            "validation_negatives": sum(point.label == 0 for point in validation), "history": history.rows}


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    tables = [paths.table("examples"), paths.table("texts")]
    examples = read_frame(tables[0], EXAMPLES, _READ)
    encoder = resolve_encoder(params.encoder.source)
    values = params.pair_classifier.plain()
    table = read_table(tables[1], TEXTS, ["text_id", "text"])
    texts = dict(zip(table["text_id"].to_pylist(), table["text"].to_pylist(), strict=True))
    trained, precision, store = fit_of_data_set(process, values, tables, lambda store, device, open_bar: run(
        examples, texts, values, encoder, params.seed, store, device, open_bar), encoder=encoder.description)
    trained.classifier.config.computed_in = precision
    with atomic_folder(paths.pair_classifier) as folder:
        trained.classifier.save_pretrained(folder)
        trained.tokenizer.save_pretrained(folder)
        card = model_card(process.instance, encoder.description, values, trained.metrics)
        (folder / "README.md").write_text(card, encoding="utf-8")
    write_json(paths.metrics(STAGE), trained.metrics)
    store.clear()


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
