"""Embedding similarity of outputs and references: Extrema, Average and Greedy (HCL section 4.4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tokenizers import Tokenizer

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from stages.common.word_vectors import read_vectors, train_skip_gram, training_description
from stages.metrics.tokens import Text, basic_tokens, joined, reference_lists, token_lists

# The size is that of DialogWAE's Twitter vectors; the rest are gensim's defaults, with more epochs for small data.
TRAINING: dict[str, Any] = {"size": 200, "window": 5, "min_count": 2, "epochs": 10}
_CHUNK = 512        # pairs compared at once; bounds memory, and changes no value


class WordVectors(Protocol):
    """A table of word vectors."""

    def lookup(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors (n, d) of ``words``, and which are known (n,) bool; rows of unknown words are ignored."""


class EncoderVectors:
    """Static word vectors of an encoder: the mean of the embeddings (V, d) of the pieces of each word, all known."""

    def __init__(self, table: np.ndarray, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        self._tokenizer = Tokenizer.from_str(backend.to_str())     # a copy, whose settings are changed
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._table = np.asarray(table)
        self._unknown = getattr(self._tokenizer.model, "unk_token", None)
        self.size = int(self._table.shape[1])

    def lookup(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors (n, d) of ``words``, and which are known (n,) bool."""
        encodings = self._tokenizer.encode_batch(list(words), add_special_tokens=False)
        known = np.array([bool(encoding.ids) and self._unknown not in encoding.tokens
                          for encoding in encodings], dtype=bool)
        counts = np.array([len(encoding.ids) for encoding in encodings], dtype=np.int64)
        pieces = np.array([piece for encoding in encodings for piece in encoding.ids], dtype=np.int64)
        vectors = np.zeros((len(encodings), self.size))
        np.add.at(vectors, np.repeat(np.arange(len(encodings)), counts), self._table[pieces].astype(np.float64))
        return vectors / np.maximum(counts, 1)[:, None], known


class WordTable:
    """Word vectors in memory: distinct words (V,), their vectors (V, d), and a description for the settings."""

    def __init__(self, words: Sequence[str], vectors: np.ndarray, description: dict[str, Any]) -> None:
        self.words, self.vectors, self.description = words, vectors, description
        self._rows = {word: row for row, word in enumerate(words)}

    def lookup(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors (n, d) of ``words``, zeros for an unknown one, and which are known (n,) bool."""
        rows = np.array([self._rows.get(word, -1) for word in words], dtype=np.int64)
        vectors = np.zeros((len(rows), self.vectors.shape[1]))
        vectors[rows >= 0] = self.vectors[rows[rows >= 0]]
        return vectors, rows >= 0


def vectors_from_file(path: Path, texts: Iterable[Text]) -> WordTable:
    """Return the vectors of the words of ``texts`` in a file of word2vec, GloVe or fastText (text, also gzipped)."""
    if not path.is_file():
        raise InputError(f"evaluation.emb: {path}: no such file. Give its path, relative to the project, as "
                         f"evaluation.emb_path, or set evaluation.emb to encoder or train.")
    words = sorted({word for text in set(texts) for word in basic_tokens(text)})
    read = read_vectors(path, words)
    if not read.words:
        raise InputError(f"evaluation.emb: {path} has a vector for none of the {len(words)} words of outputs and "
                         f"references. Is it of another language, or are its words in capitals?")
    return WordTable(read.words, read.vectors, {
        "name": path.name, "version": None, "sha256": sha256_of(path), "origin": "file", "layout": read.layout,
        "words_in_file": read.lines, "size": int(read.vectors.shape[1])})


def vectors_from_training(texts: Iterable[Text], seed: int) -> WordTable:
    """Return skip-gram vectors of the distinct ``texts`` of a training split, independent of their order."""
    sentences = [basic_tokens(text) for text in sorted(set(texts), key=joined)]
    try:
        words, vectors = train_skip_gram(sentences, **TRAINING, seed=seed)
    except ValueError as error:
        raise InputError(f"evaluation.emb: the training texts of the model are too few to train word vectors on: "
                         f"{error}. Choose encoder, or path and a file as evaluation.emb_path.") from error
    return WordTable(words, vectors, {"name": "skip-gram of the training split", "version": None, "sha256": None,
                                      **training_description(**TRAINING), "texts": len(sentences),
                                      "words": len(words)})


@dataclass(frozen=True)
class Similarities:
    """Similarities of each item (n_items,); NaN, or 0 for greedy, if no reference has a known word."""

    extrema: np.ndarray
    average: np.ndarray
    greedy: np.ndarray


def embedding_similarity(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]],
                         vectors: WordVectors) -> Similarities:
    """Return Extrema, Average and Greedy of every item, the best over its references (Liu et al. 2016).

    Average is the cosine of the mean vectors. Extrema is that of the vectors with the value of greatest magnitude in
    each dimension (the positive one in a tie). Greedy is the mean, over both directions, of each word's best cosine
    (Rus and Lintean 2012). Unknown words are dropped, vectors are not normalised.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} items with references")
    outputs, targets = token_lists(hypotheses), reference_lists(references)
    words = sorted({word for tokens in chain(outputs, *targets) for word in tokens})
    table, known = vectors.lookup(words) if words else (np.zeros((0, 1)), np.zeros(0, dtype=bool))
    index = {word: row for row, word in enumerate(words) if known[row]}

    def rows(tokens: list[str]) -> np.ndarray:
        return np.array([index[token] for token in tokens if token in index], dtype=np.int64)

    pairs = [(item, rows(tokens), rows(reference))
             for item, tokens in enumerate(outputs) for reference in targets[item]]
    scores = np.full((len(outputs), 3), np.nan)
    for start in range(0, len(pairs), _CHUNK):
        items, left, right = zip(*pairs[start:start + _CHUNK], strict=True)
        np.fmax.at(scores, list(items), _compare(left, right, table))
    return Similarities(scores[:, 0], scores[:, 1], np.nan_to_num(scores[:, 2]))


def _compare(left: Sequence[np.ndarray], right: Sequence[np.ndarray], table: np.ndarray) -> np.ndarray:
    """Return (n_pairs, 3): Extrema, Average, Greedy; NaN in the first two where ``right`` is empty."""
    scores = np.zeros((len(left), 3))
    present = [pair for pair in range(len(left)) if len(left[pair]) and len(right[pair])]
    if present:
        sides = [_summaries([side[pair] for pair in present], table) for side in (left, right)]
        for column, (own, other) in enumerate(zip(*sides, strict=True)):
            scores[present, column] = (_unit(own) * _unit(other)).sum(axis=1)
        for pair in present:
            cosines = _unit(table[left[pair]]) @ _unit(table[right[pair]]).T    # (n_left, n_right)
            scores[pair, 2] = (cosines.max(axis=1).mean() + cosines.max(axis=0).mean()) / 2
    scores[[len(rows) == 0 for rows in right], :2] = np.nan
    return scores


def _summaries(rows: list[np.ndarray], table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the extreme and the mean vector of each text, both (n, d); no text is empty."""
    lengths = np.array(list(map(len, rows)))
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    words = table[np.concatenate(rows)]
    highest, lowest = np.maximum.reduceat(words, starts), np.minimum.reduceat(words, starts)
    extreme = np.where(highest >= np.abs(lowest), highest, lowest)
    return extreme, np.add.reduceat(words, starts) / lengths[:, None]


def _unit(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms == 0, 1, norms)
