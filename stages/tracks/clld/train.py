"""Train a classifier of the CLLD track: one row of its table, with one encoder, on one data set.

Reads the labelled texts of the model's data set, and the confusing pairs of another model where the row takes them from
there; writes the model in Hugging Face layout, its training history and metrics, the texts that it is evaluated on, its
confusions on the validation split, and its label distance matrix over the training. The test split is never looked at.
With runtime.processes above 1, or under torchrun, several processes share the micro-batches.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from models.clld import (
    AdaptiveSchedule,
    ClldConfig,
    ClldModel,
    ClldTask,
    LabelledTexts,
    load_text_encoder,
    pairs_within,
    plain_config,
    word_tokenizer,
)
from models.common.encoders import encoder_pass
from models.common.precision import products
from models.common.task import CheckpointStore, Criterion, History, Settings
from models.common.training import fit
from stages.common.encoders import resolve_encoder
from stages.common.paths import DatasetPaths, ModelPaths
from stages.common.seeds import derived_seed
from stages.common.settings import Params, earlier_model
from stages.common.tables import read_frame
from stages.common.training import TRAINED_ON_FILE, loop_settings, processes
from stages.run.process import StageProcess, run_stage
from stages.run.processes import keep_freed_memory
from stages.tracks.clld.classifier import TrainedOn
from stages.tracks.clld.rows import TEXTCNN, row_name, row_of, source_of
from stages.tracks.clld.schemas import CONFUSING_PAIRS, LABEL_DISTANCE, LABELLED_ITEMS, VALIDATION_CONFUSION
from stages.tracks.clld.tables import (
    COLUMNS,
    class_numbers,
    classes_of,
    confusion_table,
    distance_table,
    read_labelled_texts,
)
from stages.tracks.common.training import ModelFolder, OpenBar, Table, Training, best_values, model_card, train

if TYPE_CHECKING:
    from stages.tracks.clld.params import ClldModel as ModelBlock

# Names the seeds of what is drawn.
STAGE = "train_clld"
Pairs = list[tuple[int, int]]
_SHOWN = 12
_EVALUATIONS = ["evaluation", "step", "loss", "accuracy", "macro_f1"]
# Optimiser, decay and warm-up, and learning rate and schedule where the params say null (CLLD section IV-B; warm-up
# and schedule ours). A schedule that is named has no warm-up.
_OWN: dict[str, dict[str, Any]] = {
    "encoder": {"learning_rate": 2e-5, "optimiser": "adamw", "weight_decay": 0.1, "schedule": "linear", "warmup": 0.1},
    TEXTCNN: {"learning_rate": 1e-3, "optimiser": "adam", "weight_decay": 0.0, "schedule": "constant", "warmup": 0.0}}
_KINDS = {"none": "none", "supcl_seq": "supervised", "simcse": "twin"}


def with_own_rates(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return ``values`` of the block ``train_clld`` with what a model from ``source`` takes for null.

    Args:
        values: plain values of the block with the model's overrides.
        source: of the encoder, or ``textcnn``.
    """
    own = _OWN.get(source, _OWN["encoder"])
    given = {name: value for name, value in values["training"].items() if value is not None or name not in own}
    return {**values, "training": {**own, **({"warmup": 0.0} if "schedule" in given else {}), **given}}


# Confusable classes: as somebody names them, or as a finished model has mistaken them


def named_pairs(groups: Sequence[Sequence[str]], classes: Sequence[str], place: str) -> Pairs:
    """Return the pairs within each group of classes, as indices (a, b) with a < b, sorted.

    Args:
        groups: names, or patterns such as ``comp.*``.
        classes: name of each class, by index.
        place: of the groups in the params, for errors.

    Raises:
        InputError: a name or pattern fits no class, or a group is of one class.
    """
    listed = ", ".join(classes[:_SHOWN]) + (", ..." if len(classes) > _SHOWN else "")
    pairs: set[tuple[int, int]] = set()
    for group in groups:
        try:
            found = pairs_within([group], classes)
        except ValueError as error:
            raise InputError(f"{place}: {error}. The classes are {listed}.") from error
        if not found:
            raise InputError(f"{place}: {list(group)} is one class, and a group needs two. The classes are {listed}.")
        pairs.update(found)
    return sorted(pairs)


