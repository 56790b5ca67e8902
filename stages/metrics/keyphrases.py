"""Exact-match F1 of ranked keyphrases, stemmed, as the keyphrase literature reports it.

    scores = keyphrase_scores([["neural networks", "training"]], [["neural network"]], cutoffs=(5,))
    scores[5].f1

A phrase is compared by the Porter stems of its words, lower-cased and cut at whatever is no letter or digit;
phrases that are equal in that form count once, the best ranked of them. Precision at k is over the phrases that
were given, at most k; precision, recall and F1 are per document and averaged over documents (macro).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stages.metrics.tokens import stem

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class KeyphraseScore:
    """Means over documents, each in [0, 1]."""

    precision: float
    recall: float
    f1: float


def keyphrase_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]],
                     cutoffs: Sequence[int] = (5, 10, 15)) -> dict[int, KeyphraseScore]:
    """Return the scores at each of ``cutoffs``.

    Args:
        predicted: phrases of each document, best first.
        gold: phrases that its readers chose, in any order. Documents without any are left out.
        cutoffs: how many of the best phrases count.

    Raises:
        ValueError: numbers of documents differ, or none has gold phrases.
    """
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} documents were predicted, {len(gold)} have gold phrases")
    documents = [(stemmed_phrases(phrases), set(wanted)) for phrases, keys in zip(predicted, gold, strict=True)
                 if (wanted := stemmed_phrases(keys))]
    if not documents:
        raise ValueError("no document has gold phrases")
    return {cutoff: _mean([_score(phrases[:cutoff], wanted) for phrases, wanted in documents]) for cutoff in cutoffs}


def stemmed_phrases(phrases: Iterable[str]) -> list[str]:
    """Return the distinct stemmed forms of ``phrases`` in their order; phrases without a word have none."""
    return [form for form in dict.fromkeys(" ".join(map(stem, _WORD.findall(phrase.lower()))) for phrase in phrases)
            if form]


def _score(phrases: list[str], wanted: set[str]) -> KeyphraseScore:
    right = sum(phrase in wanted for phrase in phrases)
    precision, recall = right / len(phrases) if phrases else 0.0, right / len(wanted)
    return KeyphraseScore(precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0)


def _mean(scores: list[KeyphraseScore]) -> KeyphraseScore:
    n = len(scores)
    return KeyphraseScore(sum(score.precision for score in scores) / n, sum(score.recall for score in scores) / n,
                          sum(score.f1 for score in scores) / n)
