"""Train PGKPR, one of its ablations, or a baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.functional import pad

from keycontrast.errors import InputError
from models.common import BOS, EOS, UNK
from models.common.task import PartSums, Step, Task, moved
from models.common.training import CheckpointStore, Criterion, History, fit
from models.pgkpr.pgkpr import Rewriter, RewriterConfig
from models.pgkpr.rewriters import init_from, load_rewriter, rewriter_of
from stages.common.paths import DatasetPaths
from stages.common.seeds import derived_seed, flipped
from stages.common.tables import read_frame, read_metadata
from stages.common.training import loop_settings, processes
from stages.run.process import run_stage
from stages.tracks.common import training as frame
from stages.tracks.common.frame import split_of
from stages.tracks.common.schemas import ITEMS
from stages.tracks.pgkpr import items as pgkpr
from stages.tracks.pgkpr.export import TrainedOn, load_lookup, notes_of
from stages.tracks.pgkpr.items import FLIPPED_RULES, Vocabulary, fixed_masks

STAGE = "train_pgkpr"
TABLES = (pgkpr.PARAPHRASE_ITEMS, pgkpr.VOCABULARY)
TITLES = {"pgkpr": "PGKPR (Findings of ACL 2022)", "transformer": "Transformer baseline",
          "residual_lstm": "Residual-LSTM (Prakash et al. 2016)", "latent_bow": "Latent bag of words (Fu et al. 2019)",
          "ianet": "IANet (Su et al. 2021)"}
# Learning rate where the params say null.
RATES = {"pgkpr": 1e-4, "transformer": 1e-4, "residual_lstm": 1e-3, "latent_bow": 8e-4, "ianet": 1e-4}
_KEYWORDS = {"attribution": "by attribution of a pair classifier", "psi": "primary words by paired semantic importance",
             "textrank": "words of the best phrases of TextRank",
             "random": "words at random, as many as by attribution",
             "none": "no word of a source", "all": "every word of a source", None: "none"}
# Penn tags of function words and of what is no word. A bag of words to predict holds the others.
_FUNCTION_TAGS = frozenset(("CC", "DT", "EX", "IN", "LS", "MD", "PDT", "POS", "PRP", "PRP$", "RP", "SYM", "TO", "UH",
                            "WDT", "WP", "WP$", "WRB"))
_FUNCTION_WORDS = frozenset(("am", "are", "be", "been", "being", "did", "do", "does", "doing", "had", "has", "have",
                             "having", "is", "was", "were", "'m", "'re", "'s", "'ve", "n't", "not"))


class Rows:
    """Padded rows of numbers, cut at a limit; ``lengths`` are as cut (n,)."""

    def __init__(self, rows: Sequence[Sequence[float] | np.ndarray], limit: int,
                 kind: torch.dtype = torch.int64) -> None:
        cut = [np.asarray(row[:limit]) for row in rows]
        self.kind, self.lengths = kind, torch.tensor([len(row) for row in cut])
        width = int(self.lengths.max())
        # Narrow while they wait; a batch is as wide as its longest row and of the kind that models take.
        held = torch.float32 if kind.is_floating_point else torch.int32
        self.values = torch.zeros(len(cut), width, dtype=held)
        self.values[torch.arange(width) < self.lengths[:, None]] = torch.from_numpy(np.concatenate(cut)).to(held)

    def batch(self, chosen: Tensor) -> Tensor:
        """Return the rows ``chosen`` (B,) padded with 0 to the longest of them, at least 1: (B, L)."""
        width = max(1, int(self.lengths[chosen].max()))
        values = self.values[chosen, :width].to(self.kind)
        return pad(values, (0, width - values.shape[1]))


class PairBatches:
    """Batches of the pairs of one split, perhaps several times over with other keyword probabilities.

    With N pairs and P ``passes`` there are N * P items: item n is pair ``n % N`` in pass ``n // N``. ``words`` are the
    lengths of every item's source (``x``) and target (``t``), as cut (N * P,). ``repeats`` adds ``repeat``, and ``bag``
    adds ``bow_ids`` with at most so many words.
    """

    def __init__(self, items: pd.DataFrame, vocabulary: Vocabulary, max_length: int,
                 passes: Sequence[Sequence[np.ndarray]], repeats: bool = False, bag: int | None = None) -> None:
        self.pairs = len(items)
        self._rows = {f"{side}_{kind}": Rows(items[f"{name}_{column}"].map(ids).tolist(), max_length)
                      for side, name in (("x", "source"), ("t", "target"))
                      for kind, column, ids in (("ids", "words", vocabulary.words_ids),
                                                ("tags", "tags", vocabulary.tag_ids))}
        self._p = Rows(list(chain.from_iterable(passes)), max_length, torch.float32)
        self.words = {side: np.tile(self._rows[f"{side}_ids"].lengths.numpy(), len(passes)) for side in ("x", "t")}
        self._group = torch.from_numpy(items["group"].to_numpy(dtype=np.int64, copy=True))
        if repeats:
            self._rows["repeat"] = Rows(items["source_words"].map(pgkpr.first_places).tolist(), max_length)
        if bag is not None:
            self._rows["bow_ids"] = Rows(bags(items, vocabulary, max_length, bag), bag)

    def __len__(self) -> int:
        return len(self.words["x"])

    def groups(self, items: Sequence[int]) -> Tensor:
        """Return ``group`` of ``items`` (B,): equal for texts that mean the same."""
        return self._group[torch.tensor(list(items)) % self.pairs]

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the tensors of ``items``: int64, padded at the right with 0; ``p`` is float32.

        ``x_ids``, ``x_tags``, ``p`` (B, L), ``x_lengths`` (B,), ``t_ids``, ``t_tags`` (B, Lt), ``t_lengths`` (B,),
        ``y_in``, ``y_out`` (B, Lt + 1), ``group`` (B,), and perhaps ``repeat`` (B, L) and ``bow_ids`` (B, K).
        """
        numbers = torch.tensor(list(items))
        chosen = numbers % self.pairs
        batch = {name: rows.batch(chosen) for name, rows in self._rows.items()}
        batch["p"] = self._p.batch(numbers)
        for side in ("x", "t"):
            batch[f"{side}_lengths"] = self._rows[f"{side}_ids"].lengths[chosen]
        targets, ends = batch["t_ids"], batch["t_lengths"][:, None]  # (B, Lt), (B, 1)
        batch["y_in"] = pad(targets, (1, 0), value=BOS)
        batch["y_out"] = pad(targets, (0, 1)).scatter_(1, ends, EOS)
        return batch | {"group": self._group[chosen]}


