"""Word vectors of the embedding metrics that come from a file, or from the training texts.

Words are basic tokens here: lower case, without accents, Chinese one character at a time. A table for them is one
of lower-cased words; of a Chinese table its characters are used.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from stages.common.word_vectors import read_vectors, train_skip_gram, training_description
from stages.metrics.tokens import Text, basic_tokens, joined

# As wide as the Twitter vectors of DialogWAE; the rest are gensim's own defaults, with more passes over small data.
TRAINING: dict[str, Any] = {"size": 200, "window": 5, "min_count": 2, "epochs": 10}


class WordTable:
    """Word vectors in memory: distinct words (V,), their vectors (V, d), and what they are, for settings."""

    def __init__(self, words: Sequence[str], vectors: np.ndarray, description: dict[str, Any]) -> None:
        self.words, self.vectors, self.description = words, vectors, description
        self._rows = {word: row for row, word in enumerate(words)}

    def lookup(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return (vectors (n, d) float64, known (n,) bool) of ``words``; zeros for an unknown one."""
        rows = np.array([self._rows.get(word, -1) for word in words], dtype=np.int64)
        vectors = np.zeros((len(rows), self.vectors.shape[1]))
        vectors[rows >= 0] = self.vectors[rows[rows >= 0]]
        return vectors, rows >= 0


def vectors_from_file(path: Path, texts: Iterable[Text]) -> WordTable:
    """Return the vectors that a file (word2vec text, GloVe text, fastText ``.vec``, also gzipped) has for ``texts``."""
    if not path.is_file():
        raise InputError(f"evaluation.emb: {path}: no such file. Give path:FILE, relative to the project, or "
                         f"encoder, or train.")
    words = sorted({word for text in set(texts) for word in basic_tokens(text)})
    read = read_vectors(path, words)
    if not read.words:
        raise InputError(f"evaluation.emb: {path} has a vector for none of the {len(words)} words of outputs and "
                         f"references. Is it of another language, or are its words in capitals?")
    return WordTable(read.words, read.vectors, {
        "name": path.name, "version": None, "sha256": sha256_of(path), "origin": "file", "layout": read.layout,
        "words_in_file": read.lines, "size": int(read.vectors.shape[1])})


def vectors_from_training(texts: Iterable[Text], seed: int) -> WordTable:
    """Return skip-gram vectors of the distinct ``texts`` of a training split, whatever their order."""
    sentences = [basic_tokens(text) for text in sorted(set(texts), key=joined)]
    try:
        words, vectors = train_skip_gram(sentences, **TRAINING, seed=seed)
    except ValueError as error:
        raise InputError(f"evaluation.emb: the training texts of the model are too few to train word vectors on: "
                         f"{error}. Choose encoder, or path:FILE.") from error
    return WordTable(words, vectors, {"name": "skip-gram of the training split", "version": None, "sha256": None,
                                      **training_description(**TRAINING), "texts": len(sentences),
                                      "words": len(words)})
