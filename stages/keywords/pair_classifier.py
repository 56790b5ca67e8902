"""Train the classifier of sentence pairs whose gradients become keyword scores (METHODS C.2).

Reads examples.parquet and texts.parquet of a data set; writes artifacts/DATASET/pair_classifier/ (Hugging
Face layout) and its metrics. Trains on the training split alone and selects by validation accuracy.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import models.bert
import models.encoders
import models.pair_classifier
import models.precision
import models.training
from models.pair_classifier import PairPoint, PairTask, build_pair_classifier, labelled_points, pair_points
from models.training import Bar, CheckpointStore, Criterion, History, Settings, fit
from stages import encoders
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import atomic_folder, read_frame, write_json
from stages.encoders import ResolvedEncoder, resolve_encoder
from stages.runtime.checkpoints import FolderCheckpoints
from stages.runtime.device import choose_device
from stages.runtime.errors import InputError
from stages.runtime.fingerprint import hash_files, hash_values
from stages.runtime.memory import keep_freed_memory
from stages.runtime.precision import settled_precision
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.progress import progress_bar
from stages.runtime.seeds import derived_seed, generator, seed_everything

STAGE = "pair_classifier"
_NEGATIVES = {"random2": "each source with two random other targets",
              "released": "pairs labelled as different or, where texts come in groups, each source with four random "
                          "other targets"}
# A checkpoint goes on only under the code that began it.
_CODE = (Path(__file__), Path(encoders.__file__), Path(models.encoders.__file__), Path(models.bert.__file__),
         Path(models.pair_classifier.__file__), Path(models.precision.__file__), Path(models.training.__file__).parent)


@dataclass(frozen=True)
class TrainedClassifier:
    """What :func:`run` makes."""

    classifier: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    metrics: dict[str, Any]


def run(examples: pd.DataFrame, texts: pd.DataFrame, values: Mapping[str, Any], encoder: ResolvedEncoder,
        seed: int, store: CheckpointStore, device: str = "cpu",
        open_bar: Callable[[int, int], Bar] | None = None) -> TrainedClassifier:
    """Train a pair classifier on the pairs of the training split.

    Args:
        examples: table ``examples``.
        texts: table ``texts``.
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
    task = PairTask(
        _classifier(encoder, values["freeze_layers"], device), tokenizer,
        dict(zip(texts["text_id"], texts["text"], strict=True)), train, validation,
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


def split_points(examples: pd.DataFrame, split: str, seed: int, max_sources: int | None = None,
                 rule: str = "random2") -> list[PairPoint]:
    """Return the points of the distinct (source, target) pairs of ``split``, and of no other split.

    Args:
        examples: table ``examples``.
        split: ``train`` or ``validation``.
        seed: draws the sample and the negatives.
        max_sources: keep a seeded sample of so many pairs.
        rule: ``random2``: two random targets as negatives of each pair. ``released``: the released code's,
            which are the data set's own non-duplicates where pairs were labelled (negatives of origin
            ``labelled``), and four random ones where texts come in groups (several references). The released
            code draws the former from all rows, later test sentences among them; here they are the split's own.

    Raises:
        InputError: the split holds too few pairs to draw a negative from, or nothing that the rule needs.
    """
    mine = examples.loc[examples["split"] == split]
    chosen = mine[["source_id", "target_id"]].drop_duplicates()
    pairs = sorted((int(source), int(target)) for source, target in chosen.itertuples(index=False))
    if max_sources is not None and len(pairs) > max_sources:
        kept = generator(seed, STAGE, "sample", split).choice(len(pairs), max_sources, replace=False)
        pairs = [pairs[position] for position in sorted(kept.tolist())]
    if not pairs:
        raise InputError(f"examples.parquet: the {split} split has no pair. Give ingest.{split} a larger share, or "
                         f"more data.")
    if rule == "released" and (different := _labelled_different(mine, pairs)):
        return labelled_points(pairs, different)
    negatives = 4 if rule == "released" and _grouped(mine, split) else 2
    try:
        return pair_points(pairs, generator(seed, STAGE, "negatives", split), negatives, _references(mine))
    except ValueError as error:
        raise InputError(f"examples.parquet: the {split} split has too few pairs ({len(pairs)}) to draw negatives "
                         f"from: {error}. Give it a larger share (ingest.validation), or more data.") from error


def _labelled_different(examples: pd.DataFrame, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the sources of ``pairs`` with the negatives that were labelled so, each pair once, sorted."""
    sources = {source for source, _ in pairs}
    labelled = examples.loc[examples["negative_origin"] == "labelled", ["source_id", "negative_id"]].drop_duplicates()
    return sorted((int(source), int(negative)) for source, negative in labelled.itertuples(index=False)
                  if source in sources)


def _grouped(examples: pd.DataFrame, split: str) -> bool:
    """Return whether texts come in groups, as captions do; anything else has no released rule."""
    if examples["reference_ids"].map(len).max() < 2:
        raise InputError(f"pair_classifier.stage1_neg: released needs labelled non-duplicates (negative_origin "
                         f"labelled: ingest.neg_source labelled, from a layout with labels) or several references per "
                         f"source (captions), and the {split} split in examples.parquet has neither. Use random2.")
    return True


def _references(examples: pd.DataFrame) -> dict[int, set[int]]:
    """Return the references of each source, which are never its negatives."""
    references: dict[int, set[int]] = {}
    for source, others in examples[["source_id", "reference_ids"]].itertuples(index=False):
        references.setdefault(int(source), set()).update(int(other) for other in others)
    return references


def model_card(dataset: str, encoder: Mapping[str, Any], values: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """Return the README of the saved classifier."""
    settings = "\n".join(f"- {name}: {value}" for name, value in sorted(values.items()))
    return f"""---
library_name: transformers
pipeline_tag: text-classification
---
# Pair classifier of data set {dataset}

Says whether two sentences mean the same (class 1, `paraphrase`) or not (class 0, `different`). It exists for its
gradients: the norm of the gradient of the positive logit by a source word's embedding is the word's keyword score.

- Encoder at the start: {encoder["name"]} (version {encoder["version"]}, sha256 {encoder["sha256"]})
- Training points: {metrics["training_points"]}, of which {metrics["training_negatives"]} negative. Positive are the
  pairs and each source with itself; negative: {_NEGATIVES[values["stage1_neg"]]}.
- Validation accuracy {metrics["validation_accuracy"]:.4f}, cross-entropy {metrics["validation_loss"]:.4f} nats, on
  {metrics["validation_points"]} points made likewise, epoch {metrics["best_epoch"]} of {values["epochs"]}

Random negatives are easy: where they are, the accuracy says little about telling a paraphrase from a near miss.

Settings:

{settings}
"""


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
    examples, texts = read_frame(tables[0], "examples"), read_frame(tables[1], "texts")
    encoder = resolve_encoder(params.encoder.source)
    seed_everything(derived_seed(params.seed, STAGE, "weights"), params.runtime.threads,
                    params.runtime.deterministic, params.runtime.tf32)
    values = params.pair_classifier.plain()
    key = hash_values({"params": process.params_hash, "encoder": encoder.description,
                       "data": hash_files(tables), "code": hash_files(_CODE)})
    store = FolderCheckpoints(process.scratch, key, 60 * params.runtime.checkpoint_minutes)
    device = choose_device(params.runtime.device)
    precision = settled_precision(device, params.runtime, values, STAGE)
    trained = run(examples, texts, values, encoder, params.seed, store, device,
                  lambda total, done: progress_bar(process.name, total, "step", done))
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
