"""Baselines without a model: the nearest training text, and references of other items."""

from collections.abc import Sequence

import numpy as np

from stages.metrics.tokens import Text, basic_tokens

_CHUNK = 256        # rows of the similarity matrix in memory at once
_DECIMALS = 10      # of similarities, so that rounding errors do not decide ties


def nearest_neighbours(sources: Sequence[Text], training: Sequence[Text]) -> tuple[np.ndarray, np.ndarray]:
    """Return the place (n_sources,) in ``training`` of the text with the greatest TF-IDF cosine, and this cosine."""
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
    """Return a random permutation (items,) that is one cycle, so that no item stays in its place (Sattolo)."""
    order = np.arange(items)
    generator = np.random.default_rng(seed)
    for place in range(items - 1, 0, -1):
        other = int(generator.integers(0, place))
        order[place], order[other] = order[other], order[place]
    return order
