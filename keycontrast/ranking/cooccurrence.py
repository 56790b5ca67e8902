"""Co-occurrence graphs of many texts at once, as one block-diagonal system.

In the graph of Mihalcea and Tarau (2004, section 3), nodes are lower-cased candidate words, and an edge joins two
different words that occur within a window of N tokens. Its weight counts how often, as in most implementations; the
paper's keyword graph has no weights. In the graph of the pytextrank package, nodes are (lemma, part of speech), and an
edge joins kept words of a sentence up to three *kept words* apart.
"""

import unicodedata
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array, csr_array

from keycontrast.ranking.blocks import TokenBlock, among, encode

NOUNS_AND_ADJECTIVES = frozenset({"NOUN", "PROPN", "ADJ"})
# Of jieba's own TextRank: place names, nouns, verbal nouns and verbs, of at least two characters.
JIEBA_FLAGS = frozenset({"ns", "n", "vn", "v"})
JIEBA_SHORTEST = 2
PYTEXTRANK_POS = frozenset({"ADJ", "NOUN", "PROPN", "VERB"})


@dataclass(frozen=True)
class Graphs:
    """Weighted undirected graphs of the texts of a block; nodes are numbered through, text by text.

    ``offsets`` are the numbers of first nodes (texts + 1,); ``node_of`` is the node of each token or -1 (tokens,);
    edges (edges,) are distinct and sorted, the smaller node first, equal nodes being a self-loop.
    """

    offsets: np.ndarray
    node_of: np.ndarray
    first: np.ndarray
    second: np.ndarray
    weight: np.ndarray

    @cached_property
    def text(self) -> np.ndarray:
        """Row of the text that each node belongs to, (nodes,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @cached_property
    def matrix(self) -> csr_array:
        """Symmetric weights; columns ascend within a row, which fixes the order of every sum over neighbours."""
        apart = self.first != self.second
        rows = np.concatenate([self.first, self.second[apart]])
        columns = np.concatenate([self.second, self.first[apart]])
        size = int(self.offsets[-1])
        matrix = coo_array((np.concatenate([self.weight, self.weight[apart]]), (rows, columns)), (size, size)).tocsr()
        matrix.sort_indices()
        return matrix

    @cached_property
    def first_token(self) -> np.ndarray:
        """Place of each node's first token in the block, (nodes,)."""
        places = np.flatnonzero(self.node_of >= 0)
        first = np.empty(int(self.offsets[-1]), dtype=np.int64)
        first[self.node_of[places[::-1]]] = places[::-1]
        return first


def word_graphs(block: TokenBlock, window: int, language: str) -> Graphs:
    """Return the graphs of Mihalcea and Tarau over windows of so many tokens; 2 joins neighbours.

    The window counts punctuation but no white space, and runs on across sentences, as in the paper and in jieba. A word
    makes no edge with its own repetition. Candidates are nouns and adjectives, in Chinese those of jieba's TextRank.
    """
    places, place_in_text = _candidates(block, language)
    text = block.text[places]
    codes, words = encode(block.tokens.take(pa.array(places)), str.lower)
    nodes, offsets = number_nodes(text, codes, len(words), block.table.num_rows)
    pairs = []
    for apart in range(1, window):
        joined = (text[apart:] == text[:-apart]) & (place_in_text[apart:] - place_in_text[:-apart] < window)
        joined &= nodes[apart:] != nodes[:-apart]
        pairs.append((nodes[:-apart][joined], nodes[apart:][joined]))
    node_of = np.full(len(block.text), -1, dtype=np.int64)
    node_of[places] = nodes
    return Graphs(offsets, node_of, *_counted(pairs, int(offsets[-1])))


def lemma_graphs(block: TokenBlock, lookback: int, last_direction: bool) -> Graphs:
    """Return the graphs of the pytextrank package, of words up to ``lookback`` kept words of a sentence apart.

    With ``last_direction`` the later met of (a, b) and (b, a) gives the count, as in the package; else both add up.
    """
    places = np.flatnonzero(among(block.column("pos"), PYTEXTRANK_POS))
    text, sentence = block.text[places], block.sentence[places]
    lemma, lemmas = encode(block.column("lemma").take(pa.array(places)))
    pos, tags = encode(block.column("pos").take(pa.array(places)))
    nodes, offsets = number_nodes(text, lemma * len(tags) + pos, len(lemmas) * len(tags), block.table.num_rows)
    pairs, orders = [], []
    for hop in range(1, lookback + 1):
        near = np.flatnonzero(sentence[hop:] == sentence[:-hop])
        pairs.append((nodes[near], nodes[near + hop]))
        orders.append((sentence[near] * (lookback + 1) + hop) * (len(nodes) + 1) + near)
    node_of = np.full(len(block.text), -1, dtype=np.int64)
    node_of[places] = nodes
    count = _counted_last(pairs, orders, int(offsets[-1])) if last_direction else _counted(pairs, int(offsets[-1]))
    return Graphs(offsets, node_of, *count)


def _candidates(block: TokenBlock, language: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the candidates, and each one's place among the tokens that are no white space."""
    if language == "zh":
        fits, shortest = among(block.column("tag"), JIEBA_FLAGS), JIEBA_SHORTEST
    else:
        fits, shortest = among(block.column("pos"), NOUNS_AND_ADJECTIVES), 1
    # Letters, digits and symbols such as emoji name something; punctuation is never a keyword.
    worded = block.matching(lambda word: len(word) >= shortest and any(
        char.isalnum() or unicodedata.category(char)[0] == "S" for char in word))
    places = np.flatnonzero(fits & worded)
    return places, np.cumsum(block.matching(is_visible))[places]


def is_visible(word: str) -> bool:
    """Return whether a word is more than white space."""
    return bool(word.strip())


def parts_paragraphs(word: str) -> bool:
    """Return whether a token is white space with two line ends, between which nothing belongs together."""
    return word.isspace() and word.count("\n") > 1


def number_nodes(text: np.ndarray, codes: np.ndarray, kinds: int, texts: int) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct (text, code) by first appearance; return each one's number and the texts' offsets."""
    _, first, inverse = np.unique(text * max(kinds, 1) + codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    sizes = np.bincount(text[first], minlength=texts)
    return number[inverse], np.concatenate([[0], np.cumsum(sizes)])


def _counted(pairs: list[tuple[np.ndarray, np.ndarray]], size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count co-occurrences in either order."""
    left, right = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    keys, counts = np.unique(np.minimum(left, right) * size + np.maximum(left, right), return_counts=True)
    return *np.divmod(keys, max(size, 1)), counts.astype(np.float64)


def _counted_last(pairs: list[tuple[np.ndarray, np.ndarray]], orders: list[np.ndarray],
                  size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count ordered pairs; of two directions, the one whose first occurrence comes later gives the weight."""
    left, right = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    met = np.argsort(np.concatenate(orders))
    keys, first, counts = np.unique((left * size + right)[met], return_index=True, return_counts=True)
    a, b = np.divmod(keys, max(size, 1))
    edge = np.minimum(a, b) * size + np.maximum(a, b)
    order = np.lexsort((first, edge))
    last = order[np.append(edge[order][1:] != edge[order][:-1], True)[:len(order)]]
    return *np.divmod(edge[last], max(size, 1)), counts[last].astype(np.float64)
