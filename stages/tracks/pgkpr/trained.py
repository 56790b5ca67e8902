"""What a trained rewriter leaves behind: weights, vocabulary, history, items, evaluated pairs, metrics and a card."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from models.common.training import History
from models.pgkpr.pgkpr import Rewriter
from stages.tracks.common.schemas.items import ITEMS
from stages.tracks.common.trained import ModelFolder, Table, best_values, model_card
from stages.tracks.pgkpr.items import KINDS, PARAPHRASE_ITEMS, VOCABULARY, Vocabulary, as_text
from stages.tracks.pgkpr.lookup import TrainedOn, notes_of
from stages.tracks.pgkpr.task import part_weights

_KEYWORDS = {"attribution": "by attribution of a pair classifier", "psi": "primary words by paired semantic importance",
             "textrank": "words of the best phrases of TextRank",
             "random": "words at random, as many as by attribution",
             "none": "no word of a source", "all": "every word of a source", None: "none"}


@dataclass(frozen=True)
class TrainedRewriter:
    """What a training makes.

    Attributes:
        model: with the weights of the best epoch.
        vocabulary: that it reads and writes.
        pairs: rows of table ``paraphrase_items``, all splits.
        history: of the training.
    """

    model: Rewriter
    vocabulary: Vocabulary
    pairs: pd.DataFrame
    history: History


def training_metrics(trained: TrainedRewriter) -> dict[str, Any]:
    """Return what ``metrics.json`` says of a model: sizes, and how many tokens and pairs there are."""
    kinds, splits = trained.vocabulary.kinds, trained.pairs["split"].value_counts()
    return {"parameters": sum(p.numel() for p in trained.model.parameters()),
            "vocabulary": {kind: kinds.count(kind) for kind in KINDS},
            "pairs": {split: int(splits.get(split, 0)) for split in ("train", "validation", "test")}}


def plain_items(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return table ``items``: one row per example, as plain texts: the words that models read, joined by spaces.

    The keyword is the source word of largest score from the source alone, of equals the one first in the alphabet;
    signs are no keywords. Targets have no scores and there are no negatives, so both are without.

    Args:
        pairs: rows of table ``paraphrase_items``.
    """
    ordered = pairs.sort_values(["example_id", "reference"])
    first = ordered.drop_duplicates("example_id").reset_index(drop=True)
    references = ordered["target_words"].map(as_text).groupby(ordered["example_id"]).agg(list)
    keywords = [strongest_word(words, scores)
                for words, scores in zip(first["source_words"], first["score_xx"], strict=True)]
    return pd.DataFrame({
        "example_id": first["example_id"], "split": first["split"],
        **{side: first[f"{side}_words"].map(as_text) for side in ("source", "target")},
        "negatives": [[] for _ in range(len(first))], "keyword": pd.Series(keywords, dtype=object),
        "target_keyword": None, "negative_keyword": None, "references": references.tolist()})


def strongest_word(words: Sequence[str], scores: Sequence[float]) -> str | None:
    """Return the word of largest score that holds a letter or digit; of equals the first in the alphabet."""
    named = [(-float(score), word) for word, score in zip(words, scores, strict=True)
             if any(sign.isalnum() for sign in word)]
    return min(named)[1] if named else None


def folder_of(name: str, title: str, on: TrainedOn, values: Mapping[str, Any], start: str | None,
              trained: TrainedRewriter) -> ModelFolder:
    """Return what a trained rewriter leaves behind.

    Args:
        name: of the model.
        title: of its architecture.
        on: where it came from.
        values: plain values of the block ``train_pgkpr``, its learning rate filled in.
        start: name of what it started from; None for weights drawn anew.
        trained: what :meth:`stages.tracks.pgkpr.architecture.RewriterArchitecture.run` returned.
    """
    metrics, pairs = training_metrics(trained), trained.pairs
    tables = [Table("items", plain_items(pairs), ITEMS),
              Table("paraphrase_items", pairs[pairs["split"] != "train"], PARAPHRASE_ITEMS),
              Table("vocabulary", trained.vocabulary.to_frame(), VOCABULARY)]
    return ModelFolder(_card(name, title, on, values, start, trained, metrics), notes_of(trained.vocabulary, on),
                       tables, metrics)


def _card(name: str, title: str, on: TrainedOn, values: Mapping[str, Any], start: str | None, trained: TrainedRewriter,
          metrics: Mapping[str, Any]) -> str:
    training, history = values["training"], trained.history
    weights = ", ".join(f"{weight:g} {part}" for part, weight in part_weights(trained.model.config).items()
                        if weight and part in history.best)
    kinds = ", ".join(f"{count} {kind}{'s' if kind != 'special' else ''}" for kind, count in
                      metrics["vocabulary"].items())
    return model_card(
        f"{name}: {title}", "text-generation",
        f"Rewrites a sentence. Trained by Keycontrast on the data set `{on.dataset}`: {metrics['pairs']['train']} "
        f"pairs, {metrics['pairs']['validation']} for selection.",
        [*([] if start is None else [f"Weights at the start: those of {start}, where both have them"]),
         f"Best epoch {history.best_epoch} of {training['epochs']}: {best_values(history)}",
         f"Loss: {weights}",
         f"Keywords: {_KEYWORDS[on.keywords]}",
         f"{metrics['parameters']} parameters; vocabulary: {kinds}; {on.max_length} words of a text are read",
         f"Adam, rate {training['learning_rate']:g}, {training['batch_size']} pairs a step",
         "`config.json` holds the settings, `vocabulary.json` the token of each id, `trained_on.json` where the model "
         "came from"],
        '`keycontrast predict RUN "a sentence"`, or `models.pgkpr.rewriters.load_rewriter(FOLDER).rewrite(...)`')