def chosen_pairs(table: pd.DataFrame, classes: Sequence[str], model: str) -> Pairs:
    """Return the chosen pairs of table ``confusing_pairs`` as indices, sorted.

    Args:
        table: of a finished model.
        classes: name of each class, by index.
        model: name of that model, for errors.

    Raises:
        InputError: it is a model of other classes, or confuses nothing.
    """
    places = {name: number for number, name in enumerate(classes)}
    chosen = table[table["chosen"]]
    if chosen.empty:
        raise InputError(f"models.clld: model {model!r} confuses no two classes on the validation split, so that there "
                         f"are no pairs to take from it (pairs_of). Name the classes yourself (pairs), or give more of "
                         f"the data to validation (ingest.validation).")
    unknown = [name for name in (*chosen["class"], *chosen["other"]) if name not in places]
    if unknown:
        raise InputError(f"confusing_pairs.parquet of model {model!r}: class {unknown[0]!r} is none of the data set. "
                         f"Train that model again.")
    return sorted((places[a], places[b]) for a, b in zip(chosen["class"], chosen["other"], strict=True))


def _pairs(params: Params, name: str, seed: int, classes: Sequence[str]) -> Pairs:
    """Return the pairs of classes that model ``name`` sets apart, as indices; none for a row that has none.

    Raises:
        InputError: a class is unknown, or the model that they are taken from confuses nothing.
    """
    block: ModelBlock = params.models.clld[name]
    if block.pairs is not None:
        return named_pairs(block.pairs, classes, f"models.clld.{name}.pairs")
    if (other := earlier_model(block)) is not None:
        path = ModelPaths(other, params.earlier_seed(name, seed)).confusing_pairs
        return chosen_pairs(read_frame(path, CONFUSING_PAIRS), classes, other)
    return []


# The model


def build(values: Mapping[str, Any], contrast: str, pairs: Pairs, classes: Sequence[str],
          encoder: ResolvedEncoder | None, training_texts: Sequence[str],
          seed: int) -> tuple[ClldModel, PreTrainedTokenizerBase]:
    """Return a model to train, random but for a pre-trained encoder, and the tokenizer that cuts texts for it.

    Args:
        values: plain values of the block ``train_clld`` with the model's overrides.
        contrast: of ``models.clld.NAME``.
        pairs: indices of confusable classes, for ``static_tau_pairs``.
        classes: name of each class, by index.
        encoder: to start from (CLLD eq. 1, 2); None for a TextCNN with words of its own (Kim 2014).
        training_texts: of which a vocabulary may be made, and no others.
        seed: of the weights; rows of a table that differ in the contrast alone begin with the same.

    Raises:
        InputError: the encoder cannot be had as the params ask for it.
    """
    shared = {"pool": values["pool"], "ce_views": values["ce_views"],
              "contrast": {"kind": _KINDS.get(contrast, "label_distance"), **values["contrast"]},
              "distance": {"kind": contrast if contrast in ("static_tau_pairs", "adaptive") else "ones",
                           "pairs": tuple(pairs)}}
    torch.manual_seed(seed)
    if encoder is None:
        sizes = dict(values["textcnn"])
        words = word_tokenizer(training_texts, sizes.pop("min_count"))
        config = ClldConfig(TEXTCNN, classes, textcnn={**sizes, "vocabulary": len(words)}, **shared)
        return ClldModel(config), words
    try:
        loaded, tokenizer = load_text_encoder(encoder.location, encoder.pretrained)
        model = ClldModel.over(ClldConfig("encoder", classes, plain_config(loaded.config), **shared), loaded)
    except ValueError as error:
        raise InputError(f"models.clld: the encoder cannot be taken as train_clld asks for it: {error}.") from error
    _check_length(values["max_length"], loaded.config)
    return model, tokenizer


def _check_length(wanted: int, config: PretrainedConfig) -> None:
    # RoBERTa counts positions from behind its padding id
    taken = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    longest = config.max_position_embeddings - taken
    if wanted > longest:
        raise InputError(f"train_clld.max_length: {wanted} tokens are more than the {longest} that the encoder can "
                         f"read; lower it.")


@dataclass(frozen=True)
class TrainedClassifier:
    """What a training makes.

    Attributes:
        model: with the weights of the best epoch.
        tokenizer: as it is to be saved.
        items: rows of :func:`stages.tracks.clld.tables.labelled_texts`, all splits.
        history: of the training.
        confusion: of the model on the validation split (N, N), rows true, columns predicted.
        first_distance: label distance matrix that training began with (N, N); None for a model without one.
        updates: of that matrix, see :class:`models.clld.ClldTask`.
    """

    model: ClldModel
    tokenizer: PreTrainedTokenizerBase
    items: pd.DataFrame
    history: History
    confusion: np.ndarray
    first_distance: np.ndarray | None
    updates: list[dict[str, Any]]

    @property
    def classes(self) -> list[str]:
        """Name of each class, by index."""
        return self.model.config.classes


