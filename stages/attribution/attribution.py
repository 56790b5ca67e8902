"""Score the words of every source text by what they do to a network's answer (PGKPR section 3).

Reads examples, texts and tokens of a data set and its pair classifier (method siamese: the sentence encoder);
writes table attribution with one row per source text paired with itself (mode xx) and one per source and reference
(mode xy; the target is the first reference). Where it names the keywords of the data set, every other text has a row
of mode xx too. A run that was killed goes on where it stopped.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.files import hash_values
from stages.attribution.saliency.blocks import BLOCK_CHUNKS, Attributed, Piece, fallbacks, gathered, score_block
from stages.attribution.saliency.scorers import Scorer, load_scorer, settings
from stages.common.device import choose_device, computed_in, computing
from stages.common.examples import source_pairs
from stages.common.lookup import Lookup
from stages.common.paths import DatasetPaths
from stages.common.schemas import ATTRIBUTION, EXAMPLES, TEXTS
from stages.common.seeds import seed_everything
from stages.common.settings import Values, code_of, hash_code, hash_files
from stages.common.tables import Provenance, check_columns, read_table, table_writer, write_part
from stages.common.text_tables import TOKENS
from stages.run.executor import Executor, MakePart
from stages.run.process import StageProcess, run_stage

STAGE = "attribution"
# Tables and the columns of them that are needed.
_READ = {EXAMPLES: ["source_id", "reference_ids"], TEXTS: ["text_id", "text"],
         TOKENS: ["text_id", "token", "start", "end"]}


def run(examples: pa.Table, texts: Lookup, tokens: Lookup, scorer: Scorer, modes: Sequence[str],
        every: bool = False) -> Iterator[Attributed]:
    """Yield the keyword probabilities of every word of every source text, in the order of the table's key.

    The bytes depend on ``scorer.size`` and on nothing else of how the work is done.

    Args:
        examples: table ``examples``, all splits.
        texts: table ``texts``.
        tokens: table ``tokens``, whose tokens are the words.
        scorer: what scores them.
        modes: ``xx``, ``xy`` or both.
        every: score each text of ``tokens`` beside itself, not only sources.

    Raises:
        InputError: a text is not in ``texts``, or a source text not in ``tokens``.
    """
    requests, size = source_pairs(examples, modes, tokens.ids if every else None), BLOCK_CHUNKS * scorer.size
    for table, wanted in ((texts, requests[:, [0, 2]]), (tokens, requests[:, 0])):
        table.rows_of(np.unique(wanted))
    for start in range(0, len(requests), size):
        block = requests[start:start + size]
        ids = np.unique(block[:, [0, 2]])
        yield score_block(Piece(block, dict(zip(ids.tolist(), texts.of(ids)["text"].to_pylist(), strict=True)),
                                tokens.of(block[:, 0])), scorer)


def part_scorer(dataset: str, values: Mapping[str, Any], runtime: Mapping[str, Any], source: str, every: bool,
                provenance: Provenance) -> MakePart:
    """Return what scores the words of a part of the tokens.

    Args:
        dataset: name of the data set.
        values: plain values of the block ``attribution``.
        runtime: plain values of the block of that name.
        source: ``encoder.source``.
        every: as of :func:`run`.
        provenance: of the table.
    """
    paths, asked = DatasetPaths(dataset), Values(runtime)
    seed_everything(0, asked.threads, asked.deterministic, asked.tf32)  # draws nothing
    scorer = load_scorer(values, paths.pair_classifier, source, choose_device(asked.device))

    def make(part: Path, result: Path) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        tokens = Lookup.read(part, TOKENS, _READ[TOKENS])
        named = pc.field("source_id").isin(tokens.table["text_id"].combine_chunks())
        examples = read_table(paths.table("examples"), EXAMPLES, _READ[EXAMPLES], named)
        wanted = np.unique(source_pairs(examples, values["modes"], tokens.ids)[:, [0, 2]])
        texts = Lookup(TEXTS.name, read_table(paths.table("texts"), TEXTS, _READ[TEXTS],
                                              pc.field("text_id").isin(pa.array(wanted))))
        with computing(asked):
            blocks = run(examples, texts, tokens, scorer, values["modes"], every)
            write_part(result, ATTRIBUTION, gathered(blocks, counts), provenance.of_part())
        return counts

    return make


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    tables = {schema: paths.table(schema.name) for schema in _READ}
    for schema, path in tables.items():
        check_columns(path, schema)
    # All sources, since those of no part of the tokens would be looked for by none.
    sources = read_table(tables[EXAMPLES], columns=["source_id"])["source_id"].to_numpy()
    Lookup.read(tables[TOKENS], TOKENS, ["text_id"]).rows_of(sources)
    values, source = params.attribution.plain(), params.encoder.source
    models, params_hash = load_scorer(values, paths.pair_classifier, source, "cpu").models, process.params_hash
    device = choose_device(params.runtime.device)
    executor = Executor.of(process, hash_values({
        "params": params_hash, "models": models, "device": device, "data": hash_files(tables.values()),
        "code": hash_code(code_of(STAGE))}))
    if device != "cpu":
        executor = replace(executor, workers=1)  # one network on the GPU
    described = settings(values)
    for bug in described["bugs_of_the_released_code"]:
        process.log.warning(f"as the params ask, with a bug of the released code: {bug}")
    provenance = Provenance(process.name, params_hash, {**models, STAGE: described},
                            precision=computed_in(params.runtime.precision, params.runtime.tf32))
    counts: Counter[str] = Counter(words=0, unaligned_words=0)
    with table_writer(paths.table(STAGE), ATTRIBUTION, provenance) as writer:
        for some in executor.make(tables[TOKENS], part_scorer, (
                process.instance, values, params.runtime.plain(), source, params.keywords.method == STAGE, provenance),
                writer):
            counts.update(some)
        provenance.counts, provenance.fallbacks = dict(counts), fallbacks(counts)
    for sentence in provenance.fallbacks:
        process.log.info(sentence)
    executor.clear()


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage(STAGE, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
