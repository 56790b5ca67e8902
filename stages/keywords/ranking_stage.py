"""The frame of the stages that rank the phrases of every text: tokens in pieces, workers, one table."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import Provenance, read_batches, read_metadata, table_writer
from stages.data.example_texts import read_examples, training_text_ids
from stages.data.schemas.tokens import TOKENS
from stages.ranking import Report
from stages.ranking.blocks import pieces
from stages.ranking.ranker import Ranked
from stages.ranking.schemas import PHRASES, ranked_by
from stages.ranking.selection import InverseFrequency
from stages.runtime.pool import map_chunks
from stages.runtime.process import StageProcess

# Given a method's settings, the language of the texts and an IDF that breaks ties, returns what ranks token tables.
RankerOf = Callable[[Any, str, InverseFrequency | None], Callable[[pa.Table], Ranked]]
# Rows read at a time: few, since a text may be a whole document.
_BATCH = 256
_COLUMNS = TOKENS.arrow().names


def ranked_tokens(make: RankerOf, tokens: pa.Table, settings: Any, idf: InverseFrequency | None = None,
                  language: str = "en", workers: int = 1) -> pa.Table:
    """Return the ranked phrases of table ``tokens``; the same for any number of ``workers``.

    Args:
        make: of the method.
        tokens: table ``tokens``.
        settings: the method's block.
        idf: IDF over training texts, which breaks ties; None leaves them to the position.
        language: of the texts.
        workers: processes.
    """
    ordered = tokens.sort_by("text_id")
    batches = (ordered.slice(start, _BATCH) for start in range(0, ordered.num_rows, _BATCH))
    found = _ranked(make, (settings, language, idf), pieces(batches), ordered.num_rows, workers)
    return pa.concat_tables([PHRASES.arrow().empty_table(), *(one.table for one in found)])


def rank_data_set(process: StageProcess, make: RankerOf, models: Mapping[str, Any]) -> None:
    """Write the table of the stage, which is named as its method and its block: the phrases of every text.

    Args:
        process: of the stage.
        make: of the method.
        models: what else than the annotation decides the ranking, for the metadata.
    """
    params = process.params
    paths, kind = DatasetPaths(process.instance), process.stage
    source = paths.table("tokens")
    idf = InverseFrequency.over_tables(pieces(read_batches(source, TOKENS, ["text_id", "token"], _BATCH)),
                                       training_text_ids(read_examples(paths.table("examples"))))
    total = sum(batch.num_rows for batch in read_batches(source, TOKENS, ["text_id"]))
    arguments = getattr(params, kind), params.datasets[process.instance].language, idf
    found = _ranked(make, arguments, pieces(read_batches(source, TOKENS, _COLUMNS, _BATCH)), total,
                    params.runtime.workers, params.cluster.address, kind)
    # The tagger decides the candidates, so its version travels with the ranking.
    provenance = Provenance(process.name, process.params_hash,
                            models={**read_metadata(source).get("models", {}), **models})
    report = Report()
    with table_writer(paths.table(kind), ranked_by(kind), provenance) as writer:
        for one in found:
            writer.write(one.table)
            report.add(one.report)
        provenance.counts.update(report.as_counts())
    process.log.info(_sentence(provenance.counts))


def _ranked(make: RankerOf, arguments: tuple[Any, ...], chunks: Iterable[pa.Table], total: int, workers: int,
            address: str | None = None, what: str = "ranking") -> Iterator[Ranked]:
    """Yield the ranking of each chunk of tokens, in order, under a bar that counts texts."""
    # Nothing is kept for resuming: a million short texts are ranked in less time than it takes to store them.
    yield from map_chunks(make, arguments, chunks, workers, what, address=address, total=total, unit="text",
                          measure=lambda chunk: chunk.num_rows)


def _sentence(counts: dict[str, Any]) -> str:
    texts = ", ".join(f"{number} {name}" for name, number in counts["texts_by_status"].items()) or "none"
    if "iterations" not in counts:
        return f"texts by status: {texts}"
    return (f"texts by status: {texts}; at most {counts['iterations']} iterations, the last of which changed no score "
            f"by more than {counts['residual']}")
