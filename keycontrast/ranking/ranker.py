"""Ranking by name: ``rank(tokens, method="pytextrank")``."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.ranking.blocks import Spans, TokenBlock, blocks, encode, run_starts, span_text
from keycontrast.ranking.methods import Ranking, Settings, Solved
from keycontrast.ranking.selection import InverseFrequency, best_first
from keycontrast.text.normal_form import POINT, normal_form
from keycontrast.text.schemas import PHRASES

STATUSES = ("ok", "empty_text", "no_candidate", "not_converged")


@dataclass
class Report:
    """Texts by status; most iterations, and largest last change of those that converged, or None if not known."""

    texts: Counter[str] = field(default_factory=Counter)
    iterations: int | None = None
    residual: float | None = None

    def add(self, other: "Report") -> None:
        """Add the report of other texts."""
        self.texts.update(other.texts)
        if other.iterations is not None and other.residual is not None:
            self.iterations = max(self.iterations or 0, other.iterations)
            self.residual = max(self.residual or 0.0, other.residual)

    def as_counts(self) -> dict[str, Any]:
        """Return plain values for the metadata of an artifact; the residual to three digits."""
        counts: dict[str, Any] = {"texts_by_status": {name: self.texts[name] for name in STATUSES if self.texts[name]}}
        if self.iterations is not None and self.residual is not None:
            counts |= {"iterations": self.iterations, "residual": float(f"{self.residual:.2e}")}
        return counts


@dataclass(frozen=True)
class Ranked:
    """Rows of table ``textrank`` and their report."""

    table: pa.Table
    report: Report


@dataclass(frozen=True)
class Phrases:
    """Ranked phrases of the texts of a block, text by text, best first, each (phrases,).

    ``spans`` are first occurrences; ``rank`` counts from 1; ``phrase`` is as written, ``keyword`` its normal form.
    """

    spans: Spans
    rank: np.ndarray
    score: np.ndarray
    phrase: pa.Array
    keyword: pa.Array


def rank(tokens: pa.Table, method: str = "pytextrank", phrases: int = 5, *, idf: InverseFrequency | None = None,
         **settings: Any) -> pa.Table:
    """Return table ``textrank``, by text id and rank: the first phrases of every text.

        rank(tokens)                                           # TextRank over lemmas, of noun chunks with adjectives
        rank(tokens, "mihalcea")                               # Mihalcea and Tarau's TextRank
        rank(tokens, "pytextrank", compat="pytextrank")        # what the pytextrank package gives

    A text's rows depend on that text alone, and on ``idf``, which breaks ties before the position does. A text without
    phrases has one row of rank 0, whose status says why. ``settings`` are those of :class:`Settings`.
    """
    return ranker(Settings(method, **settings), phrases, idf)(tokens).table


def ranker(ranking: Ranking, phrases: int, idf: InverseFrequency | None = None) -> Callable[[pa.Table], Ranked]:
    """Return the function from token tables to rankings by our engine; see :func:`rank`."""
    if phrases < 1:
        raise ValueError(f"phrases must be at least 1, found {phrases}")

    def ranked(tokens: pa.Table) -> Ranked:
        report = Report()
        tables = [PHRASES.empty_table()]
        for block in blocks(tokens):
            solved = ranking.solve(block, idf)
            rows = rank_spans(block, solved, idf, phrases)
            status = statuses(block, solved, rows)
            texts = Counter(dict(zip(STATUSES, np.bincount(status, minlength=len(STATUSES)).tolist(), strict=True)))
            report.add(Report(texts) if not solved.iterated else Report(
                texts, int(solved.scores.iterations.max(initial=0)),
                float(solved.scores.residual[solved.scores.converged].max(initial=0.0))))
            tables.append(_rows(block, rows, status))
        return Ranked(pa.concat_tables(tables).sort_by([("text_id", "ascending"), ("rank", "ascending")]), report)

    return ranked


def rank_spans(block: TokenBlock, solved: Solved, idf: InverseFrequency | None, limit: int | None) -> Phrases:
    """Rank the phrases whose occurrences were scored, ``limit`` of each text or all.

    Occurrences with the same normal form are one phrase, with the highest of their scores. Order is by score, IDF over
    training texts, position. Those without a normal form, such as a lone apostrophe, are left out.
    """
    written = span_text(block, solved.spans)
    marks = "'" if solved.as_package else "['\u2019]"
    read = pc.replace_substring_regex(written, marks, "") if solved.scrub else written
    if not solved.as_package:
        read = pc.replace_substring_regex(read, POINT.pattern, r"\1\2")
    codes, known = encode(read, str if solved.as_package else normal_form)
    forms = list(map(normal_form, known)) if solved.as_package else known
    named = np.array([bool(form) for form in forms], dtype=bool)[codes]
    places, best = _once(solved.spans, codes, np.flatnonzero(named), solved.score)
    spans = solved.spans.take(places)
    if solved.as_package:
        tie = np.argsort(sorted(range(len(known)), key=known.__getitem__)).astype(np.int64)
        order = np.lexsort((tie[codes[places]], -best, spans.text))
    else:
        means = np.zeros(len(spans)) if idf is None else idf.means(block, spans)
        order = best_first(spans.text, best, means, spans.start, spans.end)
    text = spans.text[order]
    rank = np.arange(len(order)) - np.searchsorted(text, text) + 1
    kept = rank <= (len(rank) if limit is None else limit)
    order, chosen = order[kept], pa.array(places[order[kept]])
    return Phrases(spans.take(order), rank[kept], best[order], written.take(chosen),
                   pa.array(forms, pa.string()).take(pa.array(codes[places[order]])))


def _once(spans: Spans, codes: np.ndarray, places: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of the first occurrence of each (text, code) among ``places``, and the highest score of all."""
    order = places[np.lexsort((spans.start[places], codes[places], spans.text[places]))]
    opens = np.flatnonzero(run_starts(spans.text[order]) | run_starts(codes[order]))
    return order[opens], np.maximum.reduceat(score[order], opens) if len(order) else score[order]


def statuses(block: TokenBlock, solved: Solved, phrases: Phrases) -> np.ndarray:
    """Return each text's status, as places in :data:`STATUSES`, (texts,)."""
    status = np.where(solved.scores.converged, 0, 3)
    status[np.bincount(phrases.spans.text, minlength=len(status)) == 0] = 2
    status[np.diff(block.offsets) == 0] = 1
    return status


def _rows(block: TokenBlock, phrases: Phrases, status: np.ndarray) -> pa.Table:
    """Return the rows of all texts, those without phrases last."""
    spans, names = phrases.spans, pa.array(STATUSES)
    begin = block.offsets[spans.text]
    ranked = pa.table({
        "text_id": block.text_ids[spans.text], "rank": phrases.rank, "phrase": phrases.phrase,
        "keyword": phrases.keyword, "score": phrases.score, "token_start": spans.start - begin,
        "token_end": spans.end - begin, "status": names.take(pa.array(status[spans.text]))})
    without = np.flatnonzero(np.bincount(spans.text, minlength=len(status)) == 0)
    others = pa.table({"text_id": block.text_ids[without], "rank": np.zeros_like(without),
                       "status": names.take(pa.array(status[without]))})
    return pa.concat_tables([ranked, others], promote_options="default").cast(PHRASES)
