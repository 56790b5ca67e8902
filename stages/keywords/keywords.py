"""Choose one keyword per text from its ranking, with ties and fall-backs settled in words, not by chance."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.ranking.blocks import pieces
from keycontrast.ranking.selection import InverseFrequency
from stages.common.examples import (
    TextMarks,
    all_text_ids,
    marked_texts,
    role_batches,
    room_for,
    training_text_ids,
)
from stages.common.methods import KEYWORDS
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, read_batches, read_metadata, table_writer, write_json
from stages.common.text_tables import METHOD_TABLES, TOKENS
from stages.keywords.choice import STALE, TOKEN_COLUMNS, beside, choose_keywords, ranking_columns
from stages.keywords.tally import Tally
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.keywords.params import Keywords

# Rows read at a time: few, since a text may be a whole document.
_BATCH = 256
# Gives the pieces of a table anew each time it is called.
Batches = Callable[[list[str]], Iterable[pa.Table]]


@dataclass(frozen=True)
class Chosen:
    """What the stage makes: the table ``keywords``, its counts, and a sentence per fall-back taken."""

    keywords: pa.Table
    counts: dict[str, Any]
    fallbacks: list[str]


def run(tokens: pa.Table, ranking: pa.Table, examples: pa.Table, params: "Keywords") -> Chosen:
    """Choose the keyword of every text.

    Args:
        tokens: table ``tokens``.
        ranking: table of ``params.method``. Texts of which it says nothing, or has no word that it could score, fall
            back to IDF, which is recorded.
        examples: table ``examples`` or ``labelled_examples``; IDF counts the texts of training examples and no
            others.
        params: the method.

    Raises:
        InputError: the tables do not belong together.
    """
    ordered = tokens.sort_by("text_id")
    tables: list[pa.Table] = [KEYWORDS.arrow().empty_table()]
    tally = choose_all(lambda columns: [ordered.select(columns)],
                       [ranking.select(ranking_columns(params.method)).sort_by("text_id")], lambda: [examples], params,
                       tables.append)
    return Chosen(pa.concat_tables(tables), tally.counts([examples]), tally.fallbacks())


def choose_all(tokens: Batches, ranking: Iterable[pa.Table],
               examples: Callable[[], Iterable[pa.Table]], params: "Keywords",
               write: Callable[[pa.Table], Any]) -> Tally:
    """Choose the keyword of every text, piece by piece, and hand each piece of table ``keywords`` to ``write``.

    Args:
        tokens: gives columns of table ``tokens``, by text id; called three times.
        ranking: pieces of the ranking, by text id.
        examples: gives pieces of the table of :func:`run`; called twice.
        params: the method.
        write: takes pieces of the table.

    Raises:
        InputError: the tables do not belong together.
    """
    _check_ids(marked_texts(map(all_text_ids, examples())),
               marked_texts(batch["text_id"].to_numpy() for batch in tokens(["text_id"])))
    training = marked_texts(map(training_text_ids, examples()))
    idf = InverseFrequency.over_tables(pieces(tokens(["text_id", "token"])), training)
    tally = Tally(params.method, training)
    for piece, rows in beside(pieces(tokens(TOKEN_COLUMNS)), ranking, params.method):
        chosen = choose_keywords(piece, rows, params.method, idf, params.kw_lemma)
        tally.add(chosen.table, chosen.unscored)
        write(chosen.table)
    return tally


def _check_ids(wanted: TextMarks, held: TextMarks) -> None:
    missing = np.flatnonzero(wanted & ~room_for(held, len(wanted))[:len(wanted)])
    if len(missing):
        raise InputError(f"table tokens: {len(missing)} texts, the first of them {missing[0]}, are not in both "
                         f"tables; {STALE}")


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    chosen = params.keywords
    source, ranking = paths.table("tokens"), paths.table(chosen.method)
    examples = partial(role_batches, paths.table("examples"))
    provenance = Provenance(process.name, process.params_hash)
    with table_writer(paths.table("keywords"), KEYWORDS, provenance) as writer:
        tally = choose_all(
            lambda columns: read_batches(source, TOKENS, columns, _BATCH),
            read_batches(ranking, METHOD_TABLES[chosen.method], ranking_columns(chosen.method)), examples, chosen,
            writer.write)
        provenance.models.update(read_metadata(ranking).get("models", {}))
        provenance.counts.update(tally.counts(examples()))
        provenance.fallbacks.extend(tally.fallbacks())
    for sentence in provenance.fallbacks:
        process.log.info(sentence)
    write_json(paths.metrics("keywords"), provenance.counts)


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("keywords", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
