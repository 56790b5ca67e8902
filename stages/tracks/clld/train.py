"""Train a classifier of the CLLD track: one row of its table, with one encoder, on one data set."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError, nearest
from models.clld import clld as networks
from models.clld.clld import AdaptiveSchedule, ClldModel, ClldTask, LabelledTexts
from models.clld.textcnn import word_tokenizer
from models.common.losses import products
from models.common.training import CheckpointStore, Criterion, History, Settings, fit
from stages.common.encoders import longest_input, resolve_encoder
from stages.common.paths import DatasetPaths, ModelPaths
from stages.common.seeds import derived_seed
from stages.common.settings import Params, earlier_model
from stages.common.tables import read_frame
from stages.common.training import TRAINED_ON_FILE, loop_settings, processes, selection
from stages.run.process import run_stage
from stages.tracks.clld import tables as clld
from stages.tracks.clld.export import TrainedOn, classifier_card
from stages.tracks.clld.tables import TEXTCNN, class_numbers, classes_of, row_name, row_of, source_of
from stages.tracks.common.schemas import Table
from stages.tracks.common.training import ModelFolder, OpenBar, SeedTraining, train

STAGE = "train_clld"
Pairs = list[tuple[int, int]]
# Weight decay and warm-up, and learning rate and schedule where the params say null (CLLD section IV-B; warm-up
# and schedule ours). A schedule that is named has no warm-up.
_OWN: dict[str, dict[str, Any]] = {
    "encoder": {"learning_rate": 2e-5, "weight_decay": 0.1, "schedule": "linear", "warmup": 0.1},
    TEXTCNN: {"learning_rate": 1e-3, "weight_decay": 0.0, "schedule": "constant", "warmup": 0.0}}
_KINDS = {"none": "none", "supcl_seq": "supervised", "simcse": "twin"}
_DISTANCES = ("static_tau_pairs", "adaptive")


def with_own_rates(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return ``values`` of the block ``train_clld``, null replaced by the defaults of a model from ``source``."""
    own = _OWN.get(source, _OWN["encoder"])
    given = {name: value for name, value in values["training"].items() if value is not None or name not in own}
    return {**values, "training": {**own, **({"warmup": 0.0} if "schedule" in given else {}), **given}}


def named_pairs(groups: Sequence[Sequence[str]], classes: Sequence[str], place: str) -> Pairs:
    """Return the pairs within each group of names, or patterns such as ``comp.*``, as indices (a, b), a < b, sorted."""
    pairs: set[tuple[int, int]] = set()
    for group in groups:
        for pattern in group:
            if not any(name == pattern or fnmatchcase(name, pattern) for name in classes):
                raise InputError(f"{place}: no class fits {pattern!r}; {nearest(pattern, classes)}")
        members = [number for number, name in enumerate(classes)
                   if name in group or any(fnmatchcase(name, part) for part in group)]
        if len(members) == 1:
            raise InputError(f"{place}: {list(group)} is one class, and a group needs two. The classes are "
                             f"{', '.join(classes)}.")
        pairs.update(combinations(members, 2))
    return sorted(pairs)


def chosen_pairs(table: pd.DataFrame, classes: Sequence[str], model: str) -> Pairs:
    """Return the chosen pairs of table ``confusing_pairs`` of the finished ``model`` as indices, sorted."""
    chosen = table[table["chosen"]]
    if chosen.empty:
        raise InputError(f"models.clld: model {model!r} confuses no two classes on the validation split, so that there "
                         f"are no pairs to take from it (pairs_of). Name the classes yourself (pairs), or give more of "
                         f"the data to validation (ingest.validation).")
    first, second = (class_numbers(chosen[end], classes) for end in ("class", "other"))
    return sorted(zip(first, second, strict=True))


