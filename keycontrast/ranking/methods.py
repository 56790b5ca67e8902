"""The ranking methods, each in three steps over a block of texts: graph, scores of nodes, scores of spans.

``mihalcea`` is TextRank of Mihalcea and Tarau (2004), with co-occurrences as weights. ``pytextrank`` (the default) and
``positionrank`` (Florescu and Caragea 2017) are those of the pytextrank package: corrected (``compat: none``: co-
occurrences of both directions count, the tolerance is absolute, ties fall by score, IDF and position) or as in that
package (``compat: pytextrank``). ``tfidf`` has no graph. ``topicrank`` (Bougouin, Boudin and Daille 2013) and
``biasedtextrank`` (Kazemi, Pérez-Rosas and Mihalcea 2020) are computed by that package alone (``engine: package``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from keycontrast.errors import InputError, nearest
from keycontrast.ranking.blocks import Spans, TokenBlock, encode, span_text, sum_by
from keycontrast.ranking.chunks import CHUNKS, Chunks, with_chunks
from keycontrast.ranking.cooccurrence import (
    Graphs,
    is_visible,
    lemma_graphs,
    number_nodes,
    parts_paragraphs,
    word_graphs,
)
from keycontrast.ranking.iteration import Scores, solve, solve_as_networkx
from keycontrast.ranking.selection import InverseFrequency, best_first
from keycontrast.text.normal_form import normal_form

# Below the nine digits to which scores are compared, so that equal scores are seen to be equal.
TOLERANCE = 1e-11
COMPAT = ("none", "pytextrank")
ENGINES = ("ours", "package")
_WINDOW, _WINDOW_CHINESE, _LOOKBACK = 2, 5, 3  # of mihalcea, and of the methods of the package
# Of `tfidf`: tokens added to a place, so that the first words of a text do not win by that alone. This and the roots
# were chosen on Inspec's validation part and SemEval-2017; between neighbouring values F1 differs by less than a point.
_HEAD = 10
PACKAGE_ALONE = ("topicrank", "biasedtextrank")


@dataclass(frozen=True)
class Settings:
    """The params of ``textrank``, whose values are checked there, and the language (ISO 639-1) of the texts.

    With ``compat: pytextrank`` the tolerance is that of the package: summed changes below 1e-6 per node. With
    ``window: None`` the method uses its default. The random walk returns only to the words of ``focus``, separated by
    spaces; in a text without these words our engine ignores them. ``chunks`` selects the noun chunks to rank:
    ``annotated`` (only nouns), ``adjectives``, or ``auto``: ``adjectives``, except in Chinese and if ``as_package``.
    """

    method: str = "pytextrank"
    compat: str = "none"
    language: str = "en"
    damping: float = 0.85
    tolerance: float = TOLERANCE
    max_iterations: int = 100
    window: int | None = None
    focus: str = ""
    engine: str = "ours"
    chunks: Chunks = "auto"

    def __post_init__(self) -> None:
        if self.method not in METHODS and self.method not in PACKAGE_ALONE:
            raise InputError(f"textrank.method: no ranking is called {self.method!r}; {nearest(self.method, METHODS)}")
        for name, value, valid in (("compat", self.compat, COMPAT), ("engine", self.engine, ENGINES),
                                   ("chunks", self.chunks, CHUNKS)):
            if value not in valid:
                raise InputError(f"textrank.{name}: found {value!r}; {nearest(value, valid)}")

    @property
    def as_package(self) -> bool:
        """Whether rankings are those of the pytextrank package, by either engine."""
        return self.compat == "pytextrank" or self.engine == "package"

    @property
    def span(self) -> int:
        """The window that is used."""
        own = _LOOKBACK if self.method != "mihalcea" else _WINDOW_CHINESE if self.language == "zh" else _WINDOW
        return own if self.window is None else self.window

    @property
    def described(self) -> str:
        """Name and settings, for a person."""
        if self.method == "tfidf":
            return "tfidf: sum of its words' IDF, times the root of its occurrences, lower if it first occurs late"
        compat = f" (compat {self.compat})" if self.compat != "none" else ""
        return f"{self.method}{compat}, window {self.span}, damping {self.damping:g}, tolerance {self.tolerance:g}"

    def solve(self, block: TokenBlock, idf: InverseFrequency | None) -> "Solved":
        """Score as :class:`Ranking` says; a method of :data:`PACKAGE_ALONE` is an error."""
        if self.method not in METHODS:
            raise InputError(f"textrank.method: {self.method} is computed by the pytextrank package, which shows no "
                             f"graph; choose another method to explain a text")
        tokens = self.chunked(block.table)
        return METHODS[self.method](block if tokens is block.table else TokenBlock(tokens), self, idf)

    def chunked(self, tokens: pa.Table) -> pa.Table:
        """Return ``tokens`` with the noun chunks that are phrases."""
        if self.method == "mihalcea" or (self.as_package and self.chunks == "auto"):
            return tokens
        return with_chunks(tokens, self.chunks, self.language)


@dataclass(frozen=True)
class Solved:
    """Graphs of a block, scores of their nodes, the nodes that phrases are built from, and spans with their scores.

    ``scrub`` leaves apostrophes out of keywords, as the pytextrank package does. With ``as_package`` phrases are
    compared, and ties sorted, by how they are written.
    """

    graphs: Graphs
    scores: Scores
    kept: np.ndarray
    spans: Spans
    score: np.ndarray
    iterated: bool = True
    scrub: bool = True
    as_package: bool = False


class Ranking(Protocol):
    """A way to rank the phrases of a text, with its settings."""

    @property
    def method(self) -> str:
        """Its name."""

    @property
    def described(self) -> str:
        """Name and settings, for a person."""

    def solve(self, block: TokenBlock, idf: InverseFrequency | None) -> Solved:
        """Score the nodes and spans of every text of ``block``; a text's numbers depend on that text alone."""


