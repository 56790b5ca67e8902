"""Score the words of every source text by paired semantic importance (IANet).

Reads tables examples, tokens and word_vectors of a data set; writes table psi with one row per
source text paired with itself (mode xx) and one per source and reference (mode xy; the target is the first one). Where
it names the keywords of the data set, every other text has a row of mode xx too.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
from stages.psi.importance.psi import importance
from stages.psi.importance.texts import Texts, read_texts
from stages.psi.importance.vectors import VectorTable
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.psi.params import Psi

STAGE = "psi"
CHUNK = 8192  # rows of table tokens; decides the row groups of what is written


def run(tokens: Callable[[], Iterable[pa.Table]], examples: pa.Table, vectors: VectorTable, params: "Psi",
        every: bool = False) -> Iterator[pa.Table]:
    """Yield the rows of table ``psi``, sorted, one piece per piece of ``tokens`` that holds a text to be scored.

    The scores of a row depend on the row alone, not on the cutting of ``tokens``.

    Args:
        tokens: returns the pieces of table ``tokens`` in its order (columns ``text_id`` and ``token`` suffice);
            called twice, once for the words as numbers and once for the words themselves.
        examples: table ``examples``, all splits.
        vectors: of the words.
        params: block ``psi``.
        every: score each text of ``tokens`` beside itself, not only sources.

    Raises:
        InputError: a source or reference has no row in ``tokens``.
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
    found = importance(vectors, texts, firsts, seconds, params.ties)
    # 0 - 0 / F is -0 for negative F; one zero is enough.
    scores, offsets = found.scores + 0.0, pa.array(found.offsets, pa.int32())
    return pa.table({"text_id": pairs[:, 0], "mode": np.array(MODES)[pairs[:, 1]], "pair": pairs[:, 2], "word": words,
                     "score": pa.ListArray.from_arrays(offsets, pa.array(scores)),
                     "primary": pa.ListArray.from_arrays(offsets, pa.array(scores > params.alpha))})


def counts(rows: pa.Table) -> dict[str, int]:
    """Return what the metadata count, of one piece of table ``psi``; pieces add up."""
    found: dict[str, int] = {}
    for mode in sorted(set(rows["mode"].to_pylist())):
        of_mode = rows.filter(pc.equal(rows["mode"], mode))
        primary = pc.list_flatten(of_mode["primary"])
        found |= {f"rows_{mode}": of_mode.num_rows, f"words_{mode}": len(primary),
                  f"primary_{mode}": int(pc.sum(primary).as_py() or 0)}
    return found


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


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
