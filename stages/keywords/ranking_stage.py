"""The frame of the stages that rank the phrases of every text: a part of the ranking for each part of the tokens."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from keycontrast.files import hash_values
from keycontrast.ranking import Report, ranker
from keycontrast.ranking.ranker import Ranked
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.text.tokens import pieces
from stages.common.examples import training_texts
from stages.common.methods import METHODS
from stages.common.paths import DatasetPaths
from stages.common.settings import code_of, hash_code, hash_files
from stages.common.tables import (
    Provenance,
    as_table,
    check_columns,
    read_batches,
    read_metadata,
    table_writer,
    write_part,
    write_table,
)
from stages.common.text_tables import PHRASES, TOKENS, ranked_by
from stages.run.executor import Executor, MakePart
from stages.run.process import StageProcess

# Rows read at a time: few, since a text may be a whole document.
_BATCH = 256
_COLUMNS = TOKENS.arrow().names


def training_frequency(tokens: Path, examples: Path) -> InverseFrequency:
    """Return the IDF of words in table ``tokens`` over the texts of the training examples of table ``examples``."""
    return InverseFrequency.over_tables(pieces(read_batches(tokens, TOKENS, ["text_id", "token"], _BATCH)),
                                        training_texts(examples))


def ranker_of(method: str, settings: Any, language: str,
              idf: InverseFrequency | None = None) -> Callable[[pa.Table], Ranked]:
    """Return the function by which ``method`` ranks token tables: our engine, or the pytextrank package, which does
    not break ties by IDF."""
    ranking = METHODS[method].module.ranking(settings, language)
    if getattr(ranking, "engine", "ours") == "ours":
        return ranker(ranking, settings.phrases, idf)
    from keycontrast.ranking.package import package_ranker  # and with it spaCy, which takes seconds to import

    return package_ranker(ranking, settings.phrases)


def ranked_tokens(method: str, tokens: pa.Table, settings: Any, idf: InverseFrequency | None = None,
                  language: str = "en") -> pa.Table:
    """Return the phrases of table ``tokens`` by ``method``."""
    ranked = map(ranker_of(method, settings, language, idf), pieces([tokens.sort_by("text_id")]))
    return pa.concat_tables([PHRASES.arrow().empty_table(), *(part.table for part in ranked)])


def part_ranker(method: str, settings: Any, language: str, idf: InverseFrequency | None,
                provenance: Provenance) -> MakePart:
    """Return a function that ranks the phrases of a part of the tokens by ``method``."""
    rank = ranker_of(method, settings, language, idf)

    def make(part: Path, result: Path) -> dict[str, Any]:
        report = Report()

        def tables() -> Iterator[pa.Table]:
            for piece in pieces(read_batches(part, TOKENS, _COLUMNS, _BATCH)):
                ranked = rank(piece)
                report.add(ranked.report)
                yield as_table(ranked_by(method), ranked.table)

        write_part(result, ranked_by(method), tables(), provenance.of_part())
        return vars(report)

    return make


def rank_data_set(process: StageProcess, models: Mapping[str, Any]) -> None:
    """Write the table of the stage, which is named as its method and its block: the phrases of every text."""
    params = process.params
    paths, kind, language = DatasetPaths(process.instance), process.stage, params.datasets[process.instance].language
    source = paths.table("tokens")
    check_columns(source, TOKENS)
    METHODS[kind].module.ranking(getattr(params, kind), language)  # it refuses a language before any work
    idf = training_frequency(source, paths.table("examples"))
    # The tagger decides the candidates, so its version travels with the ranking.
    provenance = Provenance(process.name, process.params_hash,
                            models={**read_metadata(source).get("models", {}), **models})
    executor = Executor.of(process, hash_values({
        **process.declared_values, "models": provenance.models, "code": hash_code(code_of(kind)),
        "data": hash_files([source, paths.table("examples")])}))     # of which the IDF is made
    report = Report()
    with table_writer(paths.table(kind), ranked_by(kind), provenance) as writer:
        for counts in executor.make(source, part_ranker, (
                kind, getattr(params, kind), language, idf, provenance), writer):
            report.add(Report(**{**counts, "texts": Counter(counts["texts"])}))
        provenance.counts.update(report.as_counts())
    executor.clear()
    texts = ", ".join(f"{number} {name}" for name, number in provenance.counts["texts_by_status"].items()) or "none"
    process.log.info(f"texts by status: {texts}" + (
        f"; at most {provenance.counts['iterations']} iterations, the last of which changed no score by more than "
        f"{provenance.counts['residual']}" if "iterations" in provenance.counts else ""))


def rank_if_named(process: StageProcess, models: Callable[[], Mapping[str, Any]]) -> None:
    """Write the table of the stage if something reads it, or else one without rows, whose metadata say why.

    So every data set has the stage, and `dvc exp run -S keywords.method=yake` needs no other change of the params.
    """
    params, kind = process.params, process.stage
    method = params.keywords.method
    compared = METHODS[kind].compared
    if method == kind or (compared and process.instance in params.keyword_comparison.datasets):
        rank_data_set(process, models())
        return
    beside = ", and keyword_comparison.datasets does not name the data set" if compared else ""
    reason = f"keywords.method is {method}{beside}"
    write_table(DatasetPaths(process.instance).table(kind), ranked_by(kind), PHRASES.arrow().empty_table(),
                Provenance(process.name, process.params_hash, reason=reason))
    process.log.info("no text is ranked: %s", reason)