def _mihalcea(block: TokenBlock, settings: Settings, idf: InverseFrequency | None) -> Solved:
    graphs = word_graphs(block, settings.span, settings.language)
    restart = np.full(int(graphs.offsets[-1]), 1 - settings.damping)
    scores = solve(graphs, restart, settings.damping, settings.tolerance, settings.max_iterations)
    kept = _best_third(block, graphs, scores.score, idf)
    spans, runs, nodes = _runs(block, graphs, kept)
    return Solved(graphs, scores, kept, spans, sum_by(runs, scores.score[nodes], len(spans)), scrub=False)


def _best_third(block: TokenBlock, graphs: Graphs, score: np.ndarray, idf: InverseFrequency | None) -> np.ndarray:
    """Keep ``max(1, ceil(n / 3))`` of each text's n words; ties fall as those of phrases do."""
    first = graphs.first_token
    words = Spans(graphs.text, first, first + 1)
    means = np.zeros(len(first)) if idf is None else idf.means(block, words)
    order = best_first(graphs.text, score, means, first, first + 1)
    sizes = np.diff(graphs.offsets)[graphs.text]
    kept = np.zeros(len(first), dtype=bool)
    # Sorting keeps texts where they are, so a place in the order tells the rank within the text.
    kept[order] = np.arange(len(order)) - graphs.offsets[graphs.text] < -(-sizes // 3)
    return kept


def _runs(block: TokenBlock, graphs: Graphs, kept: np.ndarray) -> tuple[Spans, np.ndarray, np.ndarray]:
    """Return the runs of neighbouring kept tokens, across spaces, and run and node of each member token."""
    visible = np.flatnonzero(block.matching(is_visible) | block.matching(parts_paragraphs))
    node = graphs.node_of[visible]
    inside = np.flatnonzero((node >= 0) & np.append(kept, False)[node])
    places, text = visible[inside], block.text[visible[inside]]
    joined = (np.diff(inside) == 1) & (np.diff(text) == 0)
    opens = np.append(True, ~joined)[:len(inside)]
    closes = np.append(~joined, True)[:len(inside)]
    return Spans(text[opens], places[opens], places[closes] + 1), np.cumsum(opens) - 1, node[inside]


def _package(block: TokenBlock, settings: Settings, idf: InverseFrequency | None,
             personalise: Callable[[TokenBlock, Graphs, Settings], np.ndarray]) -> Solved:
    graphs = lemma_graphs(block, settings.span, settings.as_package)
    scores = _pagerank(graphs, personalise(block, graphs, settings), settings)
    return Solved(graphs, scores, np.ones(len(scores.score), dtype=bool), block.chunks,
                  _discounted(block.chunks, graphs, scores.score), as_package=settings.as_package)


def _pagerank(graphs: Graphs, personalisation: np.ndarray, settings: Settings) -> Scores:
    """Return PageRank summing to 1 over each text: the scores of the system without the return from isolated nodes,
    scaled to sum to 1 (Langville and Meyer 2004)."""
    if settings.as_package:
        return solve_as_networkx(graphs, personalisation, settings.damping, settings.max_iterations)
    scores = solve(graphs, (1 - settings.damping) * personalisation, settings.damping, settings.tolerance,
                   settings.max_iterations)
    total = sum_by(graphs.text, scores.score, len(graphs.offsets) - 1)
    share = np.divide(1.0, total, out=np.ones_like(total), where=total > 0)
    return Scores(scores.score * share[graphs.text], scores.iterations, scores.residual * share, scores.converged)


def _discounted(spans: Spans, graphs: Graphs, score: np.ndarray) -> np.ndarray:
    """Score spans as the package does: ``sqrt(sum / (n + m)) * n / (n + 2 m + 1)``, m of n tokens being no nodes."""
    span, places = spans.members()
    node = graphs.node_of[places]
    inside = node >= 0
    total = sum_by(span[inside], score[node[inside]], len(spans))
    length = (spans.end - spans.start).astype(np.float64)
    others = np.bincount(span[~inside], minlength=len(spans))
    return np.sqrt(total / (length + others)) * (length / (length + (2.0 * others) + 1.0))


def _by_focus(block: TokenBlock, graphs: Graphs, settings: Settings) -> np.ndarray:
    """Weigh equally the nodes that match the focus by word or lemma, and others by 0; without a match, all equally."""
    uniform = 1 / np.diff(graphs.offsets)[graphs.text]
    words = frozenset(part for word in settings.focus.lower().split() for part in (word, *word.split("-")) if part)
    if not words:
        return uniform
    places = np.flatnonzero(graphs.node_of >= 0)
    named = np.zeros(len(uniform))
    for column in (block.tokens, block.column("lemma")):
        codes, forms = encode(column.take(pa.array(places)), str.lower)
        named[graphs.node_of[places[np.array([form in words for form in forms], dtype=bool)[codes]]]] = 1.0
    total = sum_by(graphs.text, named, len(graphs.offsets) - 1)[graphs.text]
    return np.where(total > 0, named / np.maximum(total, 1.0), uniform)


def _by_position(block: TokenBlock, graphs: Graphs, settings: Settings) -> np.ndarray:
    """Weigh the nodes of each lemma by the sum of 1 / position over its kept tokens, as in the package."""
    places = np.flatnonzero(graphs.node_of >= 0)
    text = block.text[places]
    codes, known = encode(block.column("lemma").take(pa.array(places)))
    key, lemma = np.unique(text * max(len(known), 1) + codes, return_inverse=True)
    begin = np.searchsorted(text, np.arange(len(graphs.offsets) - 1))
    weight = sum_by(lemma, 1 / (np.arange(len(places)) - begin[text] + 1), len(key))
    of_text = key // max(len(known), 1)
    # The package sums in ascending order.
    order = np.lexsort((weight, of_text))
    total = sum_by(of_text[order], weight[order], len(graphs.offsets) - 1)
    by_node = np.empty(int(graphs.offsets[-1]))
    by_node[graphs.node_of[places]] = (weight / total[of_text])[lemma]
    return by_node / sum_by(graphs.text, by_node, len(graphs.offsets) - 1)[graphs.text]


def keyness(block: TokenBlock, spans: Spans, idf: InverseFrequency | None) -> np.ndarray:
    """Score occurrences of phrases: ``sqrt(tf) * sum of IDF / (10 + first place) ** (1 / 4)``, (spans,).

    The sum is over words (1 each without an IDF); tf counts occurrences in the text; the place is of the first token.
    """
    if not len(spans):
        return np.zeros(0)
    span, places = spans.members()
    codes, words = encode(block.tokens.take(pa.array(places)), str.lower)
    worded = np.array([any(map(str.isalnum, word)) for word in words])
    value = np.where(worded, 1.0 if idf is None else idf.values(words), 0.0)
    total = sum_by(span, value[codes], len(spans))
    form, forms = encode(span_text(block, spans), normal_form)
    _, first, same, count = np.unique(spans.text * max(len(forms), 1) + form, return_index=True, return_inverse=True,
                                      return_counts=True)
    place = (spans.start - block.offsets[spans.text])[first][same]
    # Roots, not powers: a vectorised power may differ in the last bit, by the place of a value in its array.
    return total * np.sqrt(count[same]) / np.sqrt(np.sqrt(_HEAD + place))


def without_graph(block: TokenBlock, spans: Spans, score: np.ndarray, scrub: bool = True) -> Solved:
    """Return the result of a ranking without a graph: nodes are the words of spans, each with its best span's score."""
    span, places = spans.members()
    codes, words = encode(block.tokens.take(pa.array(places)), str.lower)
    order = np.argsort(places, kind="stable")
    span, places, codes = span[order], places[order], codes[order]
    nodes, offsets = number_nodes(block.text[places], codes, len(words), block.table.num_rows)
    node_of = np.full(len(block.text), -1, dtype=np.int64)
    node_of[places] = nodes
    best = np.zeros(int(offsets[-1]))
    np.maximum.at(best, nodes, score[span])
    none, texts = np.zeros(0, dtype=np.int64), np.zeros(len(offsets) - 1)
    scores = Scores(best, texts.astype(np.int64), texts, np.ones(len(texts), dtype=bool))
    return Solved(Graphs(offsets, node_of, none, none, none.astype(np.float64)), scores,
                  np.ones(len(best), dtype=bool), spans, score, False, scrub)


Method = Callable[[TokenBlock, Settings, InverseFrequency | None], Solved]
METHODS: dict[str, Method] = {
    "mihalcea": _mihalcea,
    "pytextrank": partial(_package, personalise=_by_focus),
    "positionrank": partial(_package, personalise=_by_position),
    "tfidf": lambda block, settings, idf: without_graph(block, block.chunks, keyness(block, block.chunks, idf)),
}