def bags(items: pd.DataFrame, vocabulary: Vocabulary, max_length: int, most: int) -> list[list[int]]:
    """Return the ids that Latent-BOW predicts for each row: content words of all references of its example.

    They are known words, distinct and in order, the target's first: at most ``most``, of the first ``max_length`` words
    of each target. Words with the Penn tag of a function word, forms of be, have and do, and `not` are left out.
    """
    columns = ["example_id", "target_words", "target_tags"]
    bag: dict[int, dict[int, None]] = {}
    for example, words, tags in items.sort_values(["example_id", "reference"])[columns].itertuples(index=False):
        kept = [word for word, tag in zip(words[:max_length], tags[:max_length], strict=True)
                if tag not in _FUNCTION_TAGS and word not in _FUNCTION_WORDS and any(sign.isalnum() for sign in word)]
        bag.setdefault(example, {}).update(dict.fromkeys(vocabulary.words_ids(kept)))
    return [[number for number in bag[example] if number != UNK][:most] for example in items["example_id"]]


def training_passes(items: pd.DataFrame, rule: str | None, keywords: Mapping[str, Any],
                    seed: int, max_length: int | None = None) -> list[list[np.ndarray]]:
    """Return, for each pass of an epoch over ``items``, the probability of every source word of being a keyword.

    By attribution, the first pass has the scores xy and, under ``train_scores: both``, a second one those of xx. Under
    ``flip: offline`` the coins are flipped here, once per row and score. By PSI there is one pass, primary_xy: IANet
    splits by PSI(s, t) in training. Other rules have as many passes as attribution, so that all are trained for as many
    steps; ``random`` gives every word of a source the mean score of the words that are read, hence the same share.
    """
    if rule is None:
        return [[np.zeros(len(words), dtype=np.float32) for words in items["source_words"]]]
    if rule == "psi":
        return [[np.asarray(row, dtype=np.float32) for row in items[pgkpr.COLUMNS["psi_xy"]]]]
    passes = []
    for which in ("xy", "xx") if keywords["train_scores"] == "both" else ("xy",):
        if rule not in FLIPPED_RULES:
            passes.append([mask.astype(np.float32) for mask in fixed_masks(items, pgkpr.USED[rule], seed)])
            continue
        rows = [np.asarray(row, dtype=np.float32) for row in items[pgkpr.COLUMNS[which]]]
        if rule == "random":
            rows = [np.full_like(row, row[:max_length].mean()) for row in rows]
        if keywords["flip"] == "offline":
            names = zip(items["example_id"], items["reference"], strict=True)
            rows = [flipped(row, seed, "offline", which, *name) for row, name in zip(rows, names, strict=True)]
        passes.append(rows)
    return passes


