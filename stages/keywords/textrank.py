"""Rank the phrases of every text by TextRank or one of its kin."""

import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stages.artifacts.example_texts import read_examples, training_text_ids
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.schemas import SCHEMAS
from stages.artifacts.tables import Provenance, read_batches, read_metadata, table_writer
from stages.ranking import Report, Settings, ranker
from stages.ranking.blocks import pieces
from stages.ranking.ranker import Ranked
from stages.ranking.selection import InverseFrequency
from stages.runtime.pool import map_chunks
from stages.runtime.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.params.data import TextRank

# Rows read at a time: few, since a text may be a whole document.
_BATCH = 256
_COLUMNS = SCHEMAS["tokens"].arrow().names


def run(tokens: pa.Table, params: "TextRank", idf: InverseFrequency | None = None, language: str = "en",
        workers: int = 1) -> pa.Table:
    """Return the ``textrank`` table of ``tokens``; the same for any number of ``workers``.

    Args:
        tokens: table ``tokens``.
        params: method and its settings.
        idf: IDF over training texts, which breaks ties; None leaves them to the position.
        language: of the texts.
        workers: processes.
    """
    ordered = tokens.sort_by("text_id")
    batches = (ordered.slice(start, _BATCH) for start in range(0, ordered.num_rows, _BATCH))
    found = ranked(pieces(batches), ordered.num_rows, settings(params, language), params.phrases, idf, workers)
    return pa.concat_tables([SCHEMAS["textrank"].arrow().empty_table(), *(one.table for one in found)])


def ranked(chunks: Iterable[pa.Table], total: int, chosen: Settings, phrases: int, idf: InverseFrequency | None,
           workers: int = 1, address: str | None = None) -> Iterator[Ranked]:
    """Yield the ranking of each chunk of tokens, in order, under a bar that counts texts.

    Args:
        chunks: tables ``tokens``, cut without regard to who works on them.
        total: texts in all of them.
        chosen: method and settings.
        phrases: kept per text.
        idf: breaks ties.
        workers: processes.
        address: of a Dask scheduler; None for processes of this machine.
    """
    # Nothing is kept for resuming: a million short texts are ranked in less time than it takes to store them.
    yield from map_chunks(engine, (chosen, phrases, idf), chunks, workers, "textrank", address=address, total=total,
                          unit="text", measure=lambda chunk: chunk.num_rows)


def engine(chosen: Settings, phrases: int, idf: InverseFrequency | None = None) -> Callable[[pa.Table], Ranked]:
    """Return what ranks token tables: our engine, or the pytextrank package, whose ties no IDF breaks."""
    if chosen.engine == "ours":
        return ranker(chosen, phrases, idf)
    from stages.ranking.package import package_ranker  # and with it spaCy, which takes seconds to import

    return package_ranker(chosen, phrases)


def settings(params: "TextRank", language: str) -> Settings:
    """Return params as the plain values that ranking takes."""
    return Settings(language=language, **{name: value for name, value in dict(params).items() if name != "phrases"})


def _work(process: StageProcess) -> None:
    params = process.params
    paths = DatasetPaths(process.instance)
    source = paths.table("tokens")
    idf = InverseFrequency.over_tables(pieces(read_batches(source, "tokens", ["text_id", "token"], _BATCH)),
                                       training_text_ids(read_examples(paths.table("examples"))))
    total = sum(batch.num_rows for batch in read_batches(source, "tokens", ["text_id"]))
    language = params.datasets[process.instance].language
    found = ranked(pieces(read_batches(source, "tokens", _COLUMNS, _BATCH)), total,
                   settings(params.textrank, language), params.textrank.phrases, idf, params.runtime.workers,
                   params.cluster.address)
    # The tagger decides the candidates, so its version travels with the ranking.
    provenance = Provenance(process.name, process.params_hash,
                            models={**read_metadata(source).get("models", {}), **_package(params.textrank)})
    report = Report()
    with table_writer(paths.table("textrank"), "textrank", provenance) as writer:
        for one in found:
            writer.write(one.table)
            report.add(one.report)
        provenance.counts.update(report.as_counts())
    process.log.info(_sentence(provenance.counts))


def _sentence(counts: dict[str, Any]) -> str:
    texts = ", ".join(f"{number} {name}" for name, number in counts["texts_by_status"].items()) or "none"
    if "iterations" not in counts:
        return f"texts by status: {texts}"
    return (f"texts by status: {texts}; at most {counts['iterations']} iterations, the last of which changed no score "
            f"by more than {counts['residual']}")


def _package(params: "TextRank") -> dict[str, Any]:
    """Return name and version of the package that ranks, if one does."""
    return {"pytextrank": {"version": version("pytextrank")}} if params.engine == "package" else {}


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("textrank", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
