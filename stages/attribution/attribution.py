"""Score the words of every source text by what they do to a network's answer (METHODS C.2, PGKPR, section 3).

Reads examples, texts and tokens of a data set and its pair classifier (method siamese: the sentence encoder);
writes attribution.parquet with one row per source text paired with itself (mode xx) and one per source and reference
(mode xy; the target is the first reference). Where it names the keywords of the data set, every other text has a row
of mode xx too. A run that was killed goes on where it stopped.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from keycontrast.files import hash_values
from keycontrast.progress import progress_bar
from stages.attribution.saliency.blocks import (
    BLOCK_CHUNKS,
    Attributed,
    Bar,
    Piece,
    block_scorer,
    fallbacks,
    gathered,
    is_kept,
    keep_block,
    kept_block,
    score_block,
)
from stages.attribution.saliency.scorers import Scorer, WorkerScorer, load_scorer, settings
from stages.common.chunk_store import ChunkStore
from stages.common.columns.items import EXAMPLES
from stages.common.columns.texts import TEXTS
from stages.common.columns.tokens import TOKENS
from stages.common.columns.words import ATTRIBUTION
from stages.common.device import choose_device
from stages.common.fingerprint import hash_code, hash_files
from stages.common.mapped import MappedTable, mapped
from stages.common.parts import Layout
from stages.common.paths import DatasetPaths
from stages.common.precision import computed_in, computing
from stages.common.seeds import seed_everything
from stages.common.settings import code_of
from stages.common.source_pairs import source_pairs
from stages.common.tables import Provenance, check_columns, read_table
from stages.common.writing import table_writer
from stages.run.cluster_map import Cluster
from stages.run.pool import map_chunks
from stages.run.process import StageProcess, run_stage

STAGE = "attribution"
# Tables and the columns of them that are needed.
_READ = {EXAMPLES: ["source_id", "reference_ids"], TEXTS: ["text_id", "text"],
         TOKENS: ["text_id", "token", "start", "end"]}
Elsewhere = Callable[[Iterable[Piece]], Iterable[Attributed]]


def run(examples: pa.Table, texts: MappedTable, tokens: MappedTable, scorer: Scorer, modes: Sequence[str],
        store: ChunkStore | None = None, open_bar: Callable[[int, int], Bar] | None = None,
        every: bool = False, elsewhere: Elsewhere | None = None) -> Iterator[Attributed]:
    """Yield the keyword probabilities of every word of every source text, in the order of the table's key.

    The bytes depend on ``scorer.size`` and on nothing else of how the work is done. Of the whole data set only ids lie
    in memory.

    Args:
        examples: table ``examples``, all splits.
        texts: table ``texts``.
        tokens: table ``tokens``, whose tokens are the words.
        scorer: what scores them.
        modes: ``xx``, ``xy`` or both.
        store: keeps finished blocks; those that it already has are not computed.
        open_bar: given the rows in all and done, returns a progress bar.
        every: score each text of ``tokens`` beside itself, not only sources.
        elsewhere: scores blocks, in order, with the same scorer on other machines.

    Raises:
        InputError: a text is not in ``texts``, or a source text not in ``tokens``.
    """
    requests, size = source_pairs(examples, modes, tokens.ids if every else None), BLOCK_CHUNKS * scorer.size
    for table, wanted in ((texts, requests[:, [0, 2]]), (tokens, requests[:, 0])):
        table.rows_of(np.unique(wanted))
    blocks = [requests[start:start + size] for start in range(0, len(requests), size)]
    found = [store is not None and is_kept(store, block) for block in blocks]
    bar = open_bar(len(requests), sum(len(block) for block, kept in zip(blocks, found, strict=True) if kept)
                   ) if open_bar else None
    given = (_piece(block, texts, tokens) for block, kept in zip(blocks, found, strict=True) if not kept)
    scored = iter(elsewhere(given) if elsewhere else (score_block(piece, scorer, bar) for piece in given))
    for block, kept in zip(blocks, found, strict=True):
        made = kept_block(store, block) if store and kept else next(scored)
        assert made is not None  # what was kept when this began still is: the scratch folder is ours
        if not kept:
            if store:
                keep_block(store, block, made)
            if bar and elsewhere:
                bar.update(len(block))
        yield made
    if bar:
        bar.close()


def _piece(block: np.ndarray, texts: MappedTable, tokens: MappedTable) -> Piece:
    ids = np.unique(block[:, [0, 2]])
    return Piece(block, dict(zip(ids.tolist(), texts.of(ids)["text"].to_pylist(), strict=True)),
                 tokens.of(block[:, 0]))


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    tables = {schema: paths.table(schema.name) for schema in _READ}
    for schema, path in tables.items():
        check_columns(path, schema)
    values, device = params.attribution.plain(), choose_device(params.runtime.device)
    seed_everything(0, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)  # draws nothing
    scorer = load_scorer(values, paths.pair_classifier, params.encoder.source, device)
    params_hash = process.params_hash
    key = hash_values({"params": params_hash, "models": scorer.models, "device": device,
                       "data": hash_files(tables.values()),
                       "code": hash_code(code_of(STAGE))})
    store = ChunkStore(process.scratch, key)
    described = settings(values)
    for bug in described["bugs_of_the_released_code"]:
        process.log.warning(f"as the params ask, with a bug of the released code: {bug}")
    provenance = Provenance(process.name, params_hash, {**scorer.models, STAGE: described},
                            precision=computed_in(params.runtime.precision, params.runtime.tf32))
    cluster = Cluster.of(params)
    elsewhere: Elsewhere | None = None
    if cluster is not None:
        worker = WorkerScorer.of(scorer, values, params.runtime.plain(), paths.pair_classifier, params.encoder.source)
        elsewhere = partial(map_chunks, block_scorer, (worker,), workers=1, what=process.name, cluster=cluster,
                            gpu=params.runtime.device != "cpu")
    counts: Counter[str] = Counter(words=0, unaligned_words=0)
    with (mapped(tables[TEXTS], TEXTS, _READ[TEXTS], process.scratch) as texts,
          mapped(tables[TOKENS], TOKENS, _READ[TOKENS], process.scratch) as tokens, computing(params.runtime),
          table_writer(paths.table(STAGE), ATTRIBUTION, provenance, Layout.of(params)) as writer):
        blocks = run(read_table(tables[EXAMPLES], columns=_READ[EXAMPLES]), texts, tokens, scorer, values["modes"],
                     store, lambda total, done: progress_bar(process.name, total, "pair", done),
                     params.keywords.method == STAGE, elsewhere)
        for rows in gathered(blocks, counts):
            writer.write(rows)
        provenance.counts, provenance.fallbacks = dict(counts), fallbacks(counts)
    for sentence in provenance.fallbacks:
        process.log.info(sentence)
    store.clear()


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
