"""Why a text got its keyword: tokens, candidates, graph, scores, phrases and the choice, in one dataclass.

    explanation = explain(tokens.slice(0, 1), idf=idf)
    explanation.keyword, explanation.reason

The scores are the engine's own: :func:`explain` runs the same steps as ``stages.ranking.rank`` on one text.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stages.artifacts.schemas import SCHEMAS
from stages.ranking.blocks import TokenBlock
from stages.ranking.choice import choose_keywords
from stages.ranking.methods import TOLERANCE, Settings, Solved, rank_block, solve_block
from stages.ranking.phrases import Phrases, span_text
from stages.ranking.ranker import STATUSES, statuses
from stages.ranking.selection import DIGITS, Choice, InverseFrequency


@dataclass(frozen=True)
class ExplainedToken:
    """A token of the text.

    Attributes:
        text: as written.
        lemma: its lemma.
        pos: universal part of speech (UPOS).
        tag: fine part of speech.
        candidate: whether it passes the method's filter, and so belongs to a node.
        node: place of that node in ``Explanation.nodes``; None for other tokens.
        space_after: whether the text has a space behind it.
    """

    text: str
    lemma: str
    pos: str
    tag: str
    candidate: bool
    node: int | None
    space_after: bool


@dataclass(frozen=True)
class ExplainedNode:
    """A node of the text's graph: a word, a (lemma, part of speech), or for topicrank a topic.

    Attributes:
        word: the node's name.
        score: its score.
        kept: whether phrases may be built from it (mihalcea keeps a third; other methods keep all).
        tokens: places of its tokens in the text.
    """

    word: str
    score: float
    kept: bool
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class ExplainedEdge:
    """An undirected edge between two nodes (places in ``Explanation.nodes``, the smaller first) and its weight."""

    first: int
    second: int
    weight: float


@dataclass(frozen=True)
class ExplainedPhrase:
    """A ranked phrase.

    Attributes:
        rank: 1 for the best.
        phrase: as written at its first occurrence.
        keyword: its normal form.
        score: its score.
        idf: mean inverse document frequency of its tokens; None where no IDF was given.
        start: first token of the first occurrence.
        end: token after its last.
    """

    rank: int
    phrase: str
    keyword: str
    score: float
    idf: float | None
    start: int
    end: int


@dataclass(frozen=True)
class Explanation:
    """Everything that led to a text's keyword.

    Attributes:
        text_id: the text.
        method: ranking method, one of ``stages.ranking.METHODS``.
        compat: ``none`` or ``pytextrank``.
        window: co-occurrence window that was used.
        damping: damping factor that was used.
        status: ``ok``, ``empty_text``, ``no_candidate`` or ``not_converged``.
        tokens: of the text, in order.
        nodes: of the graph, in order of first appearance.
        edges: of the graph, sorted.
        iterations: how many the scores took.
        residual: largest change that one more step of the method's formula would make to a score.
        phrases: all of them, best first.
        keyword: the keyword chosen; ``<nokw>`` where the text has none.
        keyword_method: ``textrank``, ``idf`` (fall-back) or ``none``.
        keyword_score: its score under that method.
        reason: one sentence that says why it won.
    """

    text_id: int
    method: str
    compat: str
    window: int
    damping: float
    status: str
    tokens: tuple[ExplainedToken, ...]
    nodes: tuple[ExplainedNode, ...]
    edges: tuple[ExplainedEdge, ...]
    iterations: int
    residual: float
    phrases: tuple[ExplainedPhrase, ...]
    keyword: str
    keyword_method: str
    keyword_score: float | None
    reason: str


def explain(tokens: pa.Table, method: str = "mihalcea", *, compat: str = "none",
            idf: InverseFrequency | None = None, language: str = "en", damping: float = 0.85,
            tolerance: float = TOLERANCE, max_iterations: int = 100, window: int | None = None,
            focus: str = "") -> Explanation:
    """Explain the keyword of the one text in ``tokens``; arguments as those of ``stages.ranking.rank``.

    Raises:
        ValueError: ``tokens`` has not exactly one row.
        InputError: no such method, or settings that do not go together.
    """
    if tokens.num_rows != 1:
        raise ValueError(f"one text is explained at a time, found {tokens.num_rows}")
    settings = Settings(method, compat, language, damping, tolerance, max_iterations, window, focus)
    block = TokenBlock(tokens)
    solved = solve_block(block, settings, idf)
    ranked = rank_block(block, solved, settings, idf, None)
    phrases = _phrases(ranked, idf)
    choice = _choice(block, phrases, idf)
    return Explanation(
        text_id=int(block.text_ids[0]), method=method, compat=compat, window=settings.span, damping=damping,
        status=STATUSES[statuses(block, solved, ranked)[0]], tokens=_tokens(block, solved),
        nodes=_nodes(block, solved), edges=_edges(solved), iterations=int(solved.scores.iterations[0]),
        residual=float(solved.scores.residual[0]), phrases=phrases, keyword=choice.keyword,
        keyword_method=choice.method, keyword_score=choice.score, reason=_reason(choice, phrases, idf))


def _tokens(block: TokenBlock, solved: Solved) -> tuple[ExplainedToken, ...]:
    columns = [block.column(name).to_pylist() for name in ("token", "lemma", "pos", "tag")]
    nodes = solved.graphs.node_of.tolist()
    return tuple(ExplainedToken(*words, candidate=node >= 0, node=node if node >= 0 else None, space_after=space)
                 for *words, node, space in zip(*columns, nodes, block.space_after.tolist(), strict=True))


def _nodes(block: TokenBlock, solved: Solved) -> tuple[ExplainedNode, ...]:
    """Name nodes: words in lower case, lemma and part of speech, or for topics their first candidate."""
    words, lemmas, parts = (block.column(name).to_pylist() for name in ("token", "lemma", "pos"))
    found = []
    for node, (score, kept) in enumerate(zip(solved.scores.score.tolist(), solved.kept.tolist(), strict=True)):
        places = np.flatnonzero(solved.graphs.node_of == node)
        first = int(places[0])
        name = {"word": words[first].lower(), "lemma": f"{lemmas[first]} {parts[first]}",
                "topic": span_text(block, solved.spans.take(np.array([node])))[0].as_py()
                if solved.nodes_are == "topic" else ""}[solved.nodes_are]
        found.append(ExplainedNode(name, score, kept, tuple(places.tolist())))
    return tuple(found)


def _edges(solved: Solved) -> tuple[ExplainedEdge, ...]:
    graphs = solved.graphs
    return tuple(ExplainedEdge(*row) for row in zip(graphs.first.tolist(), graphs.second.tolist(),
                                                    graphs.weight.tolist(), strict=True))


def _phrases(ranked: Phrases, idf: InverseFrequency | None) -> tuple[ExplainedPhrase, ...]:
    means = [None] * len(ranked.score) if idf is None else ranked.idf.tolist()
    rows = zip(ranked.rank.tolist(), ranked.phrase.to_pylist(), ranked.keyword.to_pylist(), ranked.score.tolist(),
               means, ranked.spans.start.tolist(), ranked.spans.end.tolist(), strict=True)
    return tuple(ExplainedPhrase(*row) for row in rows)


def _choice(block: TokenBlock, phrases: tuple[ExplainedPhrase, ...], idf: InverseFrequency | None) -> Choice:
    """Choose as the stage ``keywords`` does; without an IDF all words count as equally frequent."""
    names = ("text_id", "keyword", "score", "start", "end")
    rows = [(int(block.text_ids[0]), one.keyword, one.score, one.start, one.end) for one in phrases]
    columns = list(zip(*(rows or [(int(block.text_ids[0]), None, None, None, None)]), strict=True))
    ranking = pa.table(dict(zip(names, columns, strict=True)),
                       schema=pa.schema([SCHEMAS["textrank"].arrow().field(name) for name in names]))
    made = choose_keywords(block.table, ranking, "textrank", InverseFrequency(0, Counter()) if idf is None else idf)
    row = made.table.to_pylist()[0]
    return Choice(row["keyword"], row["method"], row["score"])


def _reason(choice: Choice, phrases: tuple[ExplainedPhrase, ...], idf: InverseFrequency | None) -> str:
    if choice.method == "none":
        return "The text has neither a ranked phrase nor a content word, so it has no keyword."
    if choice.method == "idf":
        rarest = "the first" if idf is None else "the one of highest inverse document frequency"
        return f"No phrase was ranked, so of the content words {rarest} was taken: {choice.keyword!r}."
    ranked = [one for one in phrases if one.score > 0]
    score = round(choice.score or 0.0, DIGITS)
    tied = [one for one in ranked if round(one.score, DIGITS) == score]
    if len(tied) == 1:
        second = max((one.score for one in ranked if one not in tied), default=None)
        return f"{choice.keyword!r} is the only phrase." if second is None else \
            f"{choice.keyword!r} has the highest score, {choice.score:.6g}; the next has {second:.6g}."
    others = ", ".join(repr(one.keyword) for one in tied if one.keyword != choice.keyword)
    begin = f"{choice.keyword!r} shares the highest score, {choice.score:.6g}, with {others}"
    best = max((round(one.idf, DIGITS) for one in tied if one.idf is not None), default=None)
    if best is not None and sum(one.idf is not None and round(one.idf, DIGITS) == best for one in tied) == 1:
        return f"{begin}, and has the highest inverse document frequency of them, {best:.6g}."
    return f"{begin}{'' if best is None else ', and the highest inverse document frequency with another'}, and comes " \
           f"first in the text."
