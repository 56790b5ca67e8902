"""Why a text got its keyword: tokens, candidates, graph, scores, phrases and the choice, by the engine's own steps."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from keycontrast.cells import cell, printable
from keycontrast.choice import Choice, words_in
from keycontrast.ranking.blocks import TokenBlock
from keycontrast.ranking.methods import Ranking, Solved
from keycontrast.ranking.ranker import STATUSES, Phrases, rank_spans, ranker, statuses
from keycontrast.ranking.selection import DIGITS, InverseFrequency, choose, phrase_candidates

_right = partial(Column, justify="right")


class ExplainedToken(NamedTuple):
    """A token of the text; a ``candidate`` passes the method's filter, and so belongs to a node."""

    text: str
    lemma: str
    pos: str
    tag: str
    candidate: bool
    node: int | None
    space_after: bool


class ExplainedNode(NamedTuple):
    """A word, or a lemma with its part of speech; phrases are built from those ``kept``, a third under mihalcea."""

    word: str
    score: float
    kept: bool
    tokens: tuple[int, ...]


class ExplainedPhrase(NamedTuple):
    """A ranked phrase as written at its first occurrence, with the mean IDF of its tokens, if one was given."""

    rank: int
    phrase: str
    keyword: str
    score: float
    idf: float | None
    token_start: int
    token_end: int


@dataclass(frozen=True)
class Explanation:
    """The keyword of a text and all that led to it.

    Nodes are in the order of first appearance, phrases best first; edges are two places in ``nodes`` and a weight.
    ``residual`` is the largest change that one more step of the method's formula would make to a score; ``iterations``
    is None where no iteration computes the scores.
    ``keyword`` is ``<nokw>`` where the text has none; ``keyword_method`` is then ``none``, and ``idf`` for a fall-back.
    """

    method: str
    settings: str
    status: str
    tokens: tuple[ExplainedToken, ...]
    nodes: tuple[ExplainedNode, ...]
    edges: tuple[tuple[int, int, float], ...]
    iterations: int | None
    residual: float
    phrases: tuple[ExplainedPhrase, ...]
    keyword: str
    keyword_method: str
    keyword_score: float | None
    reason: str


def explain(tokens: pa.Table, ranking: Ranking, phrases: int = 5, *, method: str = "textrank",
            idf: InverseFrequency | None = None, lemmatize: bool = False, choice: Choice | None = None) -> Explanation:
    """Explain the keyword of the one text in ``tokens``: it is chosen among the best ``phrases``; all are listed.

    With ``choice``, phrases that it leaves out are not listed. ``idf`` is over training texts, and may be None.
    """
    block = TokenBlock(tokens)
    solved = ranking.solve(block, idf)
    ranked = rank_spans(block, solved, idf, None)
    choice = replace(choice or Choice(), top=phrases)
    fitting = [phrase for phrase in _phrases(block, ranked, idf) if choice.fits(
        phrase.keyword, phrase.score, phrase.token_end - phrase.token_start)]
    if (usual := choice.usual) is not None:
        fitting = [phrase for phrase in fitting
                   if words_in(phrase.keyword, phrase.token_end - phrase.token_start) <= usual] or fitting
    listed = tuple(phrase._replace(rank=rank) for rank, phrase in enumerate(fitting, 1))
    # Chosen as the stage `keywords` chooses; without an IDF all words count as equally frequent.
    candidates = phrase_candidates(block, choice.chosen(ranker(ranking, choice.drawn, idf)(tokens).table))
    row = choose(block, *candidates, method, InverseFrequency(0, Counter()) if idf is None else idf,
                 lemmatize).to_pylist()[0]
    keyword, graphs = row["keyword"] or "<nokw>", solved.graphs
    edges = zip(graphs.first.tolist(), graphs.second.tolist(), graphs.weight.tolist(), strict=True)
    return Explanation(
        method=ranking.method, settings=ranking.described,
        status=STATUSES[statuses(block, solved, ranked)[0]], tokens=_tokens(block, solved),
        nodes=_nodes(block, solved, ranking.method), edges=tuple(edges),
        iterations=int(solved.scores.iterations[0]) if solved.iterated else None,
        residual=float(solved.scores.residual[0]), phrases=listed, keyword=keyword, keyword_method=row["method"],
        keyword_score=row["score"],
        reason=_reason(keyword, row["method"], row["score"], listed[:phrases], idf))


def _tokens(block: TokenBlock, solved: Solved) -> tuple[ExplainedToken, ...]:
    columns = [block.column(name).to_pylist() for name in ("token", "lemma", "pos", "tag")]
    nodes = [node if node >= 0 else None for node in solved.graphs.node_of.tolist()]
    rows = zip(*columns, nodes, block.space_after.tolist(), strict=True)
    return tuple(ExplainedToken(word, lemma, pos, tag, node is not None, node, space)
                 for word, lemma, pos, tag, node, space in rows)


def _nodes(block: TokenBlock, solved: Solved, method: str) -> tuple[ExplainedNode, ...]:
    """Return the nodes: words named in lower case, others by lemma and part of speech."""
    node_of = solved.graphs.node_of
    first = pa.array(solved.graphs.first_token)
    if method in ("pytextrank", "positionrank"):
        columns = [block.column(name).take(first).to_pylist() for name in ("lemma", "pos")]
        names = [" ".join(row) for row in zip(*columns, strict=True)]
    else:
        names = [word.lower() for word in block.tokens.take(first).to_pylist()]
    places = np.argsort(node_of, kind="stable")
    # Tokens without a node, numbered -1, come first.
    cuts = np.searchsorted(node_of[places], np.arange(len(names) + 1))
    tokens = [tuple(places[begin:end].tolist()) for begin, end in pairwise(cuts.tolist())]
    rows = zip(names, solved.scores.score.tolist(), solved.kept.tolist(), tokens, strict=True)
    return tuple(ExplainedNode(*row) for row in rows)


