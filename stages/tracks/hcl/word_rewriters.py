"""Rewriters of the PGKPR track that read no keywords, trained on the items of the HCL track."""

from functools import partial
from typing import Any

from stages.runtime.errors import InputError
from stages.tracks.hcl.architecture import TABLES, Architecture, HclRow
from stages.tracks.hcl.trained import items_table
from stages.tracks.hcl.words import vocabulary_of, word_pairs
from stages.tracks.pgkpr.architecture import RewriterArchitecture
from stages.tracks.pgkpr.lookup import TrainedOn, notes_of
from stages.tracks.pgkpr.trained import TrainedRewriter
from stages.tracks.trained import ModelFolder, best_values, model_card
from stages.tracks.training import Training

# What such a model is told of keywords, which it does not read.
_NO_KEYWORDS = {"by": "attribution", "mark_all": False}


def of_words(rewriter: RewriterArchitecture, block: str, code: str) -> Architecture:
    """Return the architecture of the HCL track that trains ``rewriter`` on its items.

    Args:
        rewriter: that reads neither keywords nor tags.
        block: of ``train_hcl``, which holds ``vocabulary`` and, under their own names, the sizes of the model.
        code: dotted name of the module that asks.
    """
    return Architecture(rewriter.name, rewriter.title, partial(_prepared, rewriter, block, code))


def _prepared(rewriter: RewriterArchitecture, block: str, code: str, row: HclRow) -> Training[TrainedRewriter]:
    training, sizes = row.values["training"], row.values[block]
    if row.init_from is not None:
        raise InputError(f"models.hcl.{row.name}.init_from: a model of architecture {rewriter.name} starts from drawn "
                         f"weights; take init_from out.")
    values = {"architecture": rewriter.name, "sizes": sizes, block: sizes, "keywords": _NO_KEYWORDS,
              "training": training}
    pairs, longest = word_pairs(row.items), max(training["max_source"], training["max_target"])
    vocabulary = vocabulary_of(pairs, sizes["vocabulary"])
    return Training([code, rewriter.run.__module__, rewriter.model.__module__], rewriter.name, training,
                    [row.paths.table(schema.name) for schema in TABLES],
                    partial(rewriter.run, pairs, vocabulary, values, longest, row.seed),
                    partial(_folder, row, rewriter.title, TrainedOn(row.paths.name, None, False, longest)))


def _folder(row: HclRow, title: str, on: TrainedOn, trained: TrainedRewriter) -> ModelFolder:
    counts, training = row.items["split"].value_counts(), row.values["training"]
    metrics: dict[str, Any] = {"parameters": sum(p.numel() for p in trained.model.parameters()),
                               "vocabulary": trained.vocabulary.kinds.count("word")}
    card = model_card(
        f"{row.name}: {title}", "text-generation",
        f"Rewrites a sentence. Trained by Keycontrast on the data set `{on.dataset}`: {counts.get('train', 0)} pairs, "
        f"{counts.get('validation', 0)} for selection.",
        [f"Best epoch {trained.history.best_epoch} of {training['epochs']}: {best_values(trained.history)}",
         f"{metrics['parameters']} parameters; vocabulary: {metrics['vocabulary']} words; {on.max_length} words of a "
         f"text are read",
         "`config.json` holds the settings, `vocabulary.json` the token of each id, `trained_on.json` where the model "
         "came from"],
        '`keycontrast predict RUN "a sentence"`, or `models.rewriters.auto.load_rewriter(FOLDER).rewrite(...)`')
    return ModelFolder(card, notes_of(trained.vocabulary, on), [items_table(row.items)], metrics)
