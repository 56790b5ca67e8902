"""Rewrite the evaluated split with a trained model of the PGKPR track.

Sources, outputs and references are words in lower case, joined by spaces, so that they differ in their words alone.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
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
from stages.run.log import logger
from stages.run.process import run_stage
from stages.tracks.common.frame import Progress, generate, split_of
from stages.tracks.common.readable import forms_of, readable
from stages.tracks.common.schemas import PREDICTIONS, Table
from stages.tracks.common.track import Asked, Finding
from stages.tracks.pgkpr import items as pgkpr
from stages.tracks.pgkpr.export import load_lookup
from stages.tracks.pgkpr.items import PARAPHRASE_ITEMS, USED, as_text, by_example, fixed_masks, marked_words

STAGE = "generate_pgkpr"
GIVEN = "given"
# Texts that are decoded together.
ROWS = 64


class Paraphraser:
    """A trained rewriter, from the folder that ``train_pgkpr`` has written."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.vocabulary, self.on = load_lookup(folder)
        self.model = load_rewriter(folder).eval()
        self.uses_keywords = self.model.uses_keywords
        nn.Module.to(self.model, device)

    def which_keywords(self, setting: str | None) -> str | None:
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
            "prediction": [[self.vocabulary.text(output) for output in row if EOS in output]
                           for row in tokens.tolist()],
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


class NewTexts:
    """Rewrites texts, prepared as the data set's stages would. The coins of a text have a seed of its own."""

    def __init__(self, asked: Asked, folder: Path, finding: Finding, device: str) -> None:
        # A person reads no [unk]: the likeliest word takes its place.
        self._decode = {**asked.params.decoding(asked.run).plain(), "unknown": "ban"}
        self._count = asked.n or 1
        if self._count > self._decode["num_beams"]:
            logger("predict").warning("--n %d: run %s searches with num_beams %d, and is searched with %d here",
                                      self._count, asked.run, self._decode["num_beams"], self._count)
            self._decode["num_beams"] = self._count
        self.batch_size = ROWS
        self._rewriter = Paraphraser(folder, device)
        self._on, self._seed = self._rewriter.on, asked.params.seed
        self._which = which = self._rewriter.which_keywords(self._decode["keywords"])
        self._given = None if asked.keyword is None else _given_words(asked.keyword, which)
        if which in ("xy", "psi_xy") and self._given is None:
            raise InputError(f"generate_pgkpr.keywords is {which!r}: these keywords are found beside a reference, and "
                             f"a new text has none. Give them with --keyword, or take another run.")
        dataset = self._on.dataset
        finds_keywords = which in pgkpr.COLUMNS and self._given is None
        self._marks = finding.marks(dataset, str(which), device) if finds_keywords else None
        self._annotated = finding.annotated(dataset)
        self._language, self._written = asked.params.datasets[dataset].language, finding.written(dataset)

    def lines(self, texts: list[str]) -> list[dict[str, Any]]:
        """Return ``source``, ``prediction`` and ``words`` of each text, and the keywords if the model reads any.

        ``prediction`` is readable, ``words`` is the output of the model; ``n_best`` lists both for each of the best
        outputs. ``unknown_words`` are read as [unk], ``cut_words`` are not read; ``keyword_missing`` are given keywords
        that are not among the words read. Empty lists are left out.
        """
        chunk = pa.table({"text_id": pa.array(range(len(texts)), pa.int64()), "text": list(texts)})
        tokens = self._annotated(chunk).sort_by("text_id")
        items = self._items(texts, chunk, tokens)
        rows = pd.concat(list(self._rewriter.rewrite(items, self._decode, count=self._count)))
        known, limit = self._rewriter.vocabulary.word_numbers, self._on.max_length
        lines = []
        for (number, same), spelt, starts, words, mask in zip(
                rows.groupby("example_id", sort=True), tokens["token"].to_pylist(),
                tokens["sentence_start"].to_pylist(), items["source_words"], items["mask"], strict=True):
            forms = {**self._written, **forms_of(spelt, starts)}
            outputs = [{"prediction": readable(pgkpr.as_words(output), forms, self._language), "words": output}
                       for output in same["prediction"]]
            line: dict[str, Any] = {"source": texts[number], **outputs[0]}
            further: dict[str, list[Any]] = {}
            if self._rewriter.uses_keywords:
                line |= {"keyword": same["keyword"].iloc[0] or None,
                         "keyword_from": self._which if self._given is None else GIVEN}
                shown = marked_words(words, mask[:limit])
                further["keyword_missing"] = [word for word in self._given or () if word not in shown]
            further |= {"n_best": outputs if self._count > 1 else [],
                        "unknown_words": [word for word in dict.fromkeys(words[:limit]) if word not in known],
                        "cut_words": words[limit:]}
            lines.append(line | {name: values for name, values in further.items() if values})
        return lines

    def _items(self, texts: list[str], chunk: pa.Table, tokens: pa.Table) -> pd.DataFrame:
        read = pgkpr.read_words(tokens)
        items = pd.DataFrame({"example_id": range(len(texts)), "source_words": read.words.to_pylist(),
                              "source_tags": read.tags.to_pylist(), "references": [[] for _ in texts]})
        if not read.lengths.all():
            raise InputError(f"text {texts[read.lengths.argmin()]!r} has no words; leave it out.")
        if self._given is not None:
            return items.assign(mask=[np.isin(np.asarray(words, dtype=object), self._given)
                                      for words in items["source_words"]])
        if self._which is None:
            return items.assign(mask=[np.zeros(len(row), dtype=bool) for row in items["source_words"]])
        rows = items.assign(example_id=texts)     # the text itself seeds its coin flips
        if self._marks is not None:
            marks = read.aligned("table tokens", np.arange(len(texts)), self._marks(chunk, tokens)).to_pylist()
            rows = rows.assign(**{pgkpr.COLUMNS[self._which]: marks})
        return items.assign(mask=fixed_masks(rows, self._which, self._seed, self._on.mark_all, self._on.max_length))


def _given_words(given: str, which: str | None) -> list[str]:
    if which is None:
        raise InputError("--keyword: this model reads no keywords; leave it out.")
    words = pgkpr.as_words(given.lower())
    if not words:
        raise InputError("--keyword: name at least one word of the text.")
    return words


def _rewritten(params: Params, name: str, paths: ModelPaths, device: str,
               track: Progress) -> tuple[list[Table], list[str]]:
    pairs = read_frame(paths.paraphrase_items, PARAPHRASE_ITEMS)
    rows = run(pairs, Paraphraser(paths.weights, device), params.decoding(name).plain(), params.seed, track)
    return [Table("predictions", rows, PREDICTIONS)], []


main = partial(run_stage, STAGE, lambda process: generate(process, _rewritten), instance="RUN")
