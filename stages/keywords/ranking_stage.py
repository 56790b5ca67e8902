"""The frame of the stages that rank the phrases of every text: tokens in pieces, workers, one table."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from keycontrast.ranking import Report
from keycontrast.ranking.blocks import pieces
from keycontrast.ranking.ranker import Ranked
from keycontrast.ranking.selection import InverseFrequency
from stages.common.columns.phrases import PHRASES, ranked_by
from stages.common.columns.tokens import TOKENS
from stages.common.methods import METHODS
from stages.common.part_work import PartWork, Workforce, write_by_parts
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, check_columns, read_metadata, write_table
from stages.common.writing import table_writer
from stages.keywords.frequency import training_frequency
from stages.run.cluster_map import Cluster
from stages.run.pool import map_chunks
from stages.run.process import StageProcess

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
    found: Iterator[Ranked] = map_chunks(make, (settings, language, idf), pieces(batches), workers, "ranking",
                                         total=ordered.num_rows, unit="text", measure=lambda piece: piece.num_rows)
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
    check_columns(source, TOKENS)
    force = Workforce(params.runtime.workers, Cluster.of(params))
    idf = training_frequency(source, paths.table("examples"))
    # Nothing is kept for resuming: a million short texts are ranked in less time than it takes to store them.
    work = PartWork(make, (getattr(params, kind), params.datasets[process.instance].language, idf), _COLUMNS, _BATCH,
                    pieces, iter, ranked_by(kind))
    # The tagger decides the candidates, so its version travels with the ranking.
    provenance = Provenance(process.name, process.params_hash,
                            models={**read_metadata(source).get("models", {}), **models})
    report = Report()
    with table_writer(paths.table(kind), work.schema, provenance) as writer:
        write_by_parts(source, work, writer, force, kind, report.add)
        provenance.counts.update(report.as_counts())
    process.log.info(_sentence(provenance.counts))


def rank_if_named(process: StageProcess, make: RankerOf, models: Callable[[StageProcess], Mapping[str, Any]]) -> None:
    """Write the table of the stage if something reads it, or else one without rows, whose metadata say why.

    So every data set has the stage, and `dvc exp run -S keywords.method=yake` needs no other change of the params.

    Args:
        process: of the stage.
        make: of the method.
        models: returns those of :func:`rank_data_set`.
    """
    params, kind = process.params, process.stage
    method = params.keywords.method
    compared = METHODS[kind].compared
    if method == kind or (compared and process.instance in params.side_by_side.datasets):
        rank_data_set(process, make, models(process))
        return
    beside = ", and side_by_side.datasets does not name the data set" if compared else ""
    reason = f"keywords.method is {method}{beside}"
    write_table(DatasetPaths(process.instance).table(kind), ranked_by(kind), PHRASES.arrow().empty_table(),
                Provenance(process.name, process.params_hash, reason=reason))
    process.log.info("no text is ranked: %s", reason)


def _sentence(counts: dict[str, Any]) -> str:
    texts = ", ".join(f"{number} {name}" for name, number in counts["texts_by_status"].items()) or "none"
    if "iterations" not in counts:
        return f"texts by status: {texts}"
    return (f"texts by status: {texts}; at most {counts['iterations']} iterations, the last of which changed no score "
            f"by more than {counts['residual']}")
