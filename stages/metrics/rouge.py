"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004) as the two packages in use count them.

``rouge_score``: the package of that name, Porter stems of words longer than three letters, of several references the
best by F1, for each measure by itself. Most papers since 2020 report it.

``py_rouge``: PGKPR's. Counts are pooled over the references of an item: precision is the sum of overlaps over
R * |hypothesis|, recall the same sum over all words of the references. With several references this lies far below the
best one. It follows py-rouge 1.1 as PGKPR calls it: F1 (alpha 0.5), at most 665 characters, lower case, stems by
Porter's original algorithm for words longer than three letters. Two differences remain: py-rouge first looks a word up
in a list of irregular forms made of WordNet (*men* becomes *man*), which is not available here; and ROUGE-L takes a
text as one sentence, where py-rouge takes every line as one.

Both packages delete all but English letters and digits, and so would delete Chinese whole; here a Chinese character is
a word of its own, as in every other metric of this package.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from keycontrast.errors import nearest
from stages.metrics.bleu import check_items, ngrams
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


def rouge(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]], convention: str) -> np.ndarray:
    """Return F1 of every item (n_items, 3), columns as in ``MEASURES``: ``rouge(["a b"], [["a b"]], "rouge_score")``.

    Lists of tokens are joined by spaces; an item has one reference or a sequence of them.
    """
    if convention not in CONVENTIONS:
        raise ValueError(f"no ROUGE convention is called {convention!r}; {nearest(convention, CONVENTIONS)}")
    check_items(hypotheses, references)
    of_item = _best_of_references() if convention == "rouge_score" else _pooled
    return np.array([of_item(joined(text), [others] if isinstance(others, str) else list(map(joined, others)))
                     for text, others in zip(hypotheses, references, strict=True)])


def _best_of_references() -> Callable[[str, list[str]], np.ndarray]:
    """Return the scorer of package rouge_score."""
    from rouge_score.rouge_scorer import RougeScorer

    names = ("rouge1", "rouge2", "rougeL")
    scorer = RougeScorer(names, tokenizer=_StemmedWords())

    def score(text: str, references: list[str]) -> np.ndarray:
        scores = scorer.score_multi(references, text)
        return np.array([scores[name].fmeasure for name in names])

    return score


class _StemmedWords:
    """The tokenizer of rouge_score, with Chinese characters as words, and each word stemmed only once."""

    def tokenize(self, text: str) -> list[str]:
        return [_stem(word, "NLTK_EXTENSIONS") for word in _WORD.findall(text.lower())]


def _pooled(text: str, references: list[str]) -> np.ndarray:
    """Return the scores of one item by counts pooled over its references."""
    own, others = _original_stems(text), list(map(_original_stems, references))
    overlaps = np.sum([[(ngrams(own, 1) & ngrams(other, 1)).total(), (ngrams(own, 2) & ngrams(other, 2)).total(),
                        _longest_common(own, other)] for other in others], axis=0)
    precision = _ratio(overlaps, len(others) * _sizes(own))
    recall = _ratio(overlaps, np.sum(list(map(_sizes, others)), axis=0))
    return _ratio(2 * precision * recall, precision + recall)


def _original_stems(text: str) -> list[str]:
    # Spaces around line ends go before characters are counted.
    text = " ".join(line.strip() for line in text.split("\n"))[:BYTE_LIMIT]
    words = [part for word in _WORD.findall(text.lower()) for part in _TREEBANK.get(word, (word,))]
    return [_stem(word, "ORIGINAL_ALGORITHM") for word in words]


def _stem(word: str, mode: str) -> str:
    return stem(word, mode) if len(word) >= _STEMMED_FROM else word


def _sizes(words: list[str]) -> np.ndarray:
    """Return how many words, pairs of words, and again words a text has."""
    return np.array([len(words), max(len(words) - 1, 0), len(words)])


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


def _ratio(part: np.ndarray, total: np.ndarray) -> np.ndarray:
    return np.divide(part, total, out=np.zeros(len(part)), where=total > 0)