def training_mask(p: Tensor, lengths: Tensor, repeat: Tensor | None = None) -> Tensor:
    """Flip a coin for every word of a batch, by probabilities ``p`` (B, L): it is a keyword iff U(0, 1) < p.

    The training loop seeds the generator of ``p``'s device for every micro-batch. ``repeat`` (B, L) is the place of the
    first occurrence of each word, for ``mark_all``.
    """
    real = torch.arange(p.shape[1], device=p.device)[None, :] < lengths[:, None]  # (B, L)
    mask = (torch.rand_like(p) < p) & real
    if repeat is None:
        return mask
    same = repeat[:, :, None] == repeat[:, None, :]  # (B, L, L)
    return (same & mask[:, None, :]).any(-1) & real


def training_batches(pairs: pd.DataFrame, vocabulary: Vocabulary, values: Mapping[str, Any], max_length: int,
                     seed: int) -> tuple[PairBatches, PairBatches]:
    """Return the batches that a model is trained and validated on.

    Validation reads keywords as in prediction: by attribution from the source alone. By PSI it reads those of training,
    since +X and +S share a model.
    """
    keywords = values["keywords"]
    rule = pgkpr.keyword_rule(values["architecture"], keywords["by"])
    mark_all = rule in FLIPPED_RULES and keywords["mark_all"]
    bag = values["latent_bow"]["memory"] if values["architecture"] == "latent_bow" else None
    train, validation = (split_of(pairs, split, "paraphrase_items") for split in ("train", "validation"))
    passes = training_passes(train, rule, keywords, seed, max_length)
    fixed = training_passes(validation, None, {}, seed)
    if rule is not None:
        fixed = [fixed_masks(validation, pgkpr.VALIDATED[rule], seed, mark_all, max_length)]
    return (PairBatches(train, vocabulary, max_length, passes, mark_all, bag),
            PairBatches(validation, vocabulary, max_length, fixed, bag=bag))


