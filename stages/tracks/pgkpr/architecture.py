"""What the PGKPR track knows of a kind of rewriter, and how it trains one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from keycontrast.errors import InputError
from models.common.training import CheckpointStore, fit
from models.pgkpr.pgkpr import Rewriter, RewriterConfig
from stages.common.seeds import derived_seed
from stages.common.training import loop_settings
from stages.tracks.common.starts import Start
from stages.tracks.common.training import OpenBar, Training
from stages.tracks.pgkpr.batches import PairBatches
from stages.tracks.pgkpr.items import FLIPPED_RULES, VALIDATED, Rule, Vocabulary, fixed_masks, training_passes
from stages.tracks.pgkpr.lookup import TrainedOn
from stages.tracks.pgkpr.starts import begin, described
from stages.tracks.pgkpr.task import RewriteTask
from stages.tracks.pgkpr.trained import TrainedRewriter, folder_of

# Names the seeds of what is drawn.
STAGE = "train_pgkpr"


@dataclass(frozen=True)
class PgkprRow:
    """A model to be trained.

    Attributes:
        name: of the model.
        dataset: name of its data set.
        seed: fans out by name into weights, order, dropout and coins.
        values: plain values of the block ``train_pgkpr`` with the model's overrides.
        pairs: table ``paraphrase_items``, all splits.
        vocabulary: of the data set.
        max_length: words of a text that are read and taught.
        tables: files that both tables are of.
        models: that keywords were found by, and their descriptions.
        init_from: trained model that it starts from, or a start from elsewhere.
    """

    name: str
    dataset: str
    seed: int
    values: Mapping[str, Any]
    pairs: pd.DataFrame
    vocabulary: Vocabulary
    max_length: int
    tables: Sequence[Path]
    models: dict[str, Any]
    init_from: Start | None = None


def without_keywords(by: Rule) -> None:
    """Return None: such a model reads no keywords, whatever ``by`` says."""


@dataclass(frozen=True)
class RewriterArchitecture:
    """A kind of rewriter; see :class:`stages.tracks.hcl.architecture.Architecture`.

    Attributes:
        name: as the params have it.
        title: as tables and cards have it.
        rate: learning rate where the params say null.
        model: class of the model.
        rule: given ``keywords.by`` of the params, returns by what keywords are taken; None for a model that reads none.
        bag: its batches hold the words that are to be predicted, as many as ``latent_bow.memory`` says.
    """

    name: str
    title: str
    rate: float
    model: type[Rewriter]
    rule: Callable[[Rule], Rule | None] = without_keywords
    bag: bool = False

    def prepared(self, row: PgkprRow) -> Training[TrainedRewriter]:
        """Return the training of ``row``.

        Raises:
            InputError: what it starts from is not to be had.
        """
        values, keywords = self.with_own_rate(row.values), row.values["keywords"]
        rule = self.rule(keywords["by"])
        on = TrainedOn(row.dataset, rule, rule in FLIPPED_RULES and keywords["mark_all"], row.max_length)
        return Training(self.name, values["training"], row.tables,
                        partial(self.run, row.pairs, row.vocabulary, values, row.max_length, row.seed,
                                start=row.init_from),
                        partial(folder_of, row.name, self.title, on, values,
                                None if row.init_from is None else row.init_from.name),
                        {**row.models, **described(row.init_from)},
                        {"rate": self.rate, "rule": rule, "bag": self.bag})

    def with_own_rate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``values`` of the block ``train_pgkpr`` with this architecture's rate for null."""
        training = values["training"]
        return {**values, "training": {**training, "learning_rate": training["learning_rate"] or self.rate}}

    def run(self, pairs: pd.DataFrame, vocabulary: Vocabulary, values: Mapping[str, Any], max_length: int, seed: int,
            store: CheckpointStore, device: str = "cpu", open_bar: OpenBar | None = None,
            start: Start | None = None) -> TrainedRewriter:
        """Train a model on the training pairs and keep the epoch of smallest validation loss.

        Validation reads keywords as the model will be used where that is one way: by attribution from the source
        alone. By PSI it is several (+X and +S share a model), so it reads those of training, primary_xy.

        Args:
            pairs: table ``paraphrase_items``, all splits.
            vocabulary: of the data set.
            values: plain values of the block ``train_pgkpr`` with the model's overrides, and its learning rate.
            max_length: words of a text that are read and taught.
            seed: fans out by name into weights, order, dropout and coins.
            store: keeps the training's state.
            device: ``cpu`` or ``cuda``.
            open_bar: given steps in all and done, returns a progress bar.
            start: whose weights this model takes over where both have them.

        Raises:
            InputError: no training or no validation pair, rows that do not belong together, or a ``start`` that has
                nothing for this model.
        """
        training = values["training"]
        train, validation = self.batches(pairs, vocabulary, values, max_length, seed)
        torch.manual_seed(derived_seed(seed, STAGE, "weights"))
        model = self.model(RewriterConfig.from_params(values, vocabulary.size, max_length))
        if start is not None:
            begin(model, vocabulary, start)
        nn.Module.to(model, device)
        task = RewriteTask(model, train, validation, training["learning_rate"], training["micro_batch"],
                           training["batch_size"])
        settings = replace(loop_settings(training), betas=(0.9, 0.98), eps=1e-9)
        history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
        return TrainedRewriter(model, vocabulary, pairs, history)

    def batches(self, pairs: pd.DataFrame, vocabulary: Vocabulary, values: Mapping[str, Any], max_length: int,
                seed: int) -> tuple[PairBatches, PairBatches]:
        """Return the batches that a model is trained and validated on; arguments and errors as of :meth:`run`."""
        keywords = values["keywords"]
        rule = self.rule(keywords["by"])
        mark_all = rule in FLIPPED_RULES and keywords["mark_all"]
        bag = values["latent_bow"]["memory"] if self.bag else None
        train, validation = (_split(pairs, split) for split in ("train", "validation"))
        passes, fixed = training_passes(train, rule, keywords, seed), training_passes(validation, None, {}, seed)
        if rule is not None:
            fixed = [fixed_masks(validation, VALIDATED[rule], seed, mark_all, max_length)]
        return (PairBatches(train, vocabulary, max_length, passes, mark_all, bag),
                PairBatches(validation, vocabulary, max_length, fixed, bag=bag))


def _split(pairs: pd.DataFrame, split: str) -> pd.DataFrame:
    chosen = pairs[pairs["split"] == split]
    if chosen.empty:
        raise InputError(f"paraphrase_items.parquet: the {split} split is empty. Give more data, or a larger share "
                         f"(ingest.validation).")
    return chosen
