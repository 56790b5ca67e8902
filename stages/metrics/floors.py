"""Outputs that need no model: every results table shows them, as what a model has to beat."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stages.metrics.tokens import Text, basic_tokens

# Rows of the similarity matrix held at once; changes memory, never a value.
_CHUNK = 256
# Similarities that differ by less are ties, so that rounding in the last place decides nothing.
_DECIMALS = 10


@dataclass(frozen=True)
class Neighbours:
    """The most similar training text of each source.

    Attributes:
        indices: (n_sources,) positions among the training texts.
        similarities: (n_sources,) TF-IDF cosines; 0 where no word is shared.
    """

    indices: np.ndarray
    similarities: np.ndarray


def nearest_neighbours(sources: Sequence[Text], training: Sequence[Text]) -> Neighbours:
    """Return for each source the training text of greatest TF-IDF cosine; the earlier one in a tie.

    Weights are scikit-learn's (smoothed IDF over ``training``, raw counts) on lower-cased BERT basic tokens,
    or on the words of lists.

    Raises:
        ValueError: no training text holds a token.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(tokenizer=basic_tokens, token_pattern=None, lowercase=False)
    table = vectorizer.fit_transform(training).T.tocsr()    # (words, n_training)
    queries = vectorizer.transform(sources)
    indices = np.zeros(len(sources), dtype=np.int64)
    similarities = np.zeros(len(sources))
    for start in range(0, len(sources), _CHUNK):
        cosines = np.round((queries[start:start + _CHUNK] @ table).toarray(), _DECIMALS)
        best = cosines.argmax(axis=1)
        indices[start:start + len(best)] = best
        similarities[start:start + len(best)] = cosines[np.arange(len(best)), best]
    return Neighbours(indices, similarities)


def derangement(items: int, seed: int) -> np.ndarray:
    """Return a random permutation (items,) of one cycle, so that none stays in its place (Sattolo 1986).

    Raises:
        ValueError: fewer than two items.
    """
    if items < 2:
        raise ValueError(f"at least two items can change places, not {items}")
    order = np.arange(items)
    generator = np.random.default_rng(seed)
    for place in range(items - 1, 0, -1):
        other = int(generator.integers(0, place))
        order[place], order[other] = order[other], order[place]
    return order
