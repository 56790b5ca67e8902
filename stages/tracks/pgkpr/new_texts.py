"""Predictions for new texts with a run of the PGKPR track."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from stages.run.log import logger
from stages.tracks.common.readable import forms_of, readable
from stages.tracks.common.track import Asked, Finding
from stages.tracks.pgkpr.generate import ROWS, Paraphraser
from stages.tracks.pgkpr.items import COLUMNS, Which, as_words, fixed_masks, marked_words, read_words
from stages.tracks.pgkpr.track import PGKPR

GIVEN = "given"


class NewTexts:
    """Rewrites texts, prepared as the data set's stages would. The coins of a text have a seed of its own."""

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
        if which in ("xy", "psi_xy") and self._given is None:
            raise InputError(f"generate_pgkpr.keywords is {which!r}: these keywords are found beside a reference, and "
                             f"a new text has none. Give them with --keyword, or take another run.")
        dataset = self._on.dataset
        sought = which in COLUMNS and self._given is None
        self._marks = finding.marks(dataset, str(which), device) if sought else None
        self._annotated = finding.annotated(dataset)
        self._language, self._written = asked.params.datasets[dataset].language, finding.written(dataset)

    def lines(self, texts: list[str]) -> list[dict[str, Any]]:
        """Return ``source``, ``prediction``, and for a model with keywords these, of each text.

        ``prediction`` is readable, ``words`` is the output of the model; ``n_best`` lists both of each of the best
        outputs. ``unknown_words`` are read as [unk], ``cut_words`` not at all; ``keyword_missing`` are given words that
        are not among the words read. All are left out if empty.
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
            outputs = [{"prediction": readable(as_words(output), forms, self._language), "words": output}
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
        read = read_words(tokens)
        items = pd.DataFrame({"example_id": range(len(texts)), "source_words": read.words.to_pylist(),
                              "source_tags": read.tags.to_pylist(), "references": [[] for _ in texts]})
        if not read.lengths.all():
            raise InputError(f"text {texts[read.lengths.argmin()]!r} has no words; leave it out.")
        if self._given is not None:
            return items.assign(mask=[np.isin(np.asarray(words, dtype=object), self._given)
                                      for words in items["source_words"]])
        if self._which is None:
            return items.assign(mask=[np.zeros(len(row), dtype=bool) for row in items["source_words"]])
        rows = items.assign(example_id=texts)     # the text itself names its coins
        if self._marks is not None:
            marks = read.beside("table tokens", np.arange(len(texts)), self._marks(chunk, tokens)).to_pylist()
            rows = rows.assign(**{COLUMNS[self._which]: marks})
        return items.assign(mask=fixed_masks(rows, self._which, self._seed, self._on.mark_all, self._on.max_length))


def _given_words(given: str, which: Which | None) -> list[str]:
    if which is None:
        raise InputError("--keyword: this model reads no keywords; leave it out.")
    words = as_words(given.lower())
    if not words:
        raise InputError("--keyword: name at least one word of the text.")
    return words
