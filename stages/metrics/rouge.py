"""F1 of ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004) by the conventions of two packages.

``rouge_score``: Porter stems of words longer than three letters; the best F1 over the references, for each measure.

``py_rouge``: py-rouge 1.1 as PGKPR calls it, with at most 665 characters and stems by Porter's original algorithm.
Counts are pooled over the R references of an item: precision is the sum of overlaps over R * |hypothesis|, recall the
same sum over all words of the references. Two differences remain: py-rouge maps irregular forms by WordNet (*men* to
*man*), and its ROUGE-L takes each line as a sentence.

Both packages delete Chinese; here each Chinese character is a word.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from stages.metrics.bleu import check_items, ngrams
from stages.metrics.tokens import CHINESE, Text, joined, stem

MEASURES = ("rouge_1", "rouge_2", "rouge_l")
BYTE_LIMIT = 665    # of py-rouge, which counts characters
# As in rouge_score for Latin letters; Chinese characters, and words of other scripts, are words too.
_WORD = re.compile(f"[a-z0-9]+|[{CHINESE}]|[^\\W\\d_a-z\u00aa-\u024f\u1e00-\u1eff{CHINESE}]+")
_STEMMED_FROM = 4   # letters
# The rules of the Penn Treebank, by which py-rouge cuts words, that apply without punctuation.
_TREEBANK = {"gimme": ("gim", "me"), "gonna": ("gon", "na"), "gotta": ("got", "ta"), "lemme": ("lem", "me"),
             "wanna": ("wan", "na")}


def rouge(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]], convention: str) -> np.ndarray:
    """Return F1 of every item (n_items, 3), columns as in ``MEASURES``; an item has one reference or several."""
    check_items(hypotheses, references)
    of_item = _best_of_references if convention == "rouge_score" else _pooled
    return np.array([of_item(joined(text), [others] if isinstance(others, str) else list(map(joined, others)))
                     for text, others in zip(hypotheses, references, strict=True)])


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(("rouge1", "rouge2", "rougeL"), tokenizer=_StemmedWords())


def _best_of_references(text: str, references: list[str]) -> np.ndarray:
    """Return the scores of one item by package rouge_score."""
    return np.array([score.fmeasure for score in _scorer().score_multi(references, text).values()])


class _StemmedWords:
    """The tokenizer of rouge_score, with words of other scripts, and each word stemmed only once."""

    def tokenize(self, text: str) -> list[str]:
        return [_stem(word, "NLTK_EXTENSIONS") for word in _WORD.findall(text.lower())]


def _pooled(text: str, references: list[str]) -> np.ndarray:
    """Return the scores of one item by counts pooled over its references."""
    from rouge_score.rouge_scorer import _lcs_table

    own, others = _original_stems(text), list(map(_original_stems, references))
    overlaps = np.sum([[(ngrams(own, 1) & ngrams(other, 1)).total(), (ngrams(own, 2) & ngrams(other, 2)).total(),
                        _lcs_table(own, other)[-1][-1]] for other in others], axis=0)
    precision = _ratio(overlaps, len(others) * _sizes(own))
    recall = _ratio(overlaps, np.sum(list(map(_sizes, others)), axis=0))
    return _ratio(2 * precision * recall, precision + recall)


def _original_stems(text: str) -> list[str]:
    # Spaces around line ends are dropped before characters are counted.
    text = " ".join(line.strip() for line in text.split("\n"))[:BYTE_LIMIT]
    words = [part for word in _WORD.findall(text.lower()) for part in _TREEBANK.get(word, (word,))]
    return [_stem(word, "ORIGINAL_ALGORITHM") for word in words]


def _stem(word: str, mode: str) -> str:
    return stem(word, mode) if len(word) >= _STEMMED_FROM else word


def _sizes(words: list[str]) -> np.ndarray:
    """Return the number of words, of pairs of words, and again of words."""
    return np.array([len(words), max(len(words) - 1, 0), len(words)])


def _ratio(part: np.ndarray, total: np.ndarray) -> np.ndarray:
    return np.divide(part, total, out=np.zeros(len(part)), where=total > 0)
