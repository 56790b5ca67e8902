"""Baselines of word pieces on the items of the HCL track: their batches, task and training (HCL section 4.3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from models.common.task import CheckpointStore, History, Parameters, Step, Task
from models.common.training import fit
from models.hcl.baselines.auto import load_pieces
from models.hcl.baselines.base import Batch, OwnPieceModel, PieceConfig
from stages.common.encoders import resolve_encoder
from stages.common.seeds import derived_seed
from stages.common.training import loop_settings
from stages.tracks.common.starts import GivenStart
from stages.tracks.common.trained import ModelFolder, best_values, model_card
from stages.tracks.common.training import OpenBar, Training
from stages.tracks.hcl.architecture import TABLES, Architecture, HclRow
from stages.tracks.hcl.batches import Marks, TripleBatches
from stages.tracks.hcl.pieces import PieceOrigin
from stages.tracks.hcl.trained import items_table

# Names the seeds of what is drawn.
STAGE = "train_hcl"
FROM_SCRATCH = "from scratch"


@dataclass(frozen=True)
class Start:
    """What a baseline begins with.

    Attributes:
        tokenizer: cuts its texts.
        marks: tokens around them.
        described: name of each model that it is made with, and its description; they decide the weights.
        location: folder or id that weights come from; None draws them.
        said: the same for people.
        further: values for the configuration of a model that is built here.
    """

    tokenizer: PreTrainedTokenizerBase
    marks: Marks
    described: dict[str, Any]
    location: str | None = None
    said: str = FROM_SCRATCH
    further: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Making:
    """What a model is built of.

    Attributes:
        architecture: its name.
        sizes: its block of ``train_hcl``, plain.
        start: what it begins with.
        mean_target_length: of the training targets, end token included.
        train: training items, rows of ``joined_items``.
        training: the block ``train_hcl.training``, plain.
    """

    architecture: str
    sizes: Mapping[str, Any]
    start: Start
    mean_target_length: float
    train: pd.DataFrame
    training: Mapping[str, Any]

    def config(self) -> PieceConfig:
        """Return the configuration of a model that is built here."""
        marks = self.start.marks
        return PieceConfig(self.architecture, len(self.start.tokenizer), self.sizes, self.mean_target_length,
                           pad_token_id=marks.pad, bos_token_id=marks.start, eos_token_id=marks.end,
                           **self.start.further)


def of_encoder(row: HclRow, sizes: Mapping[str, Any]) -> Start:
    """Return the start of a model from scratch that shares no more than the encoder's word pieces."""
    encoder = resolve_encoder(row.encoder)
    tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    return Start(tokenizer, Marks.of(tokenizer), {"tokenizer": encoder.description})


def triples(items: pd.DataFrame, start: Start, training: Mapping[str, Any], sizes: Mapping[str, Any],
            kind: type[TripleBatches] = TripleBatches) -> TripleBatches:
    """Return the batches of items.

    Args:
        items: rows of ``joined_items``, all of one split.
        start: of their model.
        training: the block ``train_hcl.training``, plain.
        sizes: the model's block, plain.
        kind: class of the batches.
    """
    return kind(items, start.tokenizer, training["max_source"], training["max_target"], training["keep"], start.marks)


Batches = Callable[[pd.DataFrame, Start, Mapping[str, Any], Mapping[str, Any]], TripleBatches]


@dataclass(frozen=True)
class Baseline:
    """A kind of baseline; see :func:`of_pieces`, whose arguments these are."""

    name: str
    title: str
    code: str
    built: Callable[[Making], Any]
    start: Callable[[HclRow, Mapping[str, Any]], Start]
    batches: Batches


def of_pieces(name: str, title: str, code: str, built: Callable[[Making], Any] | type[OwnPieceModel],
              start: Callable[[HclRow, Mapping[str, Any]], Start] = of_encoder,
              batches: Batches = triples) -> Architecture:
    """Return the architecture of a baseline of word pieces.

    Args:
        name: as the params have it, of its block in ``train_hcl``, and in ``models.hcl.baselines.auto``.
        title: as cards have it.
        code: dotted name of the module that asks.
        built: returns the model, a :class:`models.hcl.baselines.base.PieceModel` beside a ``PreTrainedModel``, its
        weights
            drawn from torch's generator; or its class, if that is built of a ``PieceConfig`` alone.
        start: given the row and the plain values of the block, returns tokenizer and marks.
        batches: returns the batches of training items; arguments as of :func:`triples`.
    """
    def of_config(making: Making) -> Any:
        return built(making.config())  # type: ignore[arg-type, call-arg]

    build = of_config if isinstance(built, type) and issubclass(built, OwnPieceModel) else built
    return Architecture(name, title, partial(_prepared, Baseline(name, title, code, build, start, batches)))


