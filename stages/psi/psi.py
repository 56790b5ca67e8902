"""Score the words of every source text by paired semantic importance (IANet).

Table psi has one row per source text paired with itself (mode xx) and one per source and reference (mode xy; the
target is the first one). If ``keywords.method`` is psi, every other text also has a row of mode xx.

v(X) is the largest value among the words of X in each of D coordinates. F(X, Y) is the Spearman correlation of v(X)
and v(Y). The importance of a word is the share of F that is lost without it,

    G(x_i; X, Y) = (F(X, Y) - F(X without x_i, Y)) / F(X, Y).

Without x_i, v(X) changes only where x_i alone is the largest, to the second largest value; so one pass over the words
gives every v(X without x_i). Coordinates are ranked by sorting 64-bit keys whose high bits order like the value and
whose low bits are the number of the coordinate. Sums over ranks are sums of integers, so scores do not depend on
the other texts of a batch.

Coordinates rank by value, then by their number, and F = 1 - 6 sum d^2 / (D (D^2 - 1)).

F with a text without words is 0, hence G = 1 for the word of a one-word text. Where |F(X, Y)| < 1e-6, G = 0 for every
word of a text of two or more, since the quotient has no bound.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.progress import progress
from stages.common.examples import MODES, source_pairs
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES, PSI, WORD_VECTORS
from stages.common.tables import Provenance, read_batches, read_metadata, read_table, table_writer
from stages.common.text_tables import TOKENS
from stages.psi.texts import Texts, VectorTable, read_texts
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.psi.params import Psi

STAGE = "psi"
CHUNK = 8192  # rows of table tokens; decides the row groups of what is written
NO_SIMILARITY = 1e-6
# Numbers in one intermediate array: a mebibyte of ranks, so that a few of them stay in the processor's cache.
_BLOCK = 1 << 17
_REQUESTS = 2048


def run(tokens: Callable[[], Iterable[pa.Table]], examples: pa.Table, vectors: VectorTable, params: "Psi",
        every: bool = False) -> Iterator[pa.Table]:
    """Yield the rows of table ``psi``, sorted, one piece per piece of ``tokens`` that has a text to be scored.

    ``tokens`` returns the pieces of table ``tokens`` and is called twice. With ``every`` each of its texts is scored
    beside itself, not only sources. Scores do not depend on the pieces.
    """
    texts = read_texts(tokens(), vectors.numbers)
    pairs = source_pairs(examples, params.modes, texts.ids if every else None)
    firsts, seconds = texts.positions(pairs[:, [0, 2]].T)
    done = 0
    for batch in tokens():
        cut = slice(*np.searchsorted(firsts, [done, done + batch.num_rows]))
        if cut.start < cut.stop:
            yield _scored(batch["token"].take(pa.array(firsts[cut] - done)), pairs[cut], texts, firsts[cut],
                          seconds[cut], vectors.matrix, params)
        done += batch.num_rows


def _scored(words: pa.ChunkedArray, pairs: np.ndarray, texts: Texts, firsts: np.ndarray, seconds: np.ndarray,
            vectors: np.ndarray, params: "Psi") -> pa.Table:
    result = importance(vectors, texts, firsts, seconds)
    # 0 - 0 / F is -0 for negative F; one zero is enough.
    scores, offsets = result.scores + 0.0, pa.array(result.offsets, pa.int32())
    return pa.table({"text_id": pairs[:, 0], "mode": np.array(MODES)[pairs[:, 1]], "pair": pairs[:, 2], "word": words,
                     "score": pa.ListArray.from_arrays(offsets, pa.array(scores)),
                     "primary": pa.ListArray.from_arrays(offsets, pa.array(scores > params.alpha))})


def counts(rows: pa.Table) -> dict[str, int]:
    """Return the counts for the metadata of one piece of table ``psi``; pieces add up."""
    totals: dict[str, int] = {}
    for mode in sorted(set(rows["mode"].to_pylist())):
        of_mode = rows.filter(pc.equal(rows["mode"], mode))
        primary = pc.list_flatten(of_mode["primary"])
        totals |= {f"rows_{mode}": of_mode.num_rows, f"words_{mode}": len(primary),
                   f"primary_{mode}": int(pc.sum(primary).as_py() or 0)}
    return totals


@dataclass(frozen=True)
class Importance:
    """Scores of requests ``(X, Y)``.

    Attributes:
        similarity: F(X, Y) of each request (R,).
        offsets: request r has the scores ``scores[offsets[r]:offsets[r + 1]]`` (R + 1,).
        scores: G of each word of X.
    """

    similarity: np.ndarray
    offsets: np.ndarray
    scores: np.ndarray


def importance(vectors: np.ndarray, texts: Texts, firsts: np.ndarray, seconds: np.ndarray) -> Importance:
    """Return G of every word of the texts at the positions ``firsts`` (R,), against those at ``seconds`` (R,).

    ``texts`` has words as rows of ``vectors`` (V, D), which are finite; fewer than two coordinates are a
    ``ValueError``.
    """
    if vectors.ndim != 2 or vectors.shape[1] < 2:
        raise ValueError(f"vectors must be a matrix of two or more columns, found the shape {vectors.shape}")
    offsets = np.concatenate([[0], np.cumsum(texts.lengths[firsts])]).astype(np.int64)
    result = Importance(np.zeros(len(firsts)), offsets, np.zeros(offsets[-1]))
    for start in range(0, len(firsts), _REQUESTS):
        _score(vectors, texts, firsts, seconds, np.arange(start, min(start + _REQUESTS, len(firsts))), result)
    return result


def _score(vectors: np.ndarray, texts: Texts, firsts: np.ndarray, seconds: np.ndarray, requests: np.ndarray,
           result: Importance) -> None:
    """Fill in the scores of ``requests``."""
    used, place = np.unique(seconds[requests], return_inverse=True)
    ranked = _text_ranks(vectors, texts, used)
    sources, owner = np.unique(firsts[requests], return_inverse=True)
    by_source = np.argsort(owner, kind="stable")  # requests of source s: by_source[starts[s]:starts[s + 1]]
    starts = np.searchsorted(owner[by_source], np.arange(len(sources) + 1))
    for group in _equal_lengths(texts.lengths[sources], vectors.shape[1]):
        own = np.concatenate([by_source[starts[source]:starts[source + 1]] for source in group])
        number = np.repeat(np.arange(len(group)), (starts[group + 1] - starts[group]))
        block = _Block(vectors[texts.rows(sources[group]).T])
        similarity, scores = block.scores(number, ranked.take(place[own]))
        result.similarity[requests[own]] = similarity
        into = result.offsets[requests[own]][:, None] + np.arange(scores.shape[1])
        result.scores[into] = scores


def _equal_lengths(lengths: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Yield positions of equal length above 0, so few at a time that an array over their words stays small."""
    order = np.argsort(lengths, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        length = int(lengths[group[0]]) if len(group) else 0
        if length:
            size = max(1, _BLOCK // (length * width))
            yield from np.split(group, range(size, len(group), size))


def _text_ranks(vectors: np.ndarray, texts: Texts, positions: np.ndarray) -> "_Ranks":
    """Return the ranks of v(X) of texts (T, D); all zero for a text without words."""
    per_text = _Ranks(np.zeros((len(positions), vectors.shape[1])), np.zeros(len(positions)))
    for group in _equal_lengths(texts.lengths[positions], vectors.shape[1]):
        ranked = _Ranks.of(vectors[texts.rows(positions[group]).T].max(axis=0))
        per_text.ranks[group], per_text.squares[group] = ranked.ranks, ranked.squares
    return per_text


class _Block:
    """Texts of one length, and the same texts without each of their words, ranked once for all comparisons."""

    def __init__(self, words: np.ndarray) -> None:
        """Take the vectors of each word in turn (n, B, D), n >= 1."""
        self.length = len(words)
        best, runner_up = _two_largest(words)  # (B, D) each
        self.whole = _Ranks.of(best)
        leads = words == best  # (n, B, D)
        changed = (leads & (best > runner_up)).any(axis=2)
        self.text, self.word = np.nonzero(changed.T)  # (K,) words without which v(X) is another
        # Where two words share the lead, the runner-up is as large.
        self.without = _Ranks.of(np.where(leads, runner_up, best)[self.word, self.text])  # (K, D)

    def scores(self, text: np.ndarray, seconds: "_Ranks") -> tuple[np.ndarray, np.ndarray]:
        """Return F (R,) and G (R, n) of texts number ``text`` (R,) against ``seconds`` (R, D)."""
        requests = np.arange(len(text))
        similarity = _correlation(self.whole, text, seconds, requests)
        if self.length == 1:
            return similarity, np.ones((len(text), 1))
        first, count = np.searchsorted(self.text, text), np.bincount(self.text, minlength=len(self.whole.ranks))[text]
        count[np.abs(similarity) < NO_SIMILARITY] = 0
        request = np.repeat(requests, count)
        row = np.arange(len(request)) - np.repeat(np.cumsum(count) - count, count) + first[request]
        without = _correlation(self.without, row, seconds, request)
        scores = np.zeros((len(text), self.length))
        scores[request, self.word[row]] = (similarity[request] - without) / similarity[request]
        return similarity, scores


def _two_largest(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest and second largest of (n, ...) along the first axis; -inf for the second of one."""
    best, runner_up = words[0].copy(), np.full_like(words[0], -np.inf)
    for word in words[1:]:
        np.maximum(runner_up, np.minimum(best, word), out=runner_up)
        np.maximum(best, word, out=best)
    return best, runner_up


@dataclass(frozen=True)
class _Ranks:
    """Centred ranks of vectors (R, D), and the sum of squares of each row (R,), 0 where there is no order."""

    ranks: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> "_Ranks":
        """Rank each row of ``values`` (R, D)."""
        ranks = centred_ranks(values)
        return cls(ranks, np.einsum("rd,rd->r", ranks, ranks))

    def take(self, rows: np.ndarray) -> "_Ranks":
        """Return some rows, in the order given."""
        return _Ranks(self.ranks[rows], self.squares[rows])


def _correlation(firsts: _Ranks, first: np.ndarray, seconds: _Ranks, second: np.ndarray) -> np.ndarray:
    """Return the rank correlation of rows ``first`` with rows ``second`` (P,); 0 where a row has no order."""
    product = np.einsum("rd,rd->r", firsts.ranks[first], seconds.ranks[second])
    squares, others = firsts.squares[first], seconds.squares[second]
    width = firsts.ranks.shape[1]
    differences = (squares + others - 2 * product) / 4  # sum of d^2, an integer
    return np.where((squares > 0) & (others > 0), 1 - 6 * differences / (width * (width**2 - 1)), 0.0)


def centred_ranks(values: np.ndarray) -> np.ndarray:
    """Return twice the rank of each value in its row, less the mean: integers that add up to 0 (R, D).

    ``values`` (R, D) are float32, finite and without negative zeros.
    """
    width = values.shape[1]
    bits = np.ascontiguousarray(values).view(np.int32)
    # As integers, negative floats are in reverse order; flipping all bits but the sign corrects it.
    keys = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    shift = max(1, (width - 1).bit_length())
    keys <<= shift
    keys |= np.arange(width)
    keys.sort(axis=1)
    column = keys & ((1 << shift) - 1)
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, column, 2.0 * np.arange(width)[None] - (width - 1), axis=1)
    return ranks


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    vectors = VectorTable.from_arrow(read_table(paths.table("word_vectors"), WORD_VECTORS))
    provenance = Provenance(process.name, process.params_hash,
                            read_metadata(paths.table("word_vectors")).get("models", {}))
    pieces = run(lambda: read_batches(paths.table("tokens"), TOKENS, ["text_id", "token"], CHUNK),
                 read_table(paths.table("examples"), EXAMPLES, ["source_id", "reference_ids"]), vectors, params.psi,
                 params.keywords.method == STAGE)
    total: Counter[str] = Counter()
    with table_writer(paths.table(STAGE), PSI, provenance) as writer:
        for piece in progress(pieces, process.name, unit="chunk"):
            writer.write(piece)
            total.update(counts(piece))
        provenance.counts = dict(total)


main = partial(run_stage, STAGE, _work)
