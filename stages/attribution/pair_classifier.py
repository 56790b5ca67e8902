"""Train the classifier of sentence pairs whose gradients become keyword scores (PGKPR section 3).

It is trained on the training split alone and selected by validation accuracy.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from keycontrast.files import atomic_folder
from models.common.training import Bar, CheckpointStore, Criterion, Settings, fit
from models.keywords.pair_classifier import PairExample, PairTask, build_pair_classifier, pair_examples
from stages.common.encoders import longest_input, resolve_encoder
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES, TEXTS
from stages.common.seeds import derived_seed, generator
from stages.common.tables import read_frame, read_table, write_json
from stages.common.training import fit_of_data_set, save_tokenizer
from stages.run.process import StageProcess, run_stage

STAGE = "pair_classifier"
# Columns of the examples that are needed.
_READ = ["split", "source_id", "target_id", "negative_id", "reference_ids", "negative_origin"]
# Random negatives of each pair of a split, where the released code draws any.
_RELEASED = {"train": 4, "validation": 2}
_POINTS = {"random2": "Positive are the pairs and each source with itself; negative: each source with two random other "
                      "targets.",
           "released": "Where pairs were labelled, they are positive, and those labelled as different negative. Where "
                       "texts come in\n  groups, the pairs and each source with itself are positive; negative: each "
                       "source with four random other targets,\n  in validation with two."}


def run(examples: pd.DataFrame, texts: Mapping[int, str], values: Mapping[str, Any], encoder: ResolvedEncoder,
        seed: int, store: CheckpointStore, device: str = "cpu",
        open_bar: Callable[[int, int], Bar] | None = None
        ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, dict[str, Any]]:
    """Train a pair classifier on the pairs of the training split; return it with its tokenizer and metrics."""
    rule = values["stage1_neg"]
    train = split_points(examples, "train", seed, values["max_sources"], rule)
    validation = split_points(examples, "validation", seed, rule=rule)
    tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    try:
        classifier = build_pair_classifier(encoder.location, encoder.pretrained, values["freeze_layers"])
    except ValueError as error:
        raise InputError(f"pair_classifier.freeze_layers or encoder.source: {error}.") from error
    if values["max_length"] > longest_input(classifier):
        raise InputError(f"pair_classifier.max_length: {values['max_length']} tokens are more than the "
                         f"{longest_input(classifier)} that the encoder can read; lower it.")
    nn.Module.to(classifier, device)
    task = PairTask(classifier, tokenizer, texts, train, validation, values["max_length"], values["learning_rate"],
                    values["batch_size"])
    settings = Settings(
        epochs=values["epochs"], batch_size=values["batch_size"], eps=1e-8, warmup=0.0, clip=values["clip"],
        precision=values["precision"],
        select=(Criterion("accuracy", largest=True), Criterion("loss")))
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    tokenizer.model_max_length = values["max_length"]
    return classifier, tokenizer, {
        "validation_accuracy": history.best["accuracy"], "validation_loss": history.best["loss"],
        "best_epoch": history.best_epoch, "training_points": len(train), "validation_points": len(validation),
        "training_negatives": sum(point.label == 0 for point in train),
        "validation_negatives": sum(point.label == 0 for point in validation), "history": history.rows}


def split_points(examples: pd.DataFrame, split: str, seed: int, max_sources: int | None = None,
                 rule: str = "random2") -> list[PairExample]:
    """Return the points of the distinct (source, target) pairs of ``split``, at most ``max_sources``, and of no other.

    The ``rule`` of negatives ``random2`` takes two random targets for each pair. ``released`` takes the rule of the
    released code: labelled non-duplicates where pairs were labelled (origin ``labelled``; no source is then paired
    with itself), and where texts come in groups (several references) four random targets, in validation two. The
    released code draws non-duplicates from all rows, test sentences included; here they are of the split.
    """
    of_split = examples.loc[examples["split"] == split]
    pairs = _distinct_pairs(of_split, "target_id")
    if max_sources is not None and len(pairs) > max_sources:
        kept = generator(seed, STAGE, "sample", split).choice(len(pairs), max_sources, replace=False)
        pairs = [pairs[position] for position in sorted(kept.tolist())]
    if not pairs:
        raise InputError(f"table examples: the {split} split has no pair. Give more data, or change "
                         f"ingest.validation and ingest.test.")
    is_source = of_split["source_id"].isin([source for source, _ in pairs])
    labelled = of_split[(of_split["negative_origin"] == "labelled") & is_source]
    if rule == "released" and len(labelled):
        different = _distinct_pairs(labelled, "negative_id")
        return [PairExample(*pair, 1) for pair in pairs] + [PairExample(*pair, 0) for pair in different]
    if rule == "released" and of_split["reference_ids"].map(len).max() < 2:
        raise InputError(f"pair_classifier.stage1_neg: released needs labelled non-duplicates (negative_origin "
                         f"labelled: ingest.neg_source labelled, from a layout with labels) or several references per "
                         f"source (captions), and the {split} split in table examples has neither. Use random2.")
    negatives = _RELEASED[split] if rule == "released" else 2
    references = of_split.explode("reference_ids").groupby("source_id")["reference_ids"].agg(set).to_dict()
    try:
        return pair_examples(pairs, generator(seed, STAGE, "negatives", split), negatives, references)
    except ValueError as error:
        raise InputError(f"table examples: the {split} split has too few pairs ({len(pairs)}) to draw negatives "
                         f"from: {error}. Give it a larger share (ingest.validation), or more data.") from error


def _distinct_pairs(examples: pd.DataFrame, column: str) -> list[tuple[int, int]]:
    """Return the distinct pairs of a source and the text of ``column``, sorted."""
    pairs = examples[["source_id", column]].astype("int64").drop_duplicates()
    return sorted(pairs.itertuples(index=False, name=None))


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
- Training points: {metrics["training_points"]}, of which {metrics["training_negatives"]} negative.
  {_POINTS[values["stage1_neg"]]}
- Validation accuracy {metrics["validation_accuracy"]:.4f}, cross-entropy {metrics["validation_loss"]:.4f} nats, on
  {metrics["validation_points"]} points made likewise, epoch {metrics["best_epoch"]} of {values["epochs"]}

Random negatives are easy: where they are, the accuracy says little about telling a paraphrase from a near miss.

Settings:

{settings}
"""


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
    classifier, tokenizer, metrics = trained
    classifier.config.computed_in = precision
    with atomic_folder(paths.pair_classifier) as folder:
        classifier.save_pretrained(folder)
        save_tokenizer(tokenizer, folder)
        (folder / "README.md").write_text(model_card(process.instance, encoder.description, values, metrics),
                                           encoding="utf-8")
    write_json(paths.metrics(STAGE), metrics)
    store.clear()


main = partial(run_stage, STAGE, _work)
