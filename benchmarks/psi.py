"""Paired semantic importance: whole tables at once, beside the equations followed text by text."""

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from scipy.stats import spearmanr

from benchmarks.harness import Context, Disagreement, Section, compare, peak_memory
from stages.psi.importance.psi import NO_LIKENESS, importance
from stages.psi.importance.texts import read_texts
from stages.psi.importance.vectors import UNKNOWN, VectorTable

_WIDTH = 300  # as of the fastText vectors that IANet uses
_SEED = 13

Likeness = Callable[[np.ndarray, np.ndarray], float]


def run(context: Context) -> list[Section]:
    """Compare both kinds of ties.

    Every text is compared with itself and with the next one. Vectors are random, 300 wide: what they mean has no
    part in what they cost.
    """
    texts = _drawn(40 if context.quick else 2000)
    some = texts[:40 if context.quick else 1000]
    sections = [_section(some, "ordinal", "NumPy, text by text", _ordinal_likeness, context.repeats),
                _section(some[:max(2, len(some) // 4)], "average", "scipy.stats.spearmanr, text by text",
                         _average_likeness, context.repeats)]
    return [*sections, _growth(context)]


def _section(texts: list[list[str]], ties: str, peer: str, likeness: Likeness, repeats: int) -> Section:
    table, tokens = _table(texts), pa.table({"text_id": range(len(texts)), "token": texts})
    vectors = dict(zip(table.words, table.matrix[:-1], strict=True))

    def ours() -> list[np.ndarray]:
        return _whole(tokens, table, ties)

    def theirs() -> list[np.ndarray]:
        return _text_by_text(texts, vectors, likeness)

    gap = max(float(np.abs(a - b).max(initial=0)) for a, b in zip(ours(), theirs(), strict=True))
    if gap > 1e-9:
        raise Disagreement(f"psi, {ties} ties: scores differ by up to {gap:.3g}")
    requests, words = 2 * len(texts), 2 * sum(map(len, texts))
    workload = (f"{requests} requests (text, text), {words / requests:.1f} words each, {_WIDTH}-wide vectors, one "
                f"thread; from token lists and vectors in memory to scores")
    return Section(f"Ties: {ties}", workload, f"largest difference of {words} scores: {gap:.2g}",
                   compare({"ours, whole table": ours, peer: theirs}, repeats, items=requests, unit="requests"),
                   ["The other side follows the equations as they stand: for every word left out it takes the maximum "
                    "over the rest, ranks both texts and correlates the ranks."])


def _growth(context: Context) -> Section:
    """Time and memory over the number of texts."""
    rows = []
    for count in (20, 40) if context.quick else (1000, 4000, 16000):
        texts = _drawn(count)
        table, tokens = _table(texts), pa.table({"text_id": range(count), "token": texts})
        started = time.perf_counter()
        _whole(tokens, table, "ordinal")
        seconds = time.perf_counter() - started
        rows.append({"texts": count, "seconds": round(seconds, 3), "requests per second": round(2 * count / seconds),
                     "peak MiB": round(peak_memory(score_drawn, count), 1)})
    return Section("Growth", "ordinal ties, two requests a text, 5 to 18 words each", "as in the first section", [],
                   ["The memory is of a fresh process: texts, a 20,000-word table of vectors and scores included."],
                   rows)


def score_drawn(count: int) -> None:
    """Score ``count`` drawn texts, for the measuring of memory."""
    texts = _drawn(count)
    _whole(pa.table({"text_id": range(count), "token": texts}), _table(texts), "ordinal")


def _whole(tokens: pa.Table, vectors: VectorTable, ties: str) -> list[np.ndarray]:
    texts = read_texts([tokens], vectors.numbers)
    firsts, seconds = _requests(len(texts.ids))
    found = importance(vectors.matrix, texts, firsts, seconds, ties)
    return [found.of(request) for request in range(len(firsts))]


def _requests(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each text twice: with itself, with the next."""
    firsts = np.repeat(np.arange(count), 2)
    return firsts, (firsts + np.arange(2 * count) % 2) % count


def _text_by_text(texts: list[list[str]], vectors: dict[str, np.ndarray], likeness: Likeness) -> list[np.ndarray]:
    unknown = np.full(_WIDTH, UNKNOWN, dtype=np.float32)
    words = [np.array([vectors.get(word.lower(), unknown) for word in text]) for text in texts]
    return [_importance(words[first], words[second], likeness)
            for first, second in zip(*_requests(len(texts)), strict=True)]


def _importance(first: np.ndarray, second: np.ndarray, likeness: Likeness) -> np.ndarray:
    """Return G of each word of ``first`` (n, D), by its equation."""
    if len(first) < 2:
        return np.ones(len(first))
    other = second.max(axis=0)
    whole = likeness(first.max(axis=0), other)
    if abs(whole) < NO_LIKENESS:
        return np.zeros(len(first))
    return np.array([(whole - likeness(np.delete(first, word, axis=0).max(axis=0), other)) / whole
                     for word in range(len(first))])


def _ordinal_likeness(first: np.ndarray, second: np.ndarray) -> float:
    ranks = [values.argsort(kind="stable").argsort() for values in (first, second)]
    return float(1 - 6 * np.sum((ranks[0] - ranks[1]) ** 2) / (_WIDTH * (_WIDTH**2 - 1)))


def _average_likeness(first: np.ndarray, second: np.ndarray) -> float:
    return float(spearmanr(first, second).statistic)


def _drawn(count: int) -> list[list[str]]:
    """Draw texts of 5 to 18 words, the frequent ones of 20,000 words frequently."""
    random = np.random.default_rng(_SEED)
    return [[f"w{word}" for word in (20_000 * random.power(0.3, length)).astype(int)]
            for length in random.integers(5, 19, count)]


def _table(texts: list[list[str]]) -> VectorTable:
    words = sorted({word.lower() for text in texts for word in text})
    return VectorTable(words, np.random.default_rng(_SEED).normal(size=(len(words), _WIDTH)).astype(np.float32))