def run(items: pd.DataFrame, values: Mapping[str, Any], contrast: str, pairs: Pairs, encoder: ResolvedEncoder | None,
        seed: int, store: CheckpointStore, device: str = "cpu",
        open_bar: OpenBar | None = None) -> TrainedClassifier:
    """Train a classifier on the training texts and keep the epoch of best validation accuracy.

    Of equal accuracies the smaller validation loss is better, then the earlier epoch.

    Args:
        items: from :func:`stages.tracks.clld.tables.labelled_texts`, all splits; the test split is carried along.
        values: plain values of the block ``train_clld`` with the model's overrides, rates and optimiser filled in
            (:func:`with_own_rates`).
        contrast: of ``models.clld.NAME``.
        pairs: indices of confusable classes, for ``static_tau_pairs``.
        encoder: to start from; None for a TextCNN.
        seed: fans out by name into weights, order and dropout.
        store: keeps the training's state.
        device: ``cpu`` or ``cuda``.
        open_bar: given steps in all and done, returns a progress bar.

    Raises:
        InputError: the encoder cannot be had as asked for, or an adaptive matrix would never move.
    """
    training, classes = values["training"], classes_of(items)
    train = items[items["split"] == "train"]
    model, tokenizer = build(values, contrast, pairs, classes, encoder, train["text"].tolist(),
                             derived_seed(seed, STAGE, "weights"))
    nn.Module.to(model, device)
    texts = {split: _tokenised(items, split, tokenizer, classes, values["max_length"])
             for split in ("train", "validation")}
    settings = replace(loop_settings(training), select=(Criterion("accuracy", largest=True), Criterion("loss")))
    schedule = _schedule(settings, len(train)) if contrast == "adaptive" else None
    task = ClldTask(model, texts["train"], texts["validation"], training["learning_rate"], training["micro_batch"],
                    schedule)
    first = _matrix(model)
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    return TrainedClassifier(model, _saved(tokenizer, encoder, values["max_length"]), items, history,
                             _confusion(task, device, training["precision"]), first, task.updates)


def _saved(tokenizer: PreTrainedTokenizerBase, encoder: ResolvedEncoder | None,
           max_length: int) -> PreTrainedTokenizerBase:
    """Return the tokenizer as it is saved: without the padding and cut that it remembers from its work."""
    if encoder is not None:
        tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    else:
        tokenizer.backend_tokenizer.no_truncation()  # type: ignore[attr-defined]
        tokenizer.backend_tokenizer.no_padding()  # type: ignore[attr-defined]
    tokenizer.init_kwargs.pop("local_files_only", None)  # says whether this machine has a network
    tokenizer.model_max_length = max_length
    return tokenizer


def _tokenised(items: pd.DataFrame, split: str, tokenizer: Any, classes: list[str], max_length: int) -> LabelledTexts:
    chosen = items[items["split"] == split]
    return LabelledTexts.of(tokenizer, chosen["text"].tolist(), class_numbers(chosen["label"], classes), max_length)


def _schedule(settings: Settings, n_train: int) -> AdaptiveSchedule:
    schedule = AdaptiveSchedule(settings.epochs, settings.steps_per_epoch(n_train))
    if not schedule.update_steps():
        raise InputError(
            f"train_clld: an adaptive label distance would not move before the training ends, and equal a uniform one: "
            f"{settings.epochs} epochs of {schedule.steps_per_epoch} steps, an evaluation every {schedule.interval} "
            f"steps, an update every ten evaluations, none in the first fifth of all steps. Give more epochs or "
            f"smaller batches.")
    return schedule


def _matrix(model: ClldModel) -> np.ndarray | None:
    found = getattr(model, "ldm", None)
    return found.cpu().double().numpy() if isinstance(found, torch.Tensor) else None


def _confusion(task: ClldTask, device: str, precision: str) -> np.ndarray:
    with torch.no_grad(), products(device, precision):
        return task.judge().confusion.numpy()


# What it leaves behind


def texts_per_class(items: pd.DataFrame, classes: list[str]) -> dict[str, int]:
    """Return how many training texts each class has, in the order of ``classes``."""
    counts = items.loc[items["split"] == "train", "label"].value_counts()
    return {name: int(counts.get(name, 0)) for name in classes}