def _pairs(params: Params, name: str, seed: int, classes: Sequence[str]) -> Pairs:
    """Return the pairs of classes with distance tau in model ``name``, as indices; none for other rows."""
    block = params.models.clld[name]
    if block.pairs is not None:
        return named_pairs(block.pairs, classes, f"models.clld.{name}.pairs")
    if (other := earlier_model(block)) is not None:
        path = ModelPaths(other, params.earlier_seed(name, seed)).confusing_pairs
        return chosen_pairs(read_frame(path, clld.CONFUSING_PAIRS), classes, other)
    return []


def build(values: Mapping[str, Any], contrast: str, pairs: Pairs, classes: Sequence[str],
          encoder: ResolvedEncoder | None, training_texts: Sequence[str],
          seed: int) -> tuple[ClldModel, PreTrainedTokenizerBase]:
    """Return a new model, and its tokenizer; without an ``encoder`` it is a TextCNN (Kim 2014).

    Rows of a table that differ in the contrast alone begin with the same weights.
    """
    shared = {"pool": values["pool"], "ce_views": values["ce_views"],
              "contrast": {"kind": _KINDS.get(contrast, "label_distance"), **values["contrast"]},
              "distance": {"kind": contrast if contrast in _DISTANCES else "ones", "pairs": tuple(pairs)}}
    torch.manual_seed(seed)
    if encoder is None:
        sizes = dict(values["textcnn"])
        words = word_tokenizer(training_texts, sizes.pop("min_count"))
        sizes["vocabulary"] = len(words)
        return ClldModel(networks.ClldConfig(TEXTCNN, classes, textcnn=sizes, **shared)), words
    try:
        loaded, tokenizer = networks.load_text_encoder(encoder.location, encoder.pretrained)
        model = ClldModel.over(loaded, classes, **shared)
    except ValueError as error:
        raise InputError(f"models.clld: the encoder does not fit the settings of train_clld: {error}.") from error
    if values["max_length"] > longest_input(loaded):
        raise InputError(f"train_clld.max_length: {values['max_length']} tokens are more than the "
                         f"{longest_input(loaded)} that the encoder can read; lower it.")
    return model, tokenizer


@dataclass(frozen=True)
class TrainedClassifier:
    """The model with the weights of its best epoch, and the record of its training."""

    model: ClldModel
    tokenizer: PreTrainedTokenizerBase  # as it is to be saved
    history: History
    confusion: np.ndarray  # on the validation split (N, N), rows true, columns predicted
    distances: pd.DataFrame  # table label_distance
    updates: list[dict[str, Any]]  # of the label distance matrix, see ClldTask


def run(items: pd.DataFrame, values: Mapping[str, Any], contrast: str, pairs: Pairs, encoder: ResolvedEncoder | None,
        seed: int, store: CheckpointStore, device: str = "cpu",
        open_bar: OpenBar | None = None) -> TrainedClassifier:
    """Train a classifier on the training texts and keep the epoch of best validation accuracy.

    If accuracies are equal, the smaller validation loss decides, then the earlier epoch. The test split contributes
    only class names. ``values`` come from :func:`with_own_rates`, ``pairs`` are for ``static_tau_pairs``.
    """
    training, classes, length = values["training"], classes_of(items), values["max_length"]
    parts = {split: items[items["split"] == split] for split in ("train", "validation")}
    model, tokenizer = build(values, contrast, pairs, classes, encoder, parts["train"]["text"].tolist(),
                             derived_seed(seed, STAGE, "weights"))
    nn.Module.to(model, device)
    texts = {split: LabelledTexts.of(tokenizer, part["text"].tolist(), class_numbers(part["label"], classes), length)
             for split, part in parts.items()}
    settings = replace(loop_settings(training), select=(Criterion("accuracy", largest=True), Criterion("loss")))
    settings, schedule = _scheduled(settings, len(texts["train"])) if contrast == "adaptive" else (settings, None)
    task = ClldTask(model, texts["train"], texts["validation"], training["learning_rate"], training["micro_batch"],
                    schedule)
    ldm = getattr(model, "ldm", None)
    first = None if ldm is None else ldm.tolist()
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    with torch.no_grad(), products(device, training["precision"]):
        confusion = task.judge()[1].numpy()
    tokenizer.model_max_length = length
    updates = [update for update in task.updates if update["epoch"] <= history.best_epoch]
    return TrainedClassifier(model, tokenizer, history, confusion,
                             clld.distance_table(first, updates, classes), updates)


