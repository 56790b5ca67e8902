"""Rewrite the evaluated split with a trained model of the PGKPR track.

Reads the folder and the evaluated pairs of the run's model; writes predictions.parquet. Sources, outputs and references
are words in lower case, joined by spaces, so that nothing but their words sets them apart.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from keycontrast.errors import InputError
from models.common import EOS, PAD
from models.common.decoding import Rules
from models.pgkpr.rewriters import load_rewriter
from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.run.process import StageProcess, run_stage
from stages.tracks.common.frame import Progress, Rewritten, generate, split_of
from stages.tracks.pgkpr.batches import Rows
from stages.tracks.pgkpr.export import load_lookup
from stages.tracks.pgkpr.items import PARAPHRASE_ITEMS, USED, Which, as_text, by_example, fixed_masks, marked_words

STAGE = "generate_pgkpr"
# Texts that are decoded together.
ROWS = 64


class Paraphraser:
    """A trained rewriter with all that it needs to rewrite texts, from the folder that ``train_pgkpr`` has written."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.vocabulary, self.on = load_lookup(folder)
        self.model = load_rewriter(folder).eval()
        nn.Module.to(self.model, device)

    @property
    def uses_keywords(self) -> bool:
        """Whether the keywords of a text have any influence."""
        return self.model.uses_keywords

    def which_keywords(self, setting: Which | None) -> Which | None:
        """Return where keywords come from under ``generate_pgkpr.keywords``; None for a model that reads none.

        Left open, it is what the model was trained for: ``xx`` by attribution, ``psi_xx`` by PSI, others themselves.

        Raises:
            InputError: the setting names keywords, and the model reads none.
        """
        if not self.uses_keywords:
            if setting is not None:
                raise InputError(f"generate_pgkpr.keywords is {setting!r}, but this model reads no keywords "
                                 f"({self.model.config.architecture}); leave it out.")
            return None
        return setting if setting is not None else USED[self.on.keywords or "attribution"]

    def rewrite(self, items: pd.DataFrame, decode: Mapping[str, Any],
                track: Callable[[list[Any]], Iterable[Any]] = iter, count: int = 1) -> Iterator[pd.DataFrame]:
        """Yield rows of table ``predictions`` for ``items``, a chunk at a time.

        With ``count`` above 1 an item has a row for each of its best outputs, as samples 0, 1, ..., or fewer where the
        search finds fewer.

        Args:
            items: columns ``example_id``, ``source_words``, ``source_tags``, ``mask`` (which words are keywords; it
                may be cut to the words that the model reads) and ``references`` (texts), in the order of ids.
            decode: plain values of the block ``generate_pgkpr``. Its ``keywords`` are not looked at: ``mask`` says
                which they are.
            track: wraps the list of chunks, to show progress.
            count: outputs per item, at most ``num_beams``.
        """
        rules = Rules(EOS, PAD, 1, decode["max_length"],
                      self.vocabulary.banned(decode["unknown"] == "keep"))
        chunks = [items.iloc[start:start + ROWS] for start in range(0, len(items), ROWS)]
        for chunk in track(chunks):
            yield self._rewrite_chunk(chunk, rules, decode, count)

    def _rewrite_chunk(self, chunk: pd.DataFrame, rules: Rules, decode: Mapping[str, Any], count: int) -> pd.DataFrame:
        words = Rows([self.vocabulary.words_ids(row) for row in chunk["source_words"]], self.on.max_length, torch.int64)
        tags = Rows([self.vocabulary.tag_ids(row) for row in chunk["source_tags"]], self.on.max_length, torch.int64)
        marked = Rows(chunk["mask"].tolist(), self.on.max_length, torch.int64)
        rows, device = torch.arange(len(chunk)), self.model.device
        batch = {"x_ids": words.batch(rows).to(device), "x_tags": tags.batch(rows).to(device),
                 "x_lengths": words.lengths.to(device)}
        mask = marked.batch(rows).to(device).bool() if self.uses_keywords else None
        beams = decode["num_beams"]
        tokens = self.model.rewrite(batch, mask, rules, beams, None if count == 1 else count)
        tokens = tokens.unsqueeze(1) if count == 1 else tokens  # (B, count, L)
        texts = [[self.vocabulary.text(one) for one in row if EOS in one] for row in tokens.tolist()]
        found = pd.DataFrame({
            "example_id": chunk["example_id"].tolist(), "sample": 0,
            "source": [as_text(row) for row in chunk["source_words"]],
            "keyword": self._keywords(chunk), "keyword_known": True,
            "prediction": [row[0] for row in texts],
            "references": chunk["references"].tolist()})
        if count == 1:
            return found
        found = found.assign(prediction=texts).explode("prediction", ignore_index=True)
        return found.assign(sample=found.groupby("example_id").cumcount())

    def _keywords(self, chunk: pd.DataFrame) -> list[str | None]:
        """Return the keywords of each source, distinct, in its order, joined by spaces; None where none are read."""
        if not self.uses_keywords:
            return [None] * len(chunk)
        return [as_text(marked_words(words, mask[:self.on.max_length]))
                for words, mask in zip(chunk["source_words"], chunk["mask"], strict=True)]


def evaluated_items(pairs: pd.DataFrame, which: Which | None, seed: int, mark_all: bool,
                    max_length: int) -> pd.DataFrame:
    """Return what :meth:`Paraphraser.rewrite` reads, one row per example, in the order of ids.

    Each reference of an example is a row of ``pairs``; keywords that depend on the reference are those of the first.
    ``which`` says where keywords come from; None for a model that reads none. ``seed`` is that of coins.
    """
    first, references = by_example(pairs)
    masks = (fixed_masks(first, which, seed, mark_all, max_length) if which is not None
             else [np.zeros(len(words), dtype=bool) for words in first["source_words"]])
    return pd.DataFrame({"example_id": first["example_id"], "source_words": first["source_words"],
                         "source_tags": first["source_tags"], "mask": masks, "references": references})


def run(pairs: pd.DataFrame, paraphraser: Paraphraser, decode: Mapping[str, Any], seed: int,
        track: Progress = iter) -> pd.DataFrame:
    """Return table ``predictions`` for the split that ``decode`` names.

    ``decode`` has plain values of the block ``generate_pgkpr`` with the run's own; ``seed`` is that of the coins that
    make keywords of scores; ``track`` wraps the list of chunks, to show progress.

    Raises:
        InputError: the split is empty, or keywords are named that the model does not read.
    """
    which, on = paraphraser.which_keywords(decode["keywords"]), paraphraser.on
    chosen = split_of(pairs, decode["split"], "paraphrase_items")
    items = evaluated_items(chosen, which, seed, on.mark_all, on.max_length)
    return pd.concat(list(paraphraser.rewrite(items, decode, track)), ignore_index=True)


def _rewritten(params: Params, name: str, paths: ModelPaths, device: str, track: Progress) -> Rewritten:
    pairs = read_frame(paths.paraphrase_items, PARAPHRASE_ITEMS)
    return Rewritten(run(pairs, Paraphraser(paths.weights, device), params.decoding(name).plain(),
                         params.seed, track))


def _work(process: StageProcess) -> None:
    generate(process, _rewritten)


main = partial(run_stage, STAGE, _work, instance="RUN")


if __name__ == "__main__":
    sys.exit(main())
