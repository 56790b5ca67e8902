"""Trivial baselines, which need no model: the nearest training text, and references in other places."""

from collections.abc import Sequence

import numpy as np

from stages.metrics.tokens import Text, basic_tokens

_CHUNK = 256        # rows of the similarity matrix held at once; changes memory, never a value
_DECIMALS = 10      # of similarities, so that rounding in the last place decides no tie


def nearest_neighbours(sources: Sequence[Text], training: Sequence[Text]) -> tuple[np.ndarray, np.ndarray]:
    """Return the training text of greatest TF-IDF cosine for each source, the earlier one in a tie, and the cosine.

    Both are (n_sources,): places in ``training``, and similarities, 0 where no word is shared. Weights are
    scikit-learn's (smoothed IDF over ``training``, raw counts) on basic tokens, or on the words of lists.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(tokenizer=basic_tokens, token_pattern=None, lowercase=False)
    table = vectorizer.fit_transform(training).T.tocsr()    # (words, n_training)
    queries = vectorizer.transform(sources)
    best, similarities = np.zeros(len(sources), dtype=np.int64), np.zeros(len(sources))
    for start in range(0, len(sources), _CHUNK):
        rows = slice(start, start + _CHUNK)
        cosines = np.round((queries[rows] @ table).toarray(), _DECIMALS)
        best[rows], similarities[rows] = cosines.argmax(axis=1), cosines.max(axis=1)
    return best, similarities


def derangement(items: int, seed: int) -> np.ndarray:
    """Return a random permutation (items,) of one cycle, so that none of two or more stays in its place (Sattolo)."""
    order = np.arange(items)
    generator = np.random.default_rng(seed)
    for place in range(items - 1, 0, -1):
        other = int(generator.integers(0, place))
        order[place], order[other] = order[other], order[place]
    return order
