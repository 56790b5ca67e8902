"""Word vectors trained on the texts of a data set: skip-gram with negative sampling, by gensim."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

ALGORITHM = "word2vec, skip-gram with 5 negative samples"


def train_skip_gram(sentences: Sequence[Sequence[str]], size: int, window: int, min_count: int, epochs: int,
                    seed: int, isotropic: bool = False) -> tuple[list[str], np.ndarray]:
    """Return words, sorted, and their vectors (V, size) float32.

    Plain word2vec and not fastText: the latter composes a vector of character n-grams for any string, so that no
    word would be unknown, while PSI gives unknown words a vector of their own. One worker thread: more would race.
    gensim draws the first weights from ``seed`` and not from the hash of words, so PYTHONHASHSEED is of no account.

    Args:
        sentences: words of each text, in the order in which they are read.
        size: width of a vector.
        window: words to either side that a word predicts.
        min_count: rarer words are left out.
        epochs: passes over the texts.
        seed: of weights and samples; its lower 32 bits count.
        isotropic: see :func:`isotropic_vectors`.

    Raises:
        ValueError: no word occurs ``min_count`` times.
    """
    from gensim.models import Word2Vec

    model = Word2Vec(vector_size=size, window=window, min_count=min_count, sg=1, negative=5, workers=1,
                     seed=seed % 2**32)
    model.build_vocab(sentences)
    if not len(model.wv):
        raise ValueError(f"no word occurs {min_count} times")
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    words = sorted(model.wv.key_to_index)
    vectors = np.array([model.wv[word] for word in words], dtype=np.float32)
    return words, isotropic_vectors(vectors) if isotropic else vectors


def isotropic_vectors(vectors: np.ndarray) -> np.ndarray:
    """Return ``vectors`` (V, D) less their mean, each scaled to length 1.

    Skip-gram vectors of few texts share one direction, and frequent words have the longest: the element-wise
    maximum of a text, and with it PSI, then belongs to function words. On 3,000 Quora triples the mean cosine of
    two words is 0.83, and the most important word of a text is a stop word four times out of five; with vectors
    made isotropic it is two times out of five. The step is ours; taking off the mean follows Mu and Viswanath,
    "All-but-the-Top" (ICLR 2018).
    """
    centred = vectors - vectors.mean(axis=0, dtype=np.float64)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.divide(centred, length, out=np.zeros_like(centred), where=length > 0).astype(np.float32)


def training_description(**settings: Any) -> dict[str, Any]:
    """Return what the metadata say of vectors trained here."""
    return {"origin": "trained on the training split", "algorithm": ALGORITHM, "gensim": version("gensim"), **settings}
