"""Ranking by name: ``rank(tokens, method="pytextrank")``."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.ranking.blocks import TokenBlock, blocks
from keycontrast.ranking.chunks import Chunks
from keycontrast.ranking.methods import TOLERANCE, Ranking, Settings, Solved
from keycontrast.ranking.phrases import Phrases
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


def rank(tokens: pa.Table, method: str = "pytextrank", phrases: int = 5, *, compat: str = "none",
         idf: InverseFrequency | None = None, language: str = "en", damping: float = 0.85,
         tolerance: float = TOLERANCE, max_iterations: int = 100, window: int | None = None,
         chunks: Chunks = "auto") -> pa.Table:
    """Rank the phrases of every text.

        rank(tokens)                                           # TextRank over lemmas, of noun chunks with adjectives
        rank(tokens, "mihalcea")                               # Mihalcea and Tarau's TextRank
        rank(tokens, "pytextrank", compat="pytextrank")        # what the pytextrank package gives

    Args:
        tokens: table ``tokens``, one row per text.
        method: a name in ``METHODS``.
        phrases: phrases kept per text, at least 1.
        compat: ``none``, or ``pytextrank`` to agree with that package phrase for phrase.
        idf: IDF over training texts, which breaks ties before the position does.
        language: ISO 639-1 code of the texts.
        damping: a of the formula.
        tolerance: absolute; iteration stops when no score of a text changes by more.
        max_iterations: after which a text has the status ``not_converged``.
        window: tokens of a co-occurrence window; None is the method's own.
        chunks: noun chunks that are phrases: ``annotated``, with ``adjectives``, or ``auto``.

    Returns:
        Table ``textrank``, by text id and rank. A text's rows depend on nothing but that text (and ``idf``).
        A text without phrases has one row of rank 0, whose status says why.

    Raises:
        InputError: no method of that name, or settings that do not go together.
        ValueError: ``phrases`` is less than 1.
    """
    settings = Settings(method, compat, language, damping, tolerance, max_iterations, window, chunks=chunks)
    return ranker(settings, phrases, idf)(tokens).table


def ranker(ranking: Ranking, phrases: int, idf: InverseFrequency | None = None) -> Callable[[pa.Table], Ranked]:
    """Return the function from token tables to rankings by our engine; see :func:`rank`."""
    if phrases < 1:
        raise ValueError(f"phrases must be at least 1, found {phrases}")

    def ranked(tokens: pa.Table) -> Ranked:
        report = Report()
        tables = [PHRASES.empty_table()]
        for block in blocks(tokens):
            solved = ranking.solve(block, idf)
            rows, status = _rows(block, solved, ranking.phrases(block, solved, idf, phrases))
            report.add(_report(solved, status))
            tables.append(rows)
        return Ranked(pa.concat_tables(tables).sort_by([("text_id", "ascending"), ("rank", "ascending")]), report)

    return ranked


def statuses(block: TokenBlock, solved: Solved, phrases: Phrases) -> np.ndarray:
    """Return each text's status, as places in :data:`STATUSES`, (texts,)."""
    status = np.where(solved.scores.converged, 0, 3)
    status[np.bincount(phrases.spans.text, minlength=len(status)) == 0] = 2
    status[np.diff(block.offsets) == 0] = 1
    return status


def _rows(block: TokenBlock, solved: Solved, phrases: Phrases) -> tuple[pa.Table, np.ndarray]:
    """Return the rows of all texts, those without phrases last, and each text's status."""
    status = statuses(block, solved, phrases)
    found = phrases.spans
    without = np.flatnonzero(np.bincount(found.text, minlength=len(status)) == 0)
    text = np.concatenate([found.text, without])
    begin = block.offsets[found.text]
    columns = {
        "text_id": block.text_ids[text], "rank": _padded(phrases.rank, len(without), 0), "phrase": phrases.phrase,
        "keyword": phrases.keyword, "score": phrases.score, "token_start": found.start - begin,
        "token_end": found.end - begin,
        "status": pa.array(STATUSES).take(pa.array(status[text]))}
    rows = {name: _column(name, values, len(without)) for name, values in columns.items()}
    return pa.table(rows, schema=PHRASES), status


def _padded(values: np.ndarray, more: int, value: int) -> np.ndarray:
    return np.append(values, np.full(more, value, dtype=values.dtype))


def _column(name: str, values: Any, more: int) -> pa.Array:
    """Return ``values`` as the column ``name``, followed by nulls if it does not speak for all texts."""
    kind = PHRASES.field(name).type
    array = pc.cast(values if isinstance(values, pa.Array) else pa.array(values), kind)
    return array if name in ("text_id", "rank", "status") else pa.concat_arrays([array, pa.nulls(more, kind)])


def _report(solved: Solved, status: np.ndarray) -> Report:
    counts = np.bincount(status, minlength=len(STATUSES)).tolist()
    texts = Counter(dict(zip(STATUSES, counts, strict=True)))
    if not solved.iterated:
        return Report(texts)
    return Report(texts, int(solved.scores.iterations.max(initial=0)),
                  float(solved.scores.residual[solved.scores.converged].max(initial=0.0)))
