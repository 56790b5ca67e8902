"""The words of a data set: how often they occur in each split, and where a file has vectors for them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from stages.common.word_vectors import FileVectors, read_vectors
from stages.psi.importance.texts import WordTexts, read_words, split_texts
from stages.psi.importance.vectors import forms


@dataclass(frozen=True)
class Vocabulary(WordTexts):
    """The texts of a data set and their distinct tokens as written; ``by_split`` has the ids of those of each split."""

    by_split: Mapping[str, np.ndarray]

    def counts(self, split: str) -> np.ndarray:
        """Return how often each token occurs in the texts of ``split``."""
        return np.bincount(self.texts.words[self.words_of(split)], minlength=len(self.words))

    def words_of(self, split: str) -> np.ndarray:
        """Return, for each word of ``texts``, whether its text is of ``split``."""
        member = np.zeros(len(self.texts.ids), dtype=bool)
        member[self.texts.positions(self.by_split[split])] = True
        return np.repeat(member, self.texts.lengths)


def read_vocabulary(tokens: Iterable[pa.Table], examples: pd.DataFrame) -> Vocabulary:
    """Return the distinct tokens of all texts, and the texts in terms of them."""
    found = read_words(tokens)
    return Vocabulary(found.words, found.texts, split_texts(examples))


def vectors_of_tokens(path: Path, tokens: list[str]) -> FileVectors:
    """Read the forms that a token can be found under, less those that another form of the token hides."""
    read = read_vectors(path, {form for token in tokens for form in forms(token)})
    if not read.words:
        raise InputError(f"word_vectors.source: {path} has a vector for none of the data set's {len(tokens)} words. Is "
                         f"it of another language?")
    known = set(read.words)
    used = {found_form(token, known) for token in tokens}
    kept = [place for place, word in enumerate(read.words) if word in used]
    return FileVectors([read.words[place] for place in kept], read.vectors[kept], read.layout, read.lines,
                       read.duplicates)


def found_form(token: str, known: Collection[str]) -> str | None:
    """Return the form of ``token`` that is among the ``known`` words; None if none is."""
    return next((form for form in forms(token) if form in known), None)
