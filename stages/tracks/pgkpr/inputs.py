"""The tables that pairs are joined from, each looked into by text id.

    inputs = read_inputs(tables)
    inputs.words.of(text_ids)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import Faults, InputError
from keycontrast.ranking.blocks import pieces
from stages.common.columns.items import EXAMPLES
from stages.common.columns.methods import METHOD_TABLES
from stages.common.columns.texts import TEXTS
from stages.common.columns.tokens import TOKENS
from stages.common.columns.words import ATTRIBUTION, PSI, S_TAGS
from stages.common.lookup import Lookup
from stages.common.schemas import TableSchema
from stages.tracks.pgkpr.phrases import check_ends, ranked
from stages.tracks.pgkpr.words import WORD_ROWS, list_lengths, positions, words_of

# Gives the pieces of a table, by its key, anew each time it is called.
Batches = Callable[[], Iterable[pa.Table]]
TEXTRANK = METHOD_TABLES["textrank"]
# What is read of each table.
READ = {EXAMPLES: ["example_id", "split", "source_id", "target_id", "reference_ids", "group"],
        TEXTS: ["text_id", "text", "language"], TOKENS: ["text_id", "token", "tag"],
        ATTRIBUTION: ["text_id", "mode", "pair", "score"], PSI: ["text_id", "mode", "pair", "primary"],
        S_TAGS: ["text_id", "primary"], TEXTRANK: ["text_id", "rank", "token_start", "token_end"]}


class WordColumn(NamedTuple):
    """A column of the items that has a value for each word of the source, and where it is from.

    Attributes:
        table: schema of the table.
        column: of the table, aligned with tokens.
        mode: of the row, ``xx`` or ``xy``; None for a table with one row per text.
    """

    table: str
    column: str
    mode: str | None


SCORES = {"score_xx": WordColumn("attribution", "score", "xx"), "score_xy": WordColumn("attribution", "score", "xy"),
          "primary_xx": WordColumn("psi", "primary", "xx"), "primary_xy": WordColumn("psi", "primary", "xy"),
          "primary_s": WordColumn("s_tags", "primary", None)}
_SCHEMAS = {schema.name: schema for schema in READ}


@dataclass(frozen=True)
class Inputs:
    """The texts of a data set and what is known of their words.

    Attributes:
        words: texts as words, rows as ``TextWords.as_rows`` makes them (T rows).
        lengths: words of each text (T,).
        texts: table ``texts``.
        scores: by column of the items, the rows of its table and mode; those of mode ``xy`` by text and pair. Columns
            whose table nobody reads are missing.
        textrank: the ranking; None where nobody reads it.
        english: a text is English.
    """

    words: Lookup
    lengths: np.ndarray
    texts: Lookup
    scores: dict[str, Lookup]
    textrank: Lookup | None
    english: bool

    def positions(self, text_ids: np.ndarray) -> np.ndarray:
        """Return the row of ``words`` of each text.

        Raises:
            InputError: a text is not there.
        """
        return positions(self.words.ids, text_ids, "table tokens")


def read_inputs(tables: Mapping[str, Batches]) -> Inputs:
    """Return what is needed of the tables of a data set, in memory.

    Args:
        tables: ``texts``, ``tokens`` and ``attribution``; ``psi``, ``s_tags`` and ``textrank`` may be missing.

    Raises:
        InputError: no row is of a mode, a word has no tag, or ``textrank`` and ``tokens`` are of different texts.
    """
    untagged, languages = Faults(), set[str]()
    words = Lookup("tokens", _joined(WORD_ROWS, (words_of(piece, untagged).as_rows()
                                                 for piece in pieces(tables["tokens"]()))))
    untagged.check()
    texts = Lookup("texts", _joined(_columns_of(TEXTS, ["text_id", "text"]),
                                    _noting_languages(tables["texts"](), languages)))
    scores = {name: _score_rows(tables[source.table], source) for name, source in SCORES.items()
              if source.table in tables}
    textrank = None
    if "textrank" in tables:
        textrank = Lookup("textrank", _joined(_columns_of(TEXTRANK, READ[TEXTRANK]),
                                              _with_ends(tables["textrank"](), words)), unique=False)
        positions(np.unique(textrank.ids), words.ids, "table textrank")
    lengths = list_lengths(words.table["words"]).astype(np.int32)
    return Inputs(words, lengths, texts, scores, textrank, "en" in languages)


def _score_rows(batches: Batches, source: WordColumn) -> Lookup:
    columns = ["text_id", *(["pair"] if source.mode == "xy" else []), source.column]
    rows = batches() if source.mode is None else (
        batch.filter(pc.equal(batch["mode"], source.mode)) for batch in batches())
    table = Lookup(source.table, _joined(_columns_of(_SCHEMAS[source.table], columns), rows),
                   "pair" if source.mode == "xy" else None)
    if source.mode is not None and not len(table.ids):
        raise InputError(f"table {source.table}: no row is of mode {source.mode}, from which column {source.column} of "
                         f"the pairs is taken. Add {source.mode} to {source.table}.modes in params.yaml.")
    return table


def _joined(schema: pa.Schema, batches: Iterable[pa.Table]) -> pa.Table:
    """Return the columns of ``schema`` of all ``batches``."""
    return pa.concat_tables([schema.empty_table(), *(batch.select(schema.names).cast(schema) for batch in batches)])


def _columns_of(schema: TableSchema, columns: list[str]) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in schema.arrow() if field.name in columns])


def _noting_languages(batches: Iterable[pa.Table], languages: set[str]) -> Iterator[pa.Table]:
    for batch in batches:
        languages.update(pc.unique(batch["language"]).to_pylist())
        yield batch


def _with_ends(batches: Iterable[pa.Table], words: Lookup) -> Iterator[pa.Table]:
    """Yield ``batches`` of the ranking, whose phrases are to end within their texts."""
    tokens = list_lengths(words.table["kept"])
    for batch in batches:
        rows = ranked(batch)
        text_ids = rows["text_id"].to_numpy()
        check_ends(text_ids, rows["token_end"].to_numpy(), tokens[positions(words.ids, text_ids, "table tokens")])
        yield batch
