"""Ranking by name: ``rank(tokens, method="pytextrank")``."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from keycontrast.ranking.blocks import TokenBlock, blocks
from keycontrast.ranking.methods import Ranking, Settings, Solved
from keycontrast.ranking.phrases import Phrases, rank_spans
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.text.schemas import PHRASES

STATUSES = ("ok", "empty_text", "no_candidate", "not_converged")


@dataclass
class Report:
    """How a ranking went: what a table of phrases does not tell.

    Attributes:
        texts: number of texts by status.
        iterations: most iterations that a text took; None where there are none, or the engine does not tell.
        residual: largest change of a score at the last step of any text that converged; likewise.
    """

    texts: Counter[str] = field(default_factory=Counter)
    iterations: int | None = None
    residual: float | None = None

    def add(self, other: "Report") -> None:
        """Take in the report of other texts."""
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
    """Rows of table ``textrank`` and how they came about."""

    table: pa.Table
    report: Report


def rank(tokens: pa.Table, method: str = "pytextrank", phrases: int = 5, *, idf: InverseFrequency | None = None,
         **settings: Any) -> pa.Table:
    """Return table ``textrank``, by text id and rank: the first phrases of every text.

        rank(tokens)                                           # TextRank over lemmas, of noun chunks with adjectives
        rank(tokens, "mihalcea")                               # Mihalcea and Tarau's TextRank
        rank(tokens, "pytextrank", compat="pytextrank")        # what the pytextrank package gives

    A text's rows depend on nothing but that text, and on ``idf``, which breaks ties before the position does. A text
    without phrases has one row of rank 0, whose status says why. ``settings`` are those of :class:`Settings`.

    Raises:
        InputError: no method of that name, or settings that do not go together.
        ValueError: ``phrases`` is less than 1.
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
            found = rank_spans(block, solved, idf, phrases)
            status = statuses(block, solved, found)
            report.add(_report(solved, status))
            tables.append(_rows(block, found, status))
        return Ranked(pa.concat_tables(tables).sort_by([("text_id", "ascending"), ("rank", "ascending")]), report)

    return ranked


def statuses(block: TokenBlock, solved: Solved, phrases: Phrases) -> np.ndarray:
    """Return each text's status, as places in :data:`STATUSES`, (texts,)."""
    status = np.where(solved.scores.converged, 0, 3)
    status[np.bincount(phrases.spans.text, minlength=len(status)) == 0] = 2
    status[np.diff(block.offsets) == 0] = 1
    return status


def _rows(block: TokenBlock, phrases: Phrases, status: np.ndarray) -> pa.Table:
    """Return the rows of all texts, those without phrases last."""
    found, names = phrases.spans, pa.array(STATUSES)
    begin = block.offsets[found.text]
    ranked = pa.table({
        "text_id": block.text_ids[found.text], "rank": phrases.rank, "phrase": phrases.phrase,
        "keyword": phrases.keyword, "score": phrases.score, "token_start": found.start - begin,
        "token_end": found.end - begin, "status": names.take(pa.array(status[found.text]))})
    without = np.flatnonzero(np.bincount(found.text, minlength=len(status)) == 0)
    others = pa.table({"text_id": block.text_ids[without], "rank": np.zeros_like(without),
                       "status": names.take(pa.array(status[without]))})
    return pa.concat_tables([ranked, others], promote_options="default").cast(PHRASES)


def _report(solved: Solved, status: np.ndarray) -> Report:
    counts = np.bincount(status, minlength=len(STATUSES)).tolist()
    texts = Counter(dict(zip(STATUSES, counts, strict=True)))
    if not solved.iterated:
        return Report(texts)
    return Report(texts, int(solved.scores.iterations.max(initial=0)),
                  float(solved.scores.residual[solved.scores.converged].max(initial=0.0)))
