"""Components of spaCy with pytextrank's interface, several times as fast.

    nlp.add_pipe("keycontrast_textrank")                    # in place of nlp.add_pipe("textrank")
    nlp("A red ball.")._.phrases[0].text

Documents get ``doc._.phrases`` (phrases with ``text``, ``rank``, ``count`` and ``chunks``) and ``doc._.textrank``,
whose summaries, unit vectors and plots are the package's own. Phrases and ranks are the package's, to rounding; phrases
whose ranks agree to nine digits are sorted by their texts. The graph of networkx is made when it is first read. The
engine of :mod:`keycontrast.ranking` is faster for many texts at once, and slower for one.
"""

import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from networkx import PowerIterationFailedConvergence
from scipy.sparse import csr_array
from spacy.language import Language
from spacy.symbols import IDS
from spacy.tokens import Doc

from keycontrast.text.pipelines import noun_chunks

if TYPE_CHECKING:
    import pytextrank as _package
    from spacy.tokens import Span
else:
    from keycontrast.ranking.package import pytextrank as _package  # imported in silence

# Lemma and part of speech, as spaCy's numbers, and the node's own number.
Nodes = dict[tuple[int, int], int]
_DEFAULTS: dict[str, Any] = {"edge_weight": 1.0, "pos_kept": ["ADJ", "NOUN", "PROPN", "VERB"], "token_lookback": 3,
                             "scrubber": None, "stopwords": None}
_ATTRIBUTES: list[int | str] = ["LEMMA", "POS", "SENT_START"]
_DIGITS = 9
# Of networkx, with which the package ranks.
_DAMPING, _ITERATIONS, _TOLERANCE = 0.85, 100, 1e-6
_DENSE = 128  # nodes up to which a full matrix is faster than a sparse one


def _when_asked(name: str) -> property:
    """Return an attribute of the package's graph, which is made when it is first read."""

    def get(self: Any) -> Any:
        if not self.graph_made:
            self.graph_made = True
            super(_Ranked, self).calc_textrank()
        return self.__dict__[name]

    return property(get, lambda self, value: self.__dict__.update({name: value}))


class _Ranked:
    """A base before the package's classes: the same phrases without a graph of networkx."""

    graph_made = False
    _restart: Callable[..., np.ndarray | None]  # weights of the nodes in a restart; None weighs all alike
    lemma_graph = _when_asked("lemma_graph")
    ranks = _when_asked("ranks")
    seen_lemma = _when_asked("seen_lemma")

    def calc_textrank(self) -> list[Any]:
        """Return the phrases of the document, best first."""
        own: Any = self
        began = time.perf_counter()
        self.graph_made = False
        rows = own.doc.to_array(_ATTRIBUTES).reshape(-1, len(_ATTRIBUTES)).tolist()
        kept = {IDS[name] for name in own.pos_kept if name in IDS}
        nodes, node_of, sentences = _nodes(rows, kept, own.doc, own.stopwords)
        places = [(lemma, (lemma, pos)) for lemma, pos, _ in rows if pos in kept]
        rank = _ranks(len(nodes), _edges(sentences, own.token_lookback), self._restart(nodes, places))
        phrases = self._grouped(rank, node_of, [row[1] in kept for row in rows])
        own.elapsed_time = 1000 * (time.perf_counter() - began)
        return phrases

    def _grouped(self, rank: list[float], node_of: list[int], kept: list[bool]) -> list[Any]:
        """Return a phrase for each group of noun chunks and entities whose text is equal after scrubbing."""
        own: Any = self
        groups: dict[str, tuple[list[Span], list[float]]] = {}
        for span in _spans(own.doc):
            inside = node_of[span.start:span.end]
            length, others = len(inside), kept[span.start:span.end].count(False)
            total = sum(rank[node] for node in inside if node >= 0)
            score = (total / (length + others)) ** 0.5 * (length / (length + (2.0 * others) + 1.0)) if length else 0.0
            chunks, ranks = groups.setdefault(own.scrubber(span), ([], []))
            chunks.append(span)
            ranks.append(score)
        phrases = [_package.Phrase(text, chunks, len(chunks), max(ranks)) for text, (chunks, ranks) in groups.items()]
        return sorted(phrases, key=lambda phrase: (-round(phrase.rank, _DIGITS), phrase.text))


class _TextRank(_Ranked, _package.BaseTextRank):
    def _restart(self, nodes: Nodes, places: list[tuple[int, tuple[int, int]]]) -> None:
        return None


