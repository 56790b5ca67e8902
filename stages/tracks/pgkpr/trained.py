"""What a trained rewriter leaves behind: weights, vocabulary, history, items, evaluated pairs, metrics and a card."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from torch import nn

from models.rewriters.base import Rewriter
from models.training import History
from stages.artifacts.model_folder import write_history
from stages.artifacts.paths import ModelPaths
from stages.artifacts.tables import Provenance, atomic_folder, write_json, write_table
from stages.runtime.training import selection
from stages.tracks.pgkpr.lookup import TrainedOn, save_lookup
from stages.tracks.pgkpr.normalisation import as_text
from stages.tracks.pgkpr.task import part_weights
from stages.tracks.pgkpr.vocabulary import KINDS, Vocabulary

_ARCHITECTURES = {"pgkpr": "PGKPR (Findings of ACL 2022)", "transformer": "Transformer baseline",
                  "residual_lstm": "Residual-LSTM (Prakash et al. 2016)",
                  "latent_bow": "Latent bag of words (Fu et al. 2019)", "ianet": "IANet (Su et al. 2021)"}
_KEYWORDS = {"attribution": "by attribution of a pair classifier", "psi": "primary words by paired semantic importance",
             None: "none"}


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
    """Return the ``metrics.json`` of a model: selection, sizes, and how many tokens and pairs there are."""
    kinds, splits = trained.vocabulary.kinds, trained.pairs["split"].value_counts()
    return {**selection(trained.history), "parameters": sum(p.numel() for p in trained.model.parameters()),
            "vocabulary": {kind: kinds.count(kind) for kind in KINDS},
            "pairs": {split: int(splits.get(split, 0)) for split in ("train", "validation", "test")}}


def plain_items(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return table ``items``: one row per example, as plain texts: the words that models read, joined by spaces.

    The keyword is the source word of largest score from the source alone, of equals the one first in the alphabet;
    signs are no keywords. Targets have no scores (METHODS C-K6) and there are no negatives, so both are without.

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


def model_card(name: str, trained: TrainedRewriter, on: TrainedOn, values: Mapping[str, Any]) -> str:
    """Return the README of the saved model; ``values`` are those of the block ``train_pgkpr``."""
    metrics, training = training_metrics(trained), values["training"]
    best = ", ".join(f"{key} {value:.4f}" for key, value in trained.history.best.items())
    weights = ", ".join(f"{weight:g} {part}" for part, weight in part_weights(trained.model.config).items()
                        if weight and part in trained.history.best)
    kinds = ", ".join(f"{count} {kind}{'s' if kind != 'special' else ''}" for kind, count in
                      metrics["vocabulary"].items())
    return f"""---
library_name: transformers
pipeline_tag: text-generation
---
# {name}: {_ARCHITECTURES[values["architecture"]]}

Rewrites a sentence. Trained by Keycontrast on the data set `{on.dataset}`: {metrics["pairs"]["train"]} pairs, \
{metrics["pairs"]["validation"]} for selection.

- Best epoch {trained.history.best_epoch} of {training["epochs"]}: {best}
- Loss: {weights}
- Keywords: {_KEYWORDS[on.keywords]}
- {metrics["parameters"]} parameters; vocabulary: {kinds}; {on.max_length} words of a text are read
- Adam, rate {training["learning_rate"]:g}, {training["batch_size"]} pairs a step
- `config.json` holds the settings, `vocabulary.json` the token of each id, `trained_on.json` where the model came from

Use it with `keycontrast predict RUN "a sentence"`, or `models.rewriters.auto.load_rewriter(FOLDER).rewrite(...)`.
"""


def write_trained(name: str, trained: TrainedRewriter, card: str, on: TrainedOn, provenance: Provenance) -> None:
    """Write the folder ``artifacts/models/NAME``.

    Args:
        name: of the model.
        trained: what :func:`stages.tracks.pgkpr.train.run` returned.
        card: from :func:`model_card`.
        on: where the model came from.
        provenance: of the tables.
    """
    paths = ModelPaths(name)
    with atomic_folder(paths.weights) as folder:
        nn.Module.to(trained.model, "cpu")
        trained.model.save_pretrained(folder)
        save_lookup(folder, trained.vocabulary, on)
        (folder / "README.md").write_text(card, encoding="utf-8")
    write_history(paths.history, trained.history.rows)
    write_table(paths.items, "items", plain_items(trained.pairs), provenance)
    evaluated = trained.pairs[trained.pairs["split"] != "train"]
    write_table(paths.paraphrase_items, "paraphrase_items", evaluated, provenance)
    write_table(paths.vocabulary, "vocabulary", trained.vocabulary.to_frame(), provenance)
    write_json(paths.metrics, training_metrics(trained))
