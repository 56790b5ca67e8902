"""Rewrite the evaluated split with a trained model of the PGKPR track.

Sources, outputs and references are words in lower case, joined by spaces, so that they differ in their words alone.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from keycontrast.errors import InputError
from models.common import EOS, PAD
from models.common.decoding import Rules
from models.pgkpr.rewriters import load_rewriter
from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.run.process import StageProcess, run_stage
from stages.tracks.common.frame import Progress, generate, split_of
from stages.tracks.common.schemas import PREDICTIONS, Table
from stages.tracks.pgkpr.export import load_lookup
from stages.tracks.pgkpr.items import PARAPHRASE_ITEMS, USED, Which, as_text, by_example, fixed_masks, marked_words

STAGE = "generate_pgkpr"
# Texts that are decoded together.
ROWS = 64


class Paraphraser:
    """A trained rewriter, from the folder that ``train_pgkpr`` has written."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.vocabulary, self.on = load_lookup(folder)
        self.model = load_rewriter(folder).eval()
        self.uses_keywords = self.model.uses_keywords
        nn.Module.to(self.model, device)

    def which_keywords(self, setting: Which | None) -> Which | None:
        """Return the value of ``generate_pgkpr.keywords``, by default that of training; None without keywords."""
        if self.uses_keywords:
            return setting if setting is not None else USED[self.on.keywords or "attribution"]
        if setting is not None:
            raise InputError(f"generate_pgkpr.keywords is {setting!r}, but this model reads no keywords "
                             f"({self.model.config.architecture}); leave it out.")
        return None

    def rewrite(self, items: pd.DataFrame, decode: Mapping[str, Any], track: Progress = iter,
                count: int = 1) -> Iterator[pd.DataFrame]:
        """Yield rows of table ``predictions`` for ``items``, a chunk at a time; ``track`` wraps the list of chunks.

        The items have columns ``example_id``, ``source_words``, ``source_tags``, ``references`` (texts) and ``mask``
        (which words are keywords). With ``count`` above 1, an item has a row for each of its best outputs, samples 0,
        1, ...
        """
        banned = self.vocabulary.banned(decode["unknown"] == "keep")
        rules = Rules(EOS, PAD, 1, decode["max_length"], banned)
        for chunk in track([items.iloc[start:start + ROWS] for start in range(0, len(items), ROWS)]):
            yield self._rewrite_chunk(chunk, rules, decode["num_beams"], count)

    def _rewrite_chunk(self, chunk: pd.DataFrame, rules: Rules, beams: int, count: int) -> pd.DataFrame:
        limit, device, keywords = self.on.max_length, self.model.device, self.uses_keywords
        words, tags, marks = (
            [torch.as_tensor(row[:limit], dtype=torch.int64) for row in rows]
            for rows in (chunk["source_words"].map(self.vocabulary.words_ids),
                         chunk["source_tags"].map(self.vocabulary.tag_ids), chunk["mask"]))
        ids, of_tags, mask = (pad_sequence(rows, batch_first=True).to(device) for rows in (words, tags, marks))
        batch = {"x_ids": ids, "x_tags": of_tags, "x_lengths": torch.tensor(list(map(len, words)), device=device)}
        tokens = self.model.rewrite(batch, mask.bool() if keywords else None, rules, beams,
                                    None if count == 1 else count)
        tokens = tokens.unsqueeze(1) if count == 1 else tokens  # (B, count, L)
        rows = pd.DataFrame({
            "example_id": chunk["example_id"].tolist(), "sample": 0,
            "source": chunk["source_words"].map(as_text).tolist(),
            "keyword": [as_text(marked_words(source, marked[:limit])) if keywords else None
                        for source, marked in zip(chunk["source_words"], chunk["mask"], strict=True)],
            "keyword_known": True,
            "prediction": [[self.vocabulary.text(one) for one in row if EOS in one] for row in tokens.tolist()],
            "references": chunk["references"].tolist()})
        rows = rows.explode("prediction", ignore_index=True)
        return rows.assign(sample=rows.groupby("example_id").cumcount())


def run(pairs: pd.DataFrame, paraphraser: Paraphraser, decode: Mapping[str, Any], seed: int,
        track: Progress = iter) -> pd.DataFrame:
    """Return table ``predictions`` of the split that ``decode`` names; ``seed`` flips the coins of keywords."""
    which, on = paraphraser.which_keywords(decode["keywords"]), paraphraser.on
    first, references = by_example(split_of(pairs, decode["split"], "paraphrase_items"))
    masks = (fixed_masks(first, which, seed, on.mark_all, on.max_length) if which is not None
             else [np.zeros(len(words), dtype=bool) for words in first["source_words"]])
    items = first[["example_id", "source_words", "source_tags"]].assign(mask=masks, references=references)
    return pd.concat(list(paraphraser.rewrite(items, decode, track)), ignore_index=True)


def _rewritten(params: Params, name: str, paths: ModelPaths, device: str,
               track: Progress) -> tuple[list[Table], list[str]]:
    pairs = read_frame(paths.paraphrase_items, PARAPHRASE_ITEMS)
    rows = run(pairs, Paraphraser(paths.weights, device), params.decoding(name).plain(), params.seed, track)
    return [Table("predictions", rows, PREDICTIONS)], []


def _work(process: StageProcess) -> None:
    generate(process, _rewritten)


main = partial(run_stage, STAGE, _work, instance="RUN")


if __name__ == "__main__":
    sys.exit(main())