@dataclass(frozen=True)
class TrainedPieces:
    """What a training makes: the model with the weights of the best epoch, and what happened."""

    model: Any
    history: History


class PieceTask(Task):
    """Trains a baseline; see ``models.common.task.Task``. Losses are divided by the mean target length, as HCL's
    are.

    Args:
        model: on its device.
        items: rows of ``joined_items``, of the training and of the validation split.
        batches: of these.
        tokenizer: of the model.
        training: plain values of ``train_hcl.training``.
        seed: of the noise for validation.
    """

    train: TripleBatches
    validation: TripleBatches

    def __init__(self, model: Any, items: tuple[pd.DataFrame, pd.DataFrame],
                 batches: tuple[TripleBatches, TripleBatches], tokenizer: PreTrainedTokenizerBase,
                 training: Mapping[str, Any], seed: int) -> None:
        self.model, self.module, self.tokenizer = model, model.trainee(), tokenizer
        self.train, self.validation = batches
        self.sources = {id(batch): rows["source"].tolist() for batch, rows in zip(batches, items, strict=True)}
        self.learning_rate, self.batch_size = training["learning_rate"], training["micro_batch"]
        self.encoder_rate = training["encoder_rate"]
        self.divisor = self.train.mean_target_length
        self.noise = torch.stack([torch.randn(model.noise_size, generator=torch.Generator().manual_seed(
            derived_seed(seed, STAGE, "eps", example))) for example in self.validation.example_ids])

    def parameter_groups(self) -> list[Parameters]:
        """Return the parameters of the encoder, if the model has one, and all others, the trainee's own too."""
        groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
        prefix = self.model.encoder_prefix
        for name, parameter in self.module.named_parameters():
            groups[prefix is not None and name.removeprefix("model.").startswith(prefix)].append(parameter)
        return [Parameters("encoder", groups[True], self.encoder_rate),
                Parameters("rest", groups[False], self.learning_rate)]

    def lengths(self) -> list[int]:
        """Return the tokens of each training item's source and target, marks not counted."""
        return [len(x) + len(y) for x, y in zip(self.train.sources.ids, self.train.targets.ids, strict=True)]

    def load(self, items: Sequence[int]) -> Batch:
        """Return the tensors of ``items``, with what the model knows of them before it computes."""
        return self._loaded(self.train, items)

    def load_validation(self, items: Sequence[int]) -> Batch:
        """Return the same of validation items, with their noise."""
        return {**self._loaded(self.validation, items), "eps": self.noise[list(items)]}

    def _loaded(self, batches: TripleBatches, items: Sequence[int]) -> Batch:
        sources = self.sources[id(batches)]
        further = self.model.inputs([sources[item] for item in items], self.tokenizer)
        return self.model.planned({**batches.batch(items), **further})

    def train_batch(self, batch: Batch, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the loss of the step's batch, and its parts."""
        parts = {name: value.sum() / len(step.batch) for name, value in self.module.objective(batch, step).items()}
        return parts.pop("loss") / self.divisor, parts

    def validate(self) -> dict[str, float]:
        """Return means over validation items, ``loss`` of them over the mean target length."""
        sums = self.validation_sums(lambda batch: {name: value.sum() for name, value in
                                                   self.model.validation(batch).items()})
        means = {name: value / len(self.validation) for name, value in sums.items()}
        return means | {"loss": means["loss"] / self.divisor}


def _prepared(baseline: Baseline, row: HclRow) -> Training[TrainedPieces]:
    training, sizes = row.values["training"], row.values[baseline.name]
    start, (initial, described) = baseline.start(row, sizes), _initial(baseline, row)
    on = PieceOrigin(baseline.name, row.paths.name, start.said, asdict(start.marks),
                     *(training[name] for name in ("max_source", "max_target", "keep")))
    return Training(baseline.name, training,
                    [row.paths.table(schema.name) for schema in TABLES],
                    partial(run, baseline, start, row.items, row.values, row.seed, initial=initial),
                    partial(_folder, baseline, row, on, start), {**start.described, **described})


def _initial(baseline: Baseline, row: HclRow) -> tuple[Any, dict[str, Any]]:
    """Return the trained model of this architecture that ``row`` goes on from, and its description; nothing for None.

    Raises:
        InputError: it is not trained yet.
    """
    if row.init_from is None:
        return None, {}
    if isinstance(row.init_from, GivenStart):
        raise InputError(f"models.hcl.{row.name}.init: {row.init_from.name} is a start of architecture hcl.")
    folder = row.init_from.weights
    PieceOrigin.load(folder)
    described = {"name": row.init_from.name, "sha256": sha256_of(folder / "model.safetensors")}
    return load_pieces(folder, baseline.name), {"init_from": described}


def _taken_over(model: nn.Module, initial: nn.Module) -> None:
    """Put the weights of ``initial`` into ``model``.

    Raises:
        InputError: they are of other sizes.
    """
    own, other = model.state_dict(), initial.state_dict()
    unlike = [name for name in sorted(own.keys() | other.keys())
              if name not in own or name not in other or own[name].shape != other[name].shape]
    if unlike:
        raise InputError(f"models.hcl: the model in init has other sizes ({unlike[0]}); give both rows the same.")
    model.load_state_dict(other)


def run(baseline: Baseline, start: Start, items: pd.DataFrame, values: Mapping[str, Any], seed: int,
        store: CheckpointStore, device: str = "cpu", open_bar: OpenBar | None = None,
        initial: Any = None) -> TrainedPieces:
    """Train a model on the training items and keep the epoch of smallest validation loss.

    Args:
        baseline: kind of model.
        start: what it begins with.
        items: from :func:`stages.tracks.hcl.items.joined_items`, all splits.
        values: plain values of the block ``train_hcl`` with the model's overrides.
        seed: fans out by name into weights, order, dropout and noise.
        store: keeps the training's state.
        device: ``cpu`` or ``cuda``.
        open_bar: given steps in all and done, returns a progress bar.
        initial: trained model of this kind whose weights it goes on from, at ``training.taken_rate`` if there is one.

    Raises:
        InputError: no training or no validation item, or an ``initial`` of other sizes.
    """
    training = values["training"]
    train, validation = (_split(items, split) for split in ("train", "validation"))
    sizes, settings = values[baseline.name], loop_settings({**training, "bucket": True})
    batches = baseline.batches(train, start, training, sizes), triples(validation, start, training, sizes)
    torch.manual_seed(derived_seed(seed, STAGE, "weights"))
    model = baseline.built(Making(baseline.name, sizes, start, batches[0].mean_target_length, train, training))
    if initial is not None:
        _taken_over(model, initial)
        training = {**training, "learning_rate": training["taken_rate"] or training["learning_rate"]}
    nn.Module.to(model, device)
    task = PieceTask(model, (train, validation), batches, start.tokenizer, training, seed)
    settings = replace(settings, patience_from=model.settled(settings.total_steps(len(train))))
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    return TrainedPieces(model, history)


def _split(items: pd.DataFrame, split: str) -> pd.DataFrame:
    chosen = items[items["split"] == split]
    if chosen.empty:
        raise InputError(f"table examples: the {split} split is empty. Give more data, or a larger share "
                         f"(ingest.validation).")
    return chosen


def _folder(baseline: Baseline, row: HclRow, on: PieceOrigin, start: Start, trained: TrainedPieces) -> ModelFolder:
    counts, training = row.items["split"].value_counts(), row.values["training"]
    metrics: dict[str, Any] = {"parameters": sum(p.numel() for p in trained.model.parameters()), "start": start.said}
    card = model_card(
        f"{row.name}: {baseline.title}", "text-generation",
        f"Rewrites a sentence. Trained by Keycontrast on the data set `{on.dataset}`: {counts.get('train', 0)} pairs, "
        f"{counts.get('validation', 0)} for selection.",
        [f"Weights at the start: {start.said if row.init_from is None else f'those of {row.init_from.name}'}",
         f"Best epoch {trained.history.best_epoch} of {training['epochs']}: {best_values(trained.history)}",
         f"{metrics['parameters']} parameters; {len(start.tokenizer)} word pieces; {on.max_source} of a text are read",
         "`config.json` holds the settings, `trained_on.json` where the model came from"],
        '`keycontrast predict RUN "a sentence"`, or `models.hcl.baselines.auto.load_pieces(FOLDER, ARCHITECTURE)`')
    return ModelFolder(card, on.notes(), [items_table(row.items)], metrics, start.tokenizer)