def _scheduled(settings: Settings, n_train: int) -> tuple[Settings, AdaptiveSchedule]:
    """Return the schedule, and settings that select no epoch before its first update, which would be CT+CL."""
    schedule = AdaptiveSchedule(settings.epochs, settings.steps_per_epoch(n_train))
    first = next(filter(schedule.updates, range(1, schedule.total_steps)), None)  # no step feels one after the last
    if first is None:
        raise InputError(
            f"train_clld: an adaptive label distance would not move before the training ends, and equal a uniform one: "
            f"{settings.epochs} epochs of {schedule.steps_per_epoch} steps, an evaluation every {schedule.interval} "
            f"steps, an update every ten evaluations, none in the first fifth of all steps. Give more epochs or "
            f"smaller batches.")
    return replace(settings, final_from_step=first + 1), schedule


def train_model(job: SeedTraining) -> None:
    """Train a row of CLLD's table under one seed, and save it."""
    params, name, block = job.params, job.name, job.params.models.clld[job.name]
    paths, source = DatasetPaths(block.dataset), source_of(params, name)
    items = clld.read_labelled_texts(paths)
    values, classes = with_own_rates(params.model(name).plain(), source), classes_of(items)
    encoder = None if source == TEXTCNN else resolve_encoder(
        source, "encoder.source" if block.encoder is None else f"models.clld.{name}.encoder")
    pairs = _pairs(params, name, job.seed, classes)
    if not job.begin(values["training"], [paths.table(kind) for kind in ("examples", "texts")],
                     {"encoder": {"name": TEXTCNN} if encoder is None else encoder.description}, pairs=pairs):
        return
    trained = run(items, values, block.contrast, pairs, encoder, job.seed, job.store, job.device, job.open_bar)
    model, config = trained.model, trained.model.config
    counts = items.loc[items["split"] == "train", "label"].value_counts()
    on = TrainedOn(paths.name, block.contrast, source, values["max_length"],
                   {label: int(counts.get(label, 0)) for label in classes})
    metrics = {"parameters": sum(p.numel() for p in model.parameters()),
               "contrast": on.contrast, "row": row_name(row_of(on.contrast, config.ce_views)), "encoder": on.encoder,
               "settings": dict(values["training"]),
               "texts": {split: int((items["split"] == split).sum()) for split in ("train", "validation", "test")},
               "training_texts": on.texts, "pairs": [[classes[a], classes[b]] for a, b in config.distance.pairs],
               "updates": len(trained.updates), "vocabulary": len(trained.tokenizer)}
    card = classifier_card(
        name, on, config, {**selection(trained.history), **metrics},
        "`config.json` holds the settings and the names of the classes, `trained_on.json` where the model came from",
        '`keycontrast predict RUN "a text"`, or `models.clld.clld.ClldModel.from_pretrained(FOLDER)`')
    confusion = clld.confusion_table(trained.confusion, classes)
    tables = [Table("items", items[items["split"] != "train"], clld.LABELLED_ITEMS),
              Table("validation_confusion", confusion, clld.VALIDATION_CONFUSION),
              Table("label_distance", trained.distances, clld.LABEL_DISTANCE)]
    job.save("encoder" if encoder else TEXTCNN, model, trained.history, ModelFolder(
        card, {TRAINED_ON_FILE: asdict(on)}, tables, metrics, trained.tokenizer))


main = partial(run_stage, STAGE, lambda process: train(process, train_model), instance="MODEL", processes=processes)
