"""Rewriting new texts with a run of the PGKPR track: words, tags and keywords as the data set's stages find them."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from stages.run.log import logger
from stages.tracks.common.readable import forms_of, readable
from stages.tracks.common.track import Asked, Finding
from stages.tracks.pgkpr.generate import ROWS, Paraphraser
from stages.tracks.pgkpr.items import COLUMNS, Which, as_words, fixed_masks, marked_words
from stages.tracks.pgkpr.track import PGKPR
from stages.tracks.pgkpr.words import list_lengths, read_words

GIVEN = "given"


class NewTexts:
    """Rewrites texts, read as stages annotate, attribution (or psi, or s_tagger) and paraphrase_items would.

    Coins for scores are flipped with a seed of each text's own, so that a text has the same keywords at every place.

    Raises:
        InputError: the model or what finds its keywords is not there, or keywords cannot be found or used.
    """

    def __init__(self, asked: Asked, finding: Finding, device: str) -> None:
        # A person reads no [unk]: the likeliest word takes its place.
        self._decode = {**asked.params.decoding(asked.run).plain(), "unknown": "ban"}
        self._count = asked.n or 1
        if self._count > self._decode["num_beams"]:
            logger("predict").warning("--n %d: run %s searches with num_beams %d, and is searched with %d here",
                                      self._count, asked.run, self._decode["num_beams"], self._count)
            self._decode["num_beams"] = self._count
        self.batch_size = ROWS
        self._rewriter = Paraphraser(PGKPR.weights(asked), device)
        self._on, self._seed = self._rewriter.on, asked.params.seed
        self._which = which = self._rewriter.which_keywords(self._decode["keywords"])
        self._given = None if asked.keyword is None else _given_words(asked.keyword, which)
        self._origin = which if self._given is None else GIVEN
        if which in ("xy", "psi_xy") and self._given is None:
            raise InputError(f"generate_pgkpr.keywords is {which!r}: these keywords are found beside a reference, and "
                             f"a new text has none. Give them with --keyword, or take another run.")
        dataset = self._on.dataset
        sought = which in COLUMNS and self._given is None
        self._marks = finding.marks(dataset, str(which), device) if sought else None
        self._annotated = finding.annotated(dataset)
        self._language, self._written = asked.params.datasets[dataset].language, finding.written(dataset)

    def lines(self, texts: list[str]) -> list[dict[str, Any]]:
        """Return ``source``, ``prediction``, and for a model that reads keywords these, of each text.

        ``prediction`` is written as people write, ``words`` is the same as the model wrote it: words in small letters
        with a space between them, as table ``predictions`` has them. With --n above 1, ``n_best`` lists both of each
        of the best outputs. ``unknown_words`` of the text the model reads as [unk], ``cut_words`` not at all; both are
        left out where there are none.

        ``keyword_from`` is where they come from: a value of ``generate_pgkpr.keywords``, or ``given``. Of given words,
        ``keyword_missing`` lists those that the text does not have, or only beyond the words that the model reads.
        """
        chunk = pa.table({"text_id": pa.array(range(len(texts)), pa.int64()), "text": list(texts)})
        tokens = self._annotated(chunk).sort_by("text_id")
        items, missing = self._items(texts, chunk, tokens)
        rows = pd.concat(list(self._rewriter.rewrite(items, self._decode, count=self._count)))
        own = [{**self._written, **forms_of(*row)} for row in
               zip(tokens["token"].to_pylist(), tokens["sentence_start"].to_pylist(), strict=True)]
        found = []
        for number, same in rows.groupby("example_id", sort=True):
            line: dict[str, Any] = {"source": texts[number]}
            outputs = [{"prediction": readable(as_words(words), own[number], self._language), "words": words}
                       for words in same["prediction"]]
            line |= outputs[0]
            if self._rewriter.uses_keywords:
                line |= {"keyword": same["keyword"].iloc[0] or None, "keyword_from": self._origin}
                line |= {"keyword_missing": missing[number]} if missing[number] else {}
            line |= {"n_best": outputs} if self._count > 1 else {}
            found.append(line | self._unread(items["source_words"][number]))
        return found

    def _unread(self, words: list[str]) -> dict[str, list[str]]:
        """Return which words of a source the model cannot read as they are."""
        read, cut = words[:self._on.max_length], words[self._on.max_length:]
        known = self._rewriter.vocabulary.word_numbers
        unknown = [word for word in dict.fromkeys(read) if word not in known]
        return {name: found for name, found in (("unknown_words", unknown), ("cut_words", cut)) if found}

    def _items(self, texts: list[str], chunk: pa.Table, tokens: pa.Table) -> tuple[pd.DataFrame, list[list[str]]]:
        """Return what ``Paraphraser.rewrite`` reads of ``texts``, and of each text the given words that it lacks."""
        read = read_words(tokens)
        items = pd.DataFrame({"example_id": range(len(texts)), "source_words": read.words.to_pylist(),
                              "source_tags": read.tags.to_pylist(), "references": [[] for _ in texts]})
        empty = np.flatnonzero(list_lengths(read.words) == 0)
        if len(empty):
            raise InputError(f"text {texts[empty[0]]!r} has no words; leave it out.")
        if self._given is not None:
            return self._with_given(items, self._given)
        nothing: list[list[str]] = [[] for _ in texts]
        if self._which is None:
            return items.assign(mask=[np.zeros(len(row), dtype=bool) for row in items["source_words"]]), nothing
        rows = items.assign(example_id=texts)     # the text itself names its coins
        if self._marks is not None:
            marks = read.beside("table tokens", np.arange(len(texts)), self._marks(chunk, tokens)).to_pylist()
            rows = rows.assign(**{COLUMNS[self._which]: marks})
        masks = fixed_masks(rows, self._which, self._seed, self._on.mark_all, self._on.max_length)
        return items.assign(mask=masks), nothing

    def _with_given(self, items: pd.DataFrame, given: list[str]) -> tuple[pd.DataFrame, list[list[str]]]:
        masks = [np.isin(np.asarray(words, dtype=object), given) for words in items["source_words"]]
        shown = [marked_words(words, mask[:self._on.max_length])
                 for words, mask in zip(items["source_words"], masks, strict=True)]
        return items.assign(mask=masks), [[word for word in given if word not in found] for found in shown]


def _given_words(given: str, which: Which | None) -> list[str]:
    if which is None:
        raise InputError("--keyword: this model reads no keywords; leave it out.")
    words = as_words(given.lower())
    if not words:
        raise InputError("--keyword: name at least one word of the text.")
    return words