class _PositionRank(_Ranked, _package.PositionRank):
    def _restart(self, nodes: Nodes, places: list[tuple[int, tuple[int, int]]]) -> np.ndarray:
        """Weigh a node by 1 / place, summed over all places of its lemma."""
        of_lemma: dict[int, float] = {}
        for place, (lemma, _) in enumerate(places, 1):
            of_lemma[lemma] = of_lemma.get(lemma, 0.0) + 1 / place
        weights = np.array([of_lemma[lemma] for lemma, _ in nodes])
        return weights / weights.sum()


def _nodes(rows: list[list[int]], kept: set[int], doc: Doc, stopwords: Any,
           ) -> tuple[Nodes, list[int], list[list[int]]]:
    """Return nodes by lemma and part of speech, the node of each token (-1: none), and the nodes by sentence."""
    nodes: Nodes = {}
    node_of, sentences = [-1] * len(rows), [list[int]()]
    for place, (lemma, pos, opens) in enumerate(rows):
        if opens == 1:
            sentences.append([])
        if pos not in kept:
            continue
        if stopwords and doc[place].pos_ in stopwords.get(doc[place].lemma_.lower().strip(), ()):
            continue
        node_of[place] = node = nodes.setdefault((lemma, pos), len(nodes))
        sentences[-1].append(node)
    return nodes, node_of, sentences


def _edges(sentences: list[list[int]], lookback: int) -> dict[tuple[int, int], int]:
    """Return how often two nodes follow each other: of two directions, the one that was first met later counts."""
    directed: dict[tuple[int, int], int] = {}
    for sentence in sentences:
        for hop in range(1, lookback + 1):
            for pair in zip(sentence, islice(sentence, hop, None), strict=False):
                directed[pair] = directed.get(pair, 0) + 1
    return {(min(pair), max(pair)): count for pair, count in directed.items()}


def _ranks(size: int, edges: dict[tuple[int, int], int], restart: np.ndarray | None) -> list[float]:
    """Return PageRank as networkx iterates it."""
    if not size:
        return []
    pairs = np.array(list(edges), np.int64).reshape(-1, 2)
    count = np.fromiter(edges.values(), np.float64, len(edges))
    apart = pairs[:, 0] != pairs[:, 1]
    row, column = np.concatenate([pairs, pairs[apart][:, ::-1]]).T
    count = np.concatenate([count, count[apart]])
    total = np.bincount(row, count, size)
    towards = np.full(size, 1.0 / size) if restart is None else restart
    weight = _DAMPING * count / total[row]
    if size > _DENSE:
        step: Any = csr_array((weight, (column, row)), (size, size))
    else:
        step = np.zeros((size, size))
        step[column, row] = weight
    alone = total == 0
    ranks, back = np.full(size, 1.0 / size), (1 - _DAMPING) * towards
    lonely = bool(alone.any())
    for _ in range(_ITERATIONS):
        before = ranks
        ranks = step @ before + back
        if lonely:
            ranks += _DAMPING * before[alone].sum() * towards
        if np.abs(ranks - before).sum() < size * _TOLERANCE:
            return ranks.tolist()
    raise PowerIterationFailedConvergence(_ITERATIONS)


def _spans(doc: Doc) -> "list[Span]":
    """Return noun chunks and entities; a span that is both, with the same label, is returned once."""
    try:
        chunks = list(doc.noun_chunks)
    except NotImplementedError:  # the language has none
        chunks = []
    except ValueError:  # no parser: a saved load_pipeline(), whose noun chunks are not saved with it
        chunks = [doc[first:last] for first, last, _ in noun_chunks(doc)]
    return list(dict.fromkeys([*chunks, *doc.ents]))


class _Component(_package.BaseTextRankFactory):
    of_document: type = _TextRank

    def __call__(self, doc: Doc) -> Doc:
        """Rank the phrases of a document."""
        for name, default in (("textrank", None), ("phrases", [])):
            if not Doc.has_extension(name):
                Doc.set_extension(name, default=default)
        ranked = self.of_document(doc, edge_weight=self.edge_weight, pos_kept=self.pos_kept,
                                  token_lookback=self.token_lookback, scrubber=self.scrubber, stopwords=self.stopwords)
        doc._.textrank, doc._.phrases = ranked, ranked.calc_textrank()
        return doc


class _PositionComponent(_Component):
    of_document = _PositionRank


def _factory(name: str, component: type[_Component]) -> Callable[..., _Component]:
    def make(nlp: Language, name: str, edge_weight: float, pos_kept: list[str], token_lookback: int,
             scrubber: Callable[[Any], str] | None, stopwords: Any | None) -> _Component:
        return component(edge_weight=edge_weight, pos_kept=pos_kept, token_lookback=token_lookback, scrubber=scrubber,
                         stopwords=stopwords)

    return Language.factory(name, default_config=_DEFAULTS)(make)


textrank = _factory("keycontrast_textrank", _Component)
positionrank = _factory("keycontrast_positionrank", _PositionComponent)