class RewriteTask(Task):
    """Trains a rewriter on pairs; see ``models.common.task.Task``.

    Generation is a mean over target tokens of the step's whole batch, reconstruction one over tokens or items, contrast
    and bag over items. The negatives of the contrast are those of the whole batch, over all micro-batches and
    processes; validation pairs are contrasted in batches of the same size (``batch_size``; None for ``micro_batch``).
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
        """Return the tensors of ``items``."""
        return self.train.batch(items)

    def load_validation(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the same of validation pairs."""
        return self.validation.batch(items)

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the share of a micro-batch in the loss of the step's batch, and its parts."""
        return self._loss(self._sums(batch), self.train, step.batch)

    @property
    def contrasts(self) -> bool:
        """Whether the loss has a contrast."""
        return self.module.contrasts

    def without_contrast(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Return the share in the loss without the contrast, its parts, and the contrasted vectors (M, W)."""
        sums, vectors = self._without_contrast(batch)
        return *self._loss(sums, self.train, step.batch), vectors

    def contrast(self, vectors: Tensor, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted contrast of a batch from its ``vectors`` (B, W)."""
        value = self.module.contrast(vectors, self.train.groups(step.batch).to(vectors.device)) / len(step.batch)
        return part_weights(self.module.config)["contrast"] * value, {"contrast": value}

    def validate(self) -> dict[str, float]:
        """Return the loss over all validation pairs, in the weights of training, and its parts."""
        in_one_pass = not self.contrasts or self.contrasted == self.batch_size
        sums = self.validation_sums(self._sums) if in_one_pass else self._contrasted_sums()
        loss, parts = self._loss({name: torch.tensor(value, dtype=torch.float64) for name, value in sums.items()},
                                 self.validation, range(len(self.validation)))
        return {name: float(value) for name, value in {"loss": loss, **parts}.items()}

    def _mask(self, batch: Mapping[str, Tensor]) -> tuple[Tensor | None, dict[str, Tensor]]:
        """Return which source words are keywords (B, L), and their number; nothing without keywords."""
        if not self.module.uses_keywords:
            return None, {}
        mask = training_mask(batch["p"], batch["x_lengths"], batch.get("repeat"))
        return mask, {"keywords": mask.sum()}

    def _sums(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        mask, keywords = self._mask(batch)
        return {**self.module.sums(batch, mask), **keywords}

    def _without_contrast(self, batch: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        mask, keywords = self._mask(batch)
        sums, vectors = self.module.without_contrast(batch, mask)
        return {**sums, **keywords}, vectors

    def _contrasted_sums(self) -> dict[str, float]:
        """Return :meth:`_sums` over validation pairs that are contrasted across forward passes."""
        total, count = PartSums(), len(self.validation)
        for first in range(0, count, self.contrasted):
            items, vectors = range(first, min(first + self.contrasted, count)), []
            for start in range(0, len(items), self.batch_size):
                batch = self.load_validation(items[start:start + self.batch_size])
                sums, contrasted = self._without_contrast(moved(batch, self.module.device))
                total.add(sums)
                vectors.append(contrasted)
            groups = self.validation.groups(items).to(self.module.device)
            total.add({"contrast": self.module.contrast(torch.cat(vectors), groups)})
        return total.read()

    def _loss(self, sums: Mapping[str, Tensor], batches: PairBatches,
              items: Sequence[int]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted sum of the parts, and the parts, each divided by its count over all ``items``."""
        counts, weights = part_counts(batches, items, self.module.config), part_weights(self.module.config)
        parts = {name: value / counts[name] for name, value in sums.items()}
        share = {"keyword_share": parts.pop("keywords")} if "keywords" in parts else {}
        loss = torch.stack([weights[name] * value for name, value in parts.items()]).sum()  # eq. 5
        return loss, {**parts, **share}


def part_counts(batches: PairBatches, items: Sequence[int], config: RewriterConfig) -> dict[str, int]:
    """Return the divisors of the sums of ``items``: tokens or items of each part, words of sources."""
    count, chosen = len(items), list(items)
    words, targets = (int(batches.words[side][chosen].sum()) for side in ("x", "t"))
    by_token = config.reconstruction.reduction == "token_mean"
    return {"generation": targets + count, "reconstruction": 2 * words + 3 * count if by_token else count,
            "contrast": count, "bow": count, "keywords": words}


def part_weights(config: RewriterConfig) -> dict[str, float]:
    """Return the weight of each part of the loss."""
    return {"generation": 1.0, "reconstruction": config.reconstruction.weight,
            "contrast": config.contrast.weight, "bow": 1.0}


def fit_rewriter(pairs: pd.DataFrame, vocabulary: Vocabulary, values: Mapping[str, Any], max_length: int, seed: int,
                 store: CheckpointStore, device: str = "cpu", open_bar: frame.OpenBar | None = None,
                 start: frame.Start | None = None) -> tuple[Rewriter, History]:
    """Train a model on the training pairs and keep the epoch of smallest generation loss in validation.

    It is the only part of the loss that all rows of a table have.
    """
    training = values["training"]
    batches = training_batches(pairs, vocabulary, values, max_length, seed)
    torch.manual_seed(derived_seed(seed, STAGE, "weights"))
    model = rewriter_of(RewriterConfig.from_params(values, vocabulary.size))
    if start is not None:
        _begin(model, vocabulary, start)
    nn.Module.to(model, device)
    task = RewriteTask(model, *batches, training["learning_rate"], training["micro_batch"], training["batch_size"])
    settings = replace(loop_settings(training), betas=(0.9, 0.98), eps=1e-9, select=(Criterion("generation"),))
    return model, fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)


def _begin(model: Rewriter, vocabulary: Vocabulary, start: frame.Start) -> None:
    """Load the weights of ``start`` into ``model``; tokens are matched by spelling."""
    known, _ = load_lookup(start.folder)
    try:
        other = load_rewriter(start.folder)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{start.folder}: the start is damaged ({error}). {frame.REMEDY}") from error
    numbers = {token: number for number, token in enumerate(known.tokens)}
    places = torch.tensor([numbers.get(token, -1) for token in vocabulary.tokens])
    try:
        init_from(model, other, places)
    except ValueError as error:
        raise InputError(f"models.pgkpr: init is {start.name}, and {error}. Give both the same "
                         f"train_pgkpr.sizes and architecture, or write init: data/start/none.") from error


def plain_items(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return table ``items``: one row per example, with the words that models read, joined by spaces.

    The keyword is the alphanumeric source word of largest score from the source alone; if equal, the first by alphabet.
    """
    first, references = pgkpr.by_example(pairs)
    keywords = []
    for words, scores in zip(first["source_words"], first["score_xx"], strict=True):
        ranked = [(-float(score), word) for word, score in zip(words, scores, strict=True)
                  if any(sign.isalnum() for sign in word)]
        keywords.append(min(ranked)[1] if ranked else None)
    return pd.DataFrame({
        "example_id": first["example_id"], "split": first["split"],
        **{side: first[f"{side}_words"].map(pgkpr.as_text) for side in ("source", "target")},
        "negatives": [[] for _ in range(len(first))], "keyword": pd.Series(keywords, dtype=object),
        "target_keyword": None, "negative_keyword": None, "references": references})


def train_model(job: frame.SeedTraining) -> None:
    """Train a row of PGKPR's table under one seed, and save it."""
    params, row, values = job.params, job.params.models.pgkpr[job.name], job.params.model(job.name).plain()
    max_length = params.paraphrase_items.max_length
    paths = [DatasetPaths(row.dataset).table(schema.name) for schema in TABLES]
    pairs, words = (read_frame(path, schema) for path, schema in zip(paths, TABLES, strict=True))
    vocabulary, architecture, training = Vocabulary.from_frame(words), values["architecture"], values["training"]
    training["learning_rate"] = training["learning_rate"] or RATES[architecture]
    rule = pgkpr.keyword_rule(architecture, values["keywords"]["by"])
    start = frame.start_of(row, params, job.name, job.seed)
    models = dict(read_metadata(paths[0]).get("models", {}))
    if start is not None:
        load_lookup(start.folder)
        models |= start.described()
    if not job.begin(training, paths, models, rate=RATES[architecture], rule=rule):
        return
    model, history = fit_rewriter(pairs, vocabulary, values, max_length, job.seed, job.store, job.device, job.open_bar,
                                  start)
    on = TrainedOn(row.dataset, rule, rule in FLIPPED_RULES and values["keywords"]["mark_all"], max_length)
    kinds, splits = vocabulary.kinds, pairs["split"].value_counts()
    metrics: dict[str, Any] = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": {kind: kinds.count(kind) for kind in pgkpr.KINDS},
        "pairs": {split: int(splits.get(split, 0)) for split in ("train", "validation", "test")}}
    tables = [frame.Table("items", plain_items(pairs), ITEMS),
              frame.Table("paraphrase_items", pairs[pairs["split"] != "train"], pgkpr.PARAPHRASE_ITEMS),
              frame.Table("vocabulary", vocabulary.to_frame(), pgkpr.VOCABULARY)]
    weights = ", ".join(f"{weight:g} {part}" for part, weight in part_weights(model.config).items()
                        if weight and part in history.best)
    counts = ", ".join(f"{kinds.count(kind)} {kind}{'s' if kind != 'special' else ''}" for kind in pgkpr.KINDS)
    card = frame.model_card(
        f"{job.name}: {TITLES[architecture]}", "text-generation",
        f"Rewrites a sentence. Trained by Keycontrast on the data set `{on.dataset}`: {metrics['pairs']['train']} "
        f"pairs, {metrics['pairs']['validation']} for selection.",
        [*([] if start is None else [f"Weights at the start: those of {start.name}, where both have them"]),
         f"Best epoch {history.best_epoch} of {training['epochs']}: {frame.best_values(history)}",
         f"Loss: {weights}",
         f"Keywords: {_KEYWORDS[on.keywords]}",
         f"{metrics['parameters']} parameters; vocabulary: {counts}; {on.max_length} words of a text are read",
         f"Adam, rate {training['learning_rate']:g}, {training['batch_size']} pairs a step",
         "`config.json` holds the settings, `vocabulary.json` the token of each id, `trained_on.json` where the model "
         "came from"],
        '`keycontrast predict RUN "a sentence"`, or `models.pgkpr.rewriters.load_rewriter(FOLDER).rewrite(...)`')
    job.save(architecture, model, history, frame.ModelFolder(card, notes_of(vocabulary, on), tables, metrics))


main = partial(run_stage, STAGE, lambda process: frame.train(process, train_model),
               instance="MODEL", processes=processes)
