"""TopicRank (Bougouin, Boudin and Daille 2013) as the pytextrank package computes it.

Candidates are noun chunks from their first noun, adjective or verb on. Candidates that share words are one topic:
average linkage over the Jaccard distance of their words, stop words left out. Topics are the nodes of a complete
graph; the weight of an edge is the sum of reciprocal distances, in tokens, between their candidates. The first
candidate of a topic stands for it. A graph is quadratic in a text's topics.
"""

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from stages.ranking.blocks import Spans, TokenBlock, among, encode
from stages.ranking.cooccurrence import PYTEXTRANK_POS, Graphs

# The package asks for 25 % of words in common and cuts a hundredth below the distance that this is.
_CUT = 0.99 - 0.25
# Candidates whose distances to all others are held at a time.
_ROWS = 512


def topic_graphs(block: TokenBlock) -> tuple[Graphs, Spans]:
    """Return the graphs of topics and the span that stands for each node, (nodes,)."""
    found = _candidates(block)
    topic = _topics(block, found)
    edges, offsets, firsts = [], [0], []
    cuts = np.searchsorted(found.text, np.arange(block.table.num_rows + 1))
    for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        inside = topic[start:end]
        if end > start:
            firsts.append(start + _first_of_each(inside, found.start[start:end]))
            edges.append(_edges(inside, found.start[start:end], offsets[-1]))
        offsets.append(offsets[-1] + (int(inside.max()) + 1 if end > start else 0))
    first, second, weight = (np.concatenate([edge[side] for edge in edges]) if edges else np.zeros(0, dtype=kind)
                             for side, kind in enumerate((np.int64, np.int64, np.float64)))
    nodes = found.take(np.concatenate(firsts) if firsts else np.zeros(0, dtype=np.int64))
    return Graphs(np.array(offsets), _node_of(block, found, topic, np.array(offsets)), first, second, weight), nodes


def _candidates(block: TokenBlock) -> Spans:
    """Return the noun chunks that hold a kept word, each from its first one on."""
    chunks = block.chunks
    span, places = chunks.members()
    kept = among(block.column("pos"), PYTEXTRANK_POS)[places]
    holders, first = np.unique(span[kept], return_index=True)
    found = chunks.take(holders)
    return Spans(found.text, places[kept][first], found.end)


def _topics(block: TokenBlock, found: Spans) -> np.ndarray:
    """Return the topic of each candidate, numbered within its text by first appearance."""
    span, places = found.members()
    stop = block.column("is_stop").to_numpy(zero_copy_only=False).astype(bool)
    span, places = span[~stop[places]], places[~stop[places]]
    words, known = encode(block.tokens)
    words = words[places].astype(np.int64)
    held = np.unique(span * max(len(known), 1) + words)
    span, words = np.divmod(held, max(len(known), 1))
    cuts = np.searchsorted(found.text, np.arange(block.table.num_rows + 1))
    topic = np.arange(len(found)) - cuts[found.text]
    for text in _texts_to_cluster(found, span, words, len(known)).tolist():
        start, end = cuts[text], cuts[text + 1]
        mine = slice(*np.searchsorted(span, [start, end]))
        topic[start:end] = _clusters(span[mine] - start, words[mine], int(end - start))
    return topic


def _texts_to_cluster(found: Spans, span: np.ndarray, words: np.ndarray, kinds: int) -> np.ndarray:
    """Return the texts in which two candidates share a word, or have none: only there are topics of several."""
    keys, counts = np.unique(found.text[span] * max(kinds, 1) + words, return_counts=True)
    bare = np.setdiff1d(np.arange(len(found)), span)
    texts, bares = np.unique(found.text[bare], return_counts=True)
    return np.union1d(keys[counts > 1] // max(kinds, 1), texts[bares > 1])


def _clusters(span: np.ndarray, words: np.ndarray, size: int) -> np.ndarray:
    _, column = np.unique(words, return_inverse=True)
    bags = np.zeros((size, int(column.max(initial=-1)) + 1), dtype=np.float32)
    bags[span, column] = 1
    labels = fcluster(linkage(_jaccard(bags), method="average"), t=_CUT, criterion="distance")
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _jaccard(bags: np.ndarray) -> np.ndarray:
    """Return the Jaccard distances of all pairs of rows, those above the diagonal; two empty rows are alike.

    Counts are whole numbers, so the product is exact; for a long text it takes a tenth of SciPy's time.
    """
    upper = np.triu_indices(len(bags), 1)
    shared = (bags @ bags.T)[upper].astype(np.float64)
    sizes = bags.sum(axis=1)
    either = (sizes[:, None] + sizes[None, :])[upper] - shared
    return np.divide(either - shared, either, out=np.zeros_like(shared), where=either > 0)


def _first_of_each(topic: np.ndarray, start: np.ndarray) -> np.ndarray:
    order = np.lexsort((np.arange(len(topic)), start, topic))
    return order[np.append(True, topic[order][1:] != topic[order][:-1])]


def _edges(topic: np.ndarray, start: np.ndarray, offset: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges between the topics of one text, both ends and weight."""
    size = int(topic.max()) + 1
    weight = np.zeros((size, size))
    for begin in range(0, len(topic), _ROWS):
        rows = slice(begin, begin + _ROWS)
        apart = np.abs(start[rows, None] - start[None, :])
        near = np.divide(1.0, apart, out=np.zeros(apart.shape), where=apart > 0)
        pair = topic[rows, None] * size + topic[None, :]
        weight += np.bincount(pair.ravel(), weights=near.ravel(), minlength=size * size).reshape(size, size)
    first, second = np.triu_indices(size, 1)
    return first + offset, second + offset, weight[first, second]


def _node_of(block: TokenBlock, found: Spans, topic: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    node_of = np.full(len(block.text), -1, dtype=np.int64)
    span, places = found.members()
    node_of[places] = (offsets[found.text] + topic)[span]
    return node_of