def training_metrics(trained: TrainedClassifier, on: TrainedOn, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``metrics.json`` says of a model: sizes, texts, and which pairs of classes were apart.

    Args:
        trained: the model.
        on: where it came from.
        settings: further values, such as the rates that the training took.
    """
    model, splits = trained.model, trained.items["split"].value_counts()
    config = model.config
    pairs = [[trained.classes[a], trained.classes[b]] for a, b in config.distance["pairs"]]
    return {"parameters": sum(p.numel() for p in model.parameters()),
            "contrast": on.contrast, "row": row_name(row_of(on.contrast, config.ce_views)), "encoder": on.encoder,
            "settings": dict(settings),
            "texts": {split: int(splits.get(split, 0)) for split in ("train", "validation", "test")},
            "training_texts": on.texts, "pairs": pairs, "updates": len(trained.updates),
            "vocabulary": len(trained.tokenizer)}


def folder_of(name: str, on: TrainedOn, settings: Mapping[str, Any], trained: TrainedClassifier,
              measured: Mapping[str, Any]) -> ModelFolder:
    """Return what a trained classifier leaves behind.

    Args:
        name: of the model.
        on: where it came from.
        settings: plain values of its block ``training``, with the rates that it took.
        trained: the model.
        measured: for the stage's record.
    """
    metrics, items = training_metrics(trained, on, settings), trained.items
    tables = [Table("items", items.loc[items["split"] != "train", COLUMNS], LABELLED_ITEMS),
              Table("validation_confusion", confusion_table(trained.confusion, trained.classes),
                    VALIDATION_CONFUSION),
              Table("label_distance", distance_table(trained.first_distance, trained.updates, trained.classes),
                    LABEL_DISTANCE)]
    logs = {"evaluations.csv": pd.DataFrame(trained.updates, columns=_EVALUATIONS)}
    return ModelFolder(training_card(name, trained, on, metrics), {TRAINED_ON_FILE: asdict(on)}, tables, metrics,
                       trained.tokenizer, logs, measured=measured)


def training_card(name: str, trained: TrainedClassifier, on: TrainedOn, metrics: Mapping[str, Any]) -> str:
    """Return the README of the saved model; ``metrics`` are those of :func:`training_metrics`."""
    history, config, settings = trained.history, trained.model.config, metrics["settings"]
    contrast = config.contrast["kind"] + (", weight 0.5" if config.contrasts else "") + (
        f", label distance {config.distance['kind']}" if config.contrast["kind"] == "label_distance" else "")
    classes = "\n".join(f"- {_plain(label)}: {count} training texts" for label, count in on.texts.items())
    return model_card(
        f"{name}: {metrics['row']}", "text-classification",
        f"Puts a text into one of {len(on.texts)} classes. Trained by Keycontrast on the data set `{on.dataset}`: "
        f"{metrics['texts']['train']} texts, {metrics['texts']['validation']} for selection.",
        [f"Encoder: {_plain(on.encoder)}; {metrics['parameters']} parameters; {on.max_length} tokens of a text are "
         f"read",
         f"Best epoch {history.best_epoch} of {settings['epochs']}, by validation accuracy: {best_values(history)}",
         f"Contrast: {contrast}",
         f"{settings['optimiser']}, rate {settings['learning_rate']:g}, {settings['batch_size']} texts a step",
         "`config.json` holds the settings and the names of the classes, `trained_on.json` where the model came from"],
        '`keycontrast predict RUN "a text"`, or `models.clld.ClldModel.from_pretrained(FOLDER)`',
        f"Classes:\n\n{classes}")


def _plain(text: str) -> str:
    """Return a name from a data set as Markdown code on one line."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


# The stage


def _prepared(params: Params, name: str) -> Callable[[int], Training[TrainedClassifier]]:
    block, paths = params.models.clld[name], DatasetPaths(params.models.clld[name].dataset)
    items, source = read_labelled_texts(paths), source_of(params, name)
    values, classes = with_own_rates(params.model(name).plain(), source), classes_of(items)
    encoder = None if source == TEXTCNN else _resolved(
        source, "encoder.source" if block.encoder is None else f"models.clld.{name}.encoder")
    described = {"encoder": {"name": TEXTCNN} if encoder is None else encoder.description}

    def left(trained: TrainedClassifier) -> ModelFolder:
        on = TrainedOn(paths.name, block.contrast, source, values["max_length"], texts_per_class(items, classes))
        measured = {} if encoder is None else {"encoder_pass": encoder_pass(trained.model.encoder)}
        return folder_of(name, on, values["training"], trained, measured)

    def of_seed(seed: int) -> Training[TrainedClassifier]:
        pairs = _pairs(params, name, seed, classes)
        return Training("encoder" if encoder else TEXTCNN, values["training"],
                        [paths.table(kind) for kind in ("examples", "texts")],
                        partial(run, items, values, block.contrast, pairs, encoder, seed), left, described,
                        {"pairs": pairs})

    return of_seed


def _resolved(source: str, place: str) -> ResolvedEncoder:
    """Return the encoder that ``source`` names.

    Raises:
        InputError: as of :func:`stages.common.encoders.resolve_encoder`, naming ``place``.
    """
    try:
        return resolve_encoder(source)
    except InputError as error:
        raise InputError(str(error).replace("encoder.source", place, 1)) from error


def _work(process: StageProcess) -> None:
    train(process, _prepared)


def main(argv: list[str] | None = None) -> int:
    """Train the model named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="MODEL", processes=processes)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
