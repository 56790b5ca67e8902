"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004) as the two packages in use count them (METHODS E.3).

``rouge_score``: the package of that name, Porter stems of words longer than three letters, of several references the
best by F1, for each measure by itself. It is what most papers since 2020 report.

``py_rouge``: what PGKPR's tables hold. Counts are pooled over the references of an item: precision is the sum of
overlaps over R * |hypothesis|, recall the same sum over all words of the references. With several references this
lies far below the best one.

Both delete whatever is neither a letter of the English alphabet nor a digit, and so would delete Chinese whole; here
a Chinese character is a word of its own, as in every other metric of this package.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from keycontrast.errors import nearest
from stages.metrics.tokens import CHINESE, Text, joined, stem

CONVENTIONS = ("rouge_score", "py_rouge")
MEASURES = ("rouge_1", "rouge_2", "rouge_l")
# py-rouge calls them bytes, and counts characters.
BYTE_LIMIT = 665
_WORD = re.compile(f"[a-z0-9]+|[{CHINESE}]")
_STEMMED_FROM = 4   # letters
# py-rouge cuts words by the Penn Treebank's rules, of which these alone apply where there is no punctuation.
_TREEBANK = {"gimme": ("gim", "me"), "gonna": ("gon", "na"), "gotta": ("got", "ta"), "lemme": ("lem", "me"),
             "wanna": ("wan", "na")}


@dataclass(frozen=True)
class RougeScores:
    """ROUGE-1, ROUGE-2 and ROUGE-L of every item.

    Attributes:
        convention: one of ``CONVENTIONS``.
        precision, recall, f1: (n_items, 3), columns as in ``MEASURES``.
    """

    convention: str
    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray

    def named(self, prefix: str = "") -> dict[str, float]:
        """Return the mean F1 of each measure, ``{"rouge_1": ..., "rouge_2": ..., "rouge_l": ...}``."""
        return {f"{prefix}{name}": float(value) for name, value in zip(MEASURES, self.f1.mean(axis=0), strict=True)}


def rouge(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]], convention: str) -> RougeScores:
    """Return ROUGE of every item: ``rouge(["a b"], [["a b", "a c"]], "rouge_score").f1``.

    ``py_rouge`` follows py-rouge 1.1 as PGKPR calls it: F1 (alpha 0.5), at most 665 characters, lower case, stems
    by Porter's original algorithm for words longer than three letters. Two differences remain. py-rouge first looks
    a word up in a list of irregular forms that it made of WordNet (*men* becomes *man*); that list is not had here,
    so such words go to the stemmer. And ROUGE-L takes a text as one sentence, where py-rouge takes every line as one.

    Args:
        hypotheses: one text (or list of tokens, joined by spaces) per item.
        references: per item a string or a sequence of references.
        convention: ``rouge_score`` or ``py_rouge``.

    Raises:
        ValueError: unknown convention, no items, different numbers of items, or an item without reference.
    """
    if convention not in CONVENTIONS:
        raise ValueError(f"no ROUGE convention is called {convention!r}; {nearest(convention, CONVENTIONS)}")
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} items with references")
    if not len(hypotheses):
        raise ValueError("ROUGE of no items is undefined")
    of_item = _best_of_references() if convention == "rouge_score" else _pooled
    scores = np.empty((len(hypotheses), 3, 3))
    for item, (text, others) in enumerate(zip(hypotheses, references, strict=True)):
        texts = [others] if isinstance(others, str) else [joined(other) for other in others]
        if not texts:
            raise ValueError(f"item {item} has no reference")
        scores[item] = of_item(joined(text), texts)
    return RougeScores(convention, scores[:, 0], scores[:, 1], scores[:, 2])


def _best_of_references() -> Callable[[str, list[str]], np.ndarray]:
    """Return the scorer of package rouge_score, as (precision, recall, F1) x measure."""
    from rouge_score.rouge_scorer import RougeScorer

    names = ("rouge1", "rouge2", "rougeL")
    scorer = RougeScorer(names, tokenizer=_StemmedWords())

    def score(text: str, references: list[str]) -> np.ndarray:
        found = scorer.score_multi(references, text)
        return np.array([found[name] for name in names]).T

    return score


class _StemmedWords:
    """The tokenizer of rouge_score, with Chinese characters as words, and each word stemmed but once."""

    def tokenize(self, text: str) -> list[str]:
        return [_stem(word, "NLTK_EXTENSIONS") for word in _WORD.findall(text.lower())]


def _pooled(text: str, references: list[str]) -> np.ndarray:
    """Return (precision, recall, F1) x measure of one item by counts pooled over its references."""
    own = _original_stems(text)
    others = [_original_stems(reference) for reference in references]
    overlaps = np.array([[_shared(own, other, 1), _shared(own, other, 2), _longest_common(own, other)]
                         for other in others]).sum(axis=0)
    precision = _ratio(overlaps, len(others) * _sizes(own))
    recall = _ratio(overlaps, np.sum([_sizes(other) for other in others], axis=0))
    return np.array([precision, recall, _ratio(2 * precision * recall, precision + recall)])


def _original_stems(text: str) -> list[str]:
    # Spaces around line ends go before characters are counted.
    whole = " ".join(line.strip() for line in text.split("\n"))[:BYTE_LIMIT]
    words = [part for word in _WORD.findall(whole.lower()) for part in _TREEBANK.get(word, (word,))]
    return [_stem(word, "ORIGINAL_ALGORITHM") for word in words]


def _stem(word: str, mode: str) -> str:
    return stem(word, mode) if len(word) >= _STEMMED_FROM else word


def _sizes(words: list[str]) -> np.ndarray:
    """Return how many words, pairs of words, and again words a text has."""
    return np.array([len(words), max(len(words) - 1, 0), len(words)])


def _shared(left: list[str], right: list[str], order: int) -> int:
    grams = [Counter(zip(*(words[offset:] for offset in range(order)), strict=False)) for words in (left, right)]
    return (grams[0] & grams[1]).total()


def _longest_common(left: list[str], right: list[str]) -> int:
    """Return the length of the longest common subsequence, row by row of the usual table."""
    row = [0] * (len(right) + 1)
    for word in left:
        corner = 0
        for place, other in enumerate(right, 1):
            above = row[place]
            row[place] = corner + 1 if word == other else max(above, row[place - 1])
            corner = above
    return row[-1]


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
