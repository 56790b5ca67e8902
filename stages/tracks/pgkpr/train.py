"""Train PGKPR, one of its ablations, or a model that it is compared with.

Reads the pairs of the model's data set as words with tags and keyword scores, and its vocabulary; writes the model in
Hugging Face layout, its training history and metrics, and the items that it was trained and will be evaluated on.
With runtime.processes above 1, or under torchrun, several processes share the micro-batches.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from models.common.task import CheckpointStore, Criterion, History, PartSums, Step, Task, moved
from models.common.training import fit
from models.pgkpr.pgkpr import Rewriter, RewriterConfig
from models.pgkpr.rewriters import init_from, load_rewriter, rewriter_of
from stages.common.paths import DatasetPaths
from stages.common.seeds import derived_seed
from stages.common.tables import read_frame, read_metadata
from stages.common.training import loop_settings, processes
from stages.run.process import StageProcess, run_stage
from stages.run.processes import keep_freed_memory
from stages.tracks.common.schemas import ITEMS
from stages.tracks.common.training import (
    GivenStart,
    ModelFolder,
    OpenBar,
    SeedTraining,
    Start,
    Table,
    best_values,
    model_card,
    start_of,
    train,
)
from stages.tracks.pgkpr.batches import PairBatches, training_mask, training_passes
from stages.tracks.pgkpr.export import TrainedOn, load_lookup, notes_of
from stages.tracks.pgkpr.items import (
    FLIPPED_RULES,
    KINDS,
    PARAPHRASE_ITEMS,
    VALIDATED,
    VOCABULARY,
    Rule,
    Vocabulary,
    as_text,
    by_example,
    fixed_masks,
)

# Names the seeds of what is drawn.
STAGE = "train_pgkpr"
TABLES = (PARAPHRASE_ITEMS, VOCABULARY)
TITLES = {"pgkpr": "PGKPR (Findings of ACL 2022)", "transformer": "Transformer baseline",
          "residual_lstm": "Residual-LSTM (Prakash et al. 2016)", "latent_bow": "Latent bag of words (Fu et al. 2019)",
          "ianet": "IANet (Su et al. 2021)"}
# Learning rate where the params say null.
RATES = {"pgkpr": 1e-4, "transformer": 1e-4, "residual_lstm": 1e-3, "latent_bow": 8e-4, "ianet": 1e-4}
_KEYWORDS = {"attribution": "by attribution of a pair classifier", "psi": "primary words by paired semantic importance",
             "textrank": "words of the best phrases of TextRank",
             "random": "words at random, as many as by attribution",
             "none": "no word of a source", "all": "every word of a source", None: "none"}
_REMEDY = "Bring the folder back, or change init."


class RewriteTask(Task):
    """Trains a rewriter on pairs; see ``models.common.task.Task``.

    Generation is a mean over target tokens of the step's whole batch, reconstruction one over tokens or items, contrast
    and bag over items; so their shares add up over micro-batches. The negatives of the contrast are those of the whole
    batch, however many micro-batches and processes it is cut for; validation pairs are contrasted in batches of the
    same size.

    Args:
        model: on its device.
        train: training pairs, with keyword probabilities.
        validation: validation pairs, whose keywords are fixed: probabilities of 0 and 1.
        learning_rate: of every parameter.
        micro_batch: pairs per forward pass in validation.
        batch_size: pairs that validation contrasts with each other; None for ``micro_batch``.
    """

    module: Rewriter
    train: PairBatches
    validation: PairBatches

    def __init__(self, model: Rewriter, train: PairBatches, validation: PairBatches, learning_rate: float,
                 micro_batch: int, batch_size: int | None = None) -> None:
        self.module, self.train, self.validation = model, train, validation
        self.learning_rate, self.batch_size = learning_rate, micro_batch
        self.contrasted = batch_size or micro_batch

    def lengths(self) -> list[int]:
        """Return the words of each training pair's texts, both together."""
        return (self.train.words["x"] + self.train.words["t"]).tolist()

    def load(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the tensors of ``items``, and what the model knows of them before it computes."""
        return dict(self.module.planned(self.train.batch(items)))

    def load_validation(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the same of validation pairs."""
        return dict(self.module.planned(self.validation.batch(items)))

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the loss of the step's batch, and its parts."""
        return self._loss(self._sums(batch), self.train, step.batch)

    @property
    def contrasts(self) -> bool:
        """Whether the loss has a contrast."""
        return self.module.contrasts

    def without_contrast(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Return the share in the loss without the contrast, its parts, and what is contrasted of each pair (M, W)."""
        sums, vectors = self._apart(batch)
        return *self._loss(sums, self.train, step.batch), vectors

    def contrast(self, vectors: Tensor, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted contrast of the pairs of a batch, of which these are the ``vectors`` (B, W)."""
        found = self.module.contrast(vectors, self.train.groups(step.batch).to(vectors.device)) / len(step.batch)
        return part_weights(self.module.config)["contrast"] * found, {"contrast": found}

    def validate(self) -> dict[str, float]:
        """Return the loss over all validation pairs, in the weights of training, and its parts."""
        whole = not self.contrasts or self.contrasted <= self.batch_size
        sums = self.validation_sums(self._sums) if whole else self._contrasted_sums()
        loss, parts = self._loss({name: torch.tensor(value, dtype=torch.float64) for name, value in sums.items()},
                                 self.validation, range(len(self.validation)))
        return {name: float(value) for name, value in {"loss": loss, **parts}.items()}

    def _mask(self, batch: Mapping[str, Tensor]) -> tuple[Tensor | None, dict[str, Tensor]]:
        """Return which source words are keywords (B, L), and their number; nothing for a model that reads none."""
        if not self.module.uses_keywords:
            return None, {}
        mask = training_mask(batch["p"], batch["x_lengths"], batch.get("repeat"))
        return mask, {"keywords": mask.sum()}

    def _sums(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        mask, keywords = self._mask(batch)
        return {**self.module.sums(batch, mask), **keywords}

    def _apart(self, batch: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Return :meth:`_sums` without the contrast, and what is contrasted."""
        mask, keywords = self._mask(batch)
        sums, vectors = self.module.apart(batch, mask)
        return {**sums, **keywords}, vectors

    def _contrasted_sums(self) -> dict[str, float]:
        """Return what :meth:`_sums` adds up to over validation pairs that are contrasted across forward passes."""
        total, count = PartSums(), len(self.validation)
        for first in range(0, count, self.contrasted):
            items, vectors = range(first, min(first + self.contrasted, count)), []
            for start in range(0, len(items), self.batch_size):
                sums, found = self._apart(moved(self.load_validation(items[start:start + self.batch_size]),
                                                self.module.device))
                total.add(sums)
                vectors.append(found)
            groups = self.validation.groups(items).to(self.module.device)
            total.add({"contrast": self.module.contrast(torch.cat(vectors), groups)})
        return total.read()

    def _loss(self, sums: Mapping[str, Tensor], batches: PairBatches,
              items: Sequence[int]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted sum of the parts, and the parts, each divided by what belongs to all ``items``."""
        counts, weights = part_counts(batches, items, self.module.config), part_weights(self.module.config)
        parts = {name: value / counts[name] for name, value in sums.items()}
        share = {"keyword_share": parts.pop("keywords")} if "keywords" in parts else {}
        loss = torch.stack([weights[name] * value for name, value in parts.items()]).sum()  # eq. 5
        return loss, {**parts, **share}


def part_counts(batches: PairBatches, items: Sequence[int], config: RewriterConfig) -> dict[str, int]:
    """Return what the sums of ``items`` are divided by: tokens or items of each part of the loss, words of sources."""
    count, chosen = len(items), list(items)
    words, targets = (int(batches.words[side][chosen].sum()) for side in ("x", "t"))
    by_token = config.reconstruction.reduction == "token_mean"
    return {"generation": targets + count, "reconstruction": 2 * words + 3 * count if by_token else count,
            "contrast": count, "bow": count, "keywords": words}


def part_weights(config: RewriterConfig) -> dict[str, float]:
    """Return the weight of each part of the loss that a model may have."""
    return {"generation": 1.0, "reconstruction": config.reconstruction.weight,
            "contrast": config.contrast.weight, "bow": 1.0}


def keyword_rule(architecture: str, by: Rule) -> Rule | None:
    """Return by what a model takes its keywords under ``keywords.by``; None for one that reads none.

    IANet takes its own, PSI, for attribution: that is what the params say where nobody asked for anything.
    """
    if architecture == "ianet" and by == "attribution":
        return "psi"
    return by if architecture in ("pgkpr", "ianet") else None


def training_batches(pairs: pd.DataFrame, vocabulary: Vocabulary, values: Mapping[str, Any], max_length: int,
                     seed: int) -> tuple[PairBatches, PairBatches]:
    """Return the batches that a model is trained and validated on; arguments and errors as of :func:`fit_rewriter`.

    Validation reads keywords as the model will be used where that is one way: by attribution from the source
    alone. By PSI it is several (+X and +S share a model), so it reads those of training, primary_xy.
    """
    keywords = values["keywords"]
    rule = keyword_rule(values["architecture"], keywords["by"])
    mark_all = rule in FLIPPED_RULES and keywords["mark_all"]
    bag = values["latent_bow"]["memory"] if values["architecture"] == "latent_bow" else None
    splits = []
    for split in ("train", "validation"):
        splits.append(pairs[pairs["split"] == split])
        if splits[-1].empty:
            raise InputError(f"paraphrase_items.parquet: the {split} split is empty. Give more data, or a larger share "
                             f"(ingest.validation).")
    passes, fixed = training_passes(splits[0], rule, keywords, seed), training_passes(splits[1], None, {}, seed)
    if rule is not None:
        fixed = [fixed_masks(splits[1], VALIDATED[rule], seed, mark_all, max_length)]
    return (PairBatches(splits[0], vocabulary, max_length, passes, mark_all, bag),
            PairBatches(splits[1], vocabulary, max_length, fixed, bag=bag))


def fit_rewriter(pairs: pd.DataFrame, vocabulary: Vocabulary, values: Mapping[str, Any], max_length: int, seed: int,
                 store: CheckpointStore, device: str = "cpu", open_bar: OpenBar | None = None,
                 start: Start | None = None) -> tuple[Rewriter, History]:
    """Train a model on the training pairs and keep the epoch of smallest generation loss in validation.

    That is what the rows of a table have in common: their losses have other terms and other weights. ``values`` are
    plain ones of the block ``train_pgkpr`` with the model's overrides, and its learning rate.

    Raises:
        InputError: no training or no validation pair, rows that do not belong together, or a ``start`` that has
            nothing for this model.
    """
    training = values["training"]
    batches = training_batches(pairs, vocabulary, values, max_length, seed)
    torch.manual_seed(derived_seed(seed, STAGE, "weights"))
    model = rewriter_of(RewriterConfig.from_params(values, vocabulary.size, max_length))
    if start is not None:
        _begin(model, vocabulary, start)
    nn.Module.to(model, device)
    task = RewriteTask(model, *batches, training["learning_rate"], training["micro_batch"], training["batch_size"])
    settings = replace(loop_settings(training), betas=(0.9, 0.98), eps=1e-9, select=(Criterion("generation"),))
    return model, fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)


def _begin(model: Rewriter, vocabulary: Vocabulary, start: Start) -> None:
    """Put into ``model`` what the weights of ``start`` have for it; tokens are found by their spelling."""
    known, _ = load_lookup(folder := _folder(start))
    try:
        other = load_rewriter(folder)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{folder}: the start is damaged ({error}). {_REMEDY}") from error
    numbers = {token: number for number, token in enumerate(known.tokens)}
    places = torch.tensor([numbers.get(token, -1) for token in vocabulary.tokens])
    try:
        init_from(model, other, places)
    except ValueError as error:
        raise InputError(f"models.pgkpr: init is {start.name}, and {error}. Give both the same "
                         f"train_pgkpr.sizes and architecture, or write init: data/start/none.") from error


def _described(start: Start | None) -> dict[str, Any]:
    """Return the description of what a model starts from, as its metadata have it; nothing for None."""
    if start is None:
        return {}
    folder = _folder(start)
    load_lookup(folder)
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise InputError(f"models.pgkpr: init is {start.name}, and {weights} is not there. {_REMEDY}")
    return {"init_from": {"name": start.name, "sha256": sha256_of(weights)}}


def _folder(start: Start) -> Path:
    return start.folder if isinstance(start, GivenStart) else start.weights


def plain_items(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return table ``items``: one row per example, as plain texts: the words that models read, joined by spaces.

    The keyword is the source word of largest score from the source alone, of equals the one first in the alphabet;
    signs are no keywords. Targets have no scores and there are no negatives, so both are without.
    """
    first, references = by_example(pairs)
    keywords = [strongest_word(words, scores)
                for words, scores in zip(first["source_words"], first["score_xx"], strict=True)]
    return pd.DataFrame({
        "example_id": first["example_id"], "split": first["split"],
        **{side: first[f"{side}_words"].map(as_text) for side in ("source", "target")},
        "negatives": [[] for _ in range(len(first))], "keyword": pd.Series(keywords, dtype=object),
        "target_keyword": None, "negative_keyword": None, "references": references})


def strongest_word(words: Sequence[str], scores: Sequence[float]) -> str | None:
    """Return the word of largest score that holds a letter or digit; of equals the first in the alphabet."""
    named = [(-float(score), word) for word, score in zip(words, scores, strict=True)
             if any(sign.isalnum() for sign in word)]
    return min(named)[1] if named else None


def train_model(job: SeedTraining) -> None:
    """Train a row of PGKPR's table under one seed, and save it.

    Raises:
        InputError: pairs or the model that it starts from are not to be had.
    """
    params, row, values = job.params, job.params.models.pgkpr[job.name], job.params.model(job.name).plain()
    max_length = params.paraphrase_items.max_length
    paths = [DatasetPaths(row.dataset).table(schema.name) for schema in TABLES]
    pairs, words = (read_frame(path, schema) for path, schema in zip(paths, TABLES, strict=True))
    vocabulary, architecture, training = Vocabulary.from_frame(words), values["architecture"], values["training"]
    training["learning_rate"] = training["learning_rate"] or RATES[architecture]
    rule = keyword_rule(architecture, values["keywords"]["by"])
    start = start_of(row, params, job.name, job.seed)
    models = {**read_metadata(paths[0]).get("models", {}), **_described(start)}
    if not job.begin(training, paths, models, rate=RATES[architecture], rule=rule):
        return
    model, history = fit_rewriter(pairs, vocabulary, values, max_length, job.seed, job.store, job.device, job.open_bar,
                                  start)
    on = TrainedOn(row.dataset, rule, rule in FLIPPED_RULES and values["keywords"]["mark_all"], max_length)
    kinds, splits = vocabulary.kinds, pairs["split"].value_counts()
    metrics: dict[str, Any] = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": {kind: kinds.count(kind) for kind in KINDS},
        "pairs": {split: int(splits.get(split, 0)) for split in ("train", "validation", "test")}}
    tables = [Table("items", plain_items(pairs), ITEMS),
              Table("paraphrase_items", pairs[pairs["split"] != "train"], PARAPHRASE_ITEMS),
              Table("vocabulary", vocabulary.to_frame(), VOCABULARY)]
    weights = ", ".join(f"{weight:g} {part}" for part, weight in part_weights(model.config).items()
                        if weight and part in history.best)
    counts = ", ".join(f"{kinds.count(kind)} {kind}{'s' if kind != 'special' else ''}" for kind in KINDS)
    card = model_card(
        f"{job.name}: {TITLES[architecture]}", "text-generation",
        f"Rewrites a sentence. Trained by Keycontrast on the data set `{on.dataset}`: {metrics['pairs']['train']} "
        f"pairs, {metrics['pairs']['validation']} for selection.",
        [*([] if start is None else [f"Weights at the start: those of {start.name}, where both have them"]),
         f"Best epoch {history.best_epoch} of {training['epochs']}: {best_values(history)}",
         f"Loss: {weights}",
         f"Keywords: {_KEYWORDS[on.keywords]}",
         f"{metrics['parameters']} parameters; vocabulary: {counts}; {on.max_length} words of a text are read",
         f"Adam, rate {training['learning_rate']:g}, {training['batch_size']} pairs a step",
         "`config.json` holds the settings, `vocabulary.json` the token of each id, `trained_on.json` where the model "
         "came from"],
        '`keycontrast predict RUN "a sentence"`, or `models.pgkpr.rewriters.load_rewriter(FOLDER).rewrite(...)`')
    job.save(architecture, model, history, ModelFolder(card, notes_of(vocabulary, on), tables, metrics))


def _work(process: StageProcess) -> None:
    train(process, train_model)


main = partial(run_stage, STAGE, _work, instance="MODEL", processes=processes)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
