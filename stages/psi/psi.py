"""Score the words of every source text by paired semantic importance (IANet).

Table psi has one row per source text paired with itself (mode xx) and one per source and reference (mode xy; the
target is the first one). Where it names the keywords of the data set, every other text has a row of mode xx too.

v(X) is the largest value among the words of X in each of D coordinates. F(X, Y) is the Spearman correlation of v(X)
and v(Y). The importance of a word is the share of F that is lost without it,

    G(x_i; X, Y) = (F(X, Y) - F(X without x_i, Y)) / F(X, Y).

Without x_i, v(X) changes only where x_i alone is the largest, to the second largest value.

Ties between coordinates: ``ordinal`` ranks by value, then by number of the coordinate, and takes
F = 1 - 6 sum d^2 / (D (D^2 - 1)); ``average`` gives equals their mean rank: the true Spearman correlation.

F with a text without words is 0, hence G = 1 for the word of a one-word text. Under ``average`` F with a constant
vector is 0. Where |F(X, Y)| < 1e-6, G = 0 for every word of a text of two or more, since the quotient has no bound.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import rankdata

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
NO_LIKENESS = 1e-6
_REMEMBERED = 1 << 14


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
            found = importance(vectors.matrix, texts, firsts[cut], seconds[cut], params.ties)
            # 0 - 0 / F is -0 for negative F; one zero is enough.
            scores, offsets = found.scores + 0.0, pa.array(found.offsets, pa.int32())
            yield pa.table({
                "text_id": pairs[cut, 0], "mode": np.array(MODES)[pairs[cut, 1]], "pair": pairs[cut, 2],
                "word": batch["token"].take(pa.array(firsts[cut] - done)),
                "score": pa.ListArray.from_arrays(offsets, pa.array(scores)),
                "primary": pa.ListArray.from_arrays(offsets, pa.array(scores > params.alpha))})
        done += batch.num_rows


def counts(rows: pa.Table) -> dict[str, int]:
    """Return the counts for the metadata of one piece of table ``psi``; pieces add up."""
    found: dict[str, int] = {}
    for mode in sorted(set(rows["mode"].to_pylist())):
        of_mode = rows.filter(pc.equal(rows["mode"], mode))
        primary = pc.list_flatten(of_mode["primary"])
        found |= {f"rows_{mode}": of_mode.num_rows, f"words_{mode}": len(primary),
                  f"primary_{mode}": int(pc.sum(primary).as_py() or 0)}
    return found


@dataclass(frozen=True)
class Importance:
    """F(X, Y) of requests ``(X, Y)`` as ``likeness`` (R,), and G of each word of X: request r has
    ``scores[offsets[r]:offsets[r + 1]]``."""

    likeness: np.ndarray
    offsets: np.ndarray
    scores: np.ndarray


def importance(vectors: np.ndarray, texts: Texts, firsts: np.ndarray, seconds: np.ndarray,
               ties: str = "ordinal") -> Importance:
    """Return G of every word of the texts at the positions ``firsts`` (R,), against those at ``seconds`` (R,).

    ``texts`` has words as rows of ``vectors`` (V, D), which are finite; fewer than two coordinates are a
    ``ValueError``.
    """
    if vectors.ndim != 2 or vectors.shape[1] < 2:
        raise ValueError(f"vectors must be a matrix of two or more columns, found the shape {vectors.shape}")

    @lru_cache(_REMEMBERED)
    def ranks_of(position: int) -> np.ndarray:
        words = vectors[texts.at(position)]
        return centred_ranks(words.max(axis=0, keepdims=True), ties)[0] if len(words) else np.zeros(vectors.shape[1])

    offsets = np.concatenate([[0], np.cumsum(texts.lengths[firsts])]).astype(np.int64)
    found = Importance(np.zeros(len(firsts)), offsets, np.zeros(offsets[-1]))
    for first in np.unique(firsts[np.diff(offsets) > 0]).tolist():
        ranks = _ranks_without_each(vectors[texts.at(first)], ties)
        for request in np.flatnonzero(firsts == first).tolist():
            whole, *without = _correlation(ranks, ranks_of(int(seconds[request])), ties)
            found.likeness[request] = whole
            if len(ranks) == 1:
                found.scores[offsets[request]] = 1.0
            elif abs(whole) >= NO_LIKENESS:
                found.scores[offsets[request]:offsets[request + 1]] = (whole - np.array(without)) / whole
    return found


def _ranks_without_each(words: np.ndarray, ties: str) -> np.ndarray:
    """Return the centred ranks of v(X) of a text with vectors ``words`` (n, D), and of v(X without x_i) for each i,
    (n + 1, D); of a text of one word those of v(X) alone."""
    if len(words) == 1:
        return centred_ranks(words, ties)
    runner_up, best = np.partition(words, len(words) - 2, axis=0)[-2:]
    # Where two words share the lead, the runner-up is as large.
    return centred_ranks(np.concatenate([best[None], np.where(words == best, runner_up, best)]), ties)


def _correlation(ranks: np.ndarray, other: np.ndarray, ties: str) -> np.ndarray:
    """Return the rank correlation of each row of centred ``ranks`` (n, D) with ``other`` (D,), (n,); 0 where one of
    them has no order."""
    product, squares, others = ranks @ other, np.square(ranks).sum(axis=1), other @ other
    if ties == "average":
        scale = np.sqrt(squares * others)
        return np.divide(product, scale, out=np.zeros_like(product), where=scale > 0)
    width = len(other)
    differences = (squares + others - 2 * product) / 4  # sum of d^2, an integer
    return np.where((squares > 0) & (others > 0), 1 - 6 * differences / (width * (width**2 - 1)), 0.0)


def centred_ranks(values: np.ndarray, ties: str) -> np.ndarray:
    """Return twice the rank of each value in its row, less the mean: integers that add up to 0 (R, D).

    Of equal values the one of the lower coordinate has the lower rank, under ``average`` all have their mean rank.
    """
    width = values.shape[1]
    if ties == "average":
        return 2 * rankdata(values, axis=1) - (width + 1)
    ranks = np.empty(values.shape)
    order = np.argsort(values, axis=1, kind="stable")
    np.put_along_axis(ranks, order, 2.0 * np.arange(width)[None] - (width - 1), axis=1)
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


if __name__ == "__main__":
    sys.exit(main())