def _phrases(block: TokenBlock, ranked: Phrases, idf: InverseFrequency | None) -> tuple[ExplainedPhrase, ...]:
    means = [None] * len(ranked.score) if idf is None else idf.means(block, ranked.spans).tolist()
    rows = zip(ranked.rank.tolist(), ranked.phrase.to_pylist(), ranked.keyword.to_pylist(), ranked.score.tolist(),
               means, ranked.spans.start.tolist(), ranked.spans.end.tolist(), strict=True)
    return tuple(ExplainedPhrase(*row) for row in rows)


def _reason(keyword: str, method: str, score: float | None, phrases: tuple[ExplainedPhrase, ...],
            idf: InverseFrequency | None) -> str:
    if score is None:
        return "The text has neither a ranked phrase nor a content word, so it has no keyword."
    if method == "idf":
        which = "first content word" if idf is None else "content word of highest inverse document frequency"
        return f"No phrase is left to choose, so the keyword is the {which}: {keyword!r}."
    best = round(score, DIGITS)
    tied = [phrase for phrase in phrases if round(phrase.score, DIGITS) == best]
    lower = [phrase.score for phrase in phrases if round(phrase.score, DIGITS) < best]
    if len(tied) == 1 and not lower:
        return f"{keyword!r} is the only phrase."
    if len(tied) == 1:
        return f"{keyword!r} has the highest score, {score:.6g}; the next has {max(lower):.6g}."
    highest = max(round(phrase.idf or 0.0, DIGITS) for phrase in tied)
    rarest = [phrase for phrase in tied if round(phrase.idf or 0.0, DIGITS) == highest]
    winner = min(rarest, key=lambda phrase: (phrase.token_start, phrase.token_end))
    begin = f"{keyword!r} shares the highest score, {score:.6g}, with {_others(tied, winner)}"
    if len(rarest) == 1:
        return f"{begin}; of these it has the highest inverse document frequency, {winner.idf:.6g}."
    if idf is None or len(rarest) == len(tied):
        return f"{begin}; of these it comes first in the text."
    return f"{begin}; it shares the highest inverse document frequency, {winner.idf:.6g}, with " \
           f"{_others(rarest, winner)}, and comes first in the text."


def _others(phrases: list[ExplainedPhrase], winner: ExplainedPhrase) -> str:
    *names, last = [repr(phrase.keyword) for phrase in phrases if phrase is not winner]
    return f"{', '.join(names)} and {last}" if names else last


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Print tokens, graph, phrases and the choice."""
    if explanation.tokens:
        console.print()
        console.print(_token_table(explanation))
    if explanation.nodes:
        console.print()
        console.print(_node_table(explanation))
        ended = "" if explanation.status != "not_converged" else ", not converged"
        if explanation.iterations is not None:
            ended = f": {explanation.iterations} iterations, residual {explanation.residual:.2g}{ended}"
        console.print(Text(explanation.settings + ended, style="dim"))
    if explanation.phrases:
        console.print()
        console.print(_phrase_table(explanation))
    score = "" if explanation.keyword_score is None else f", score {explanation.keyword_score:.6g}"
    console.print(Text(f"\nKeyword: {printable(explanation.keyword)}", style="bold")
                  + Text(f" (by {explanation.keyword_method}{score})"))
    console.print(Text(printable(explanation.reason)))


def _token_table(explanation: Explanation) -> Table:
    shown = Table("", "token", "lemma", "UPOS", "tag", "candidate", title="Tokens", title_justify="left")
    for place, token in enumerate(explanation.tokens):
        node = "" if token.node is None else f"● {printable(explanation.nodes[token.node].word)}"
        shown.add_row(str(place), *map(cell, (token.text, token.lemma, token.pos, token.tag)), Text(node),
                      style=None if token.candidate else "dim")
    return shown


def _node_table(explanation: Explanation) -> Table:
    """Return the candidate graph: each word with its score, and its edges with their weights."""
    beside: dict[int, list[str]] = {place: [] for place in range(len(explanation.nodes))}
    for first, second, weight in explanation.edges:
        for source, other in ((first, second), (second, first)):
            beside[source].append(f"{printable(explanation.nodes[other].word)} ({weight:g})")
    shown = Table("word", _right("score"), "kept", "edges to (weight)", title_justify="left",
                  title=f"Candidate graph: {len(explanation.nodes)} words, {len(explanation.edges)} edges")
    nodes = enumerate(explanation.nodes)
    for place, node in sorted(nodes, key=lambda numbered: (-round(numbered[1].score, 9), numbered[0])):
        shown.add_row(cell(node.word), f"{node.score:.5f}", "yes" if node.kept else "no",
                      Text(", ".join(beside[place]) or "none"), style=None if node.kept else "dim")
    return shown


def _phrase_table(explanation: Explanation) -> Table:
    shown = Table("rank", "phrase", "keyword", _right("score"), _right("mean IDF"), _right("tokens"),
                  title="Ranked phrases", title_justify="left")
    for phrase in explanation.phrases:
        first, last = phrase.token_start, phrase.token_end - 1
        span = str(first) if last == first else f"{first}-{last}"
        shown.add_row(str(phrase.rank), cell(phrase.phrase), cell(phrase.keyword), f"{phrase.score:.5f}",
                      "" if phrase.idf is None else f"{phrase.idf:.3f}", span)
    return shown
