"""The tables that pairs are joined from, each looked into by text id and none held in memory.

    with opened_inputs(tables, process.scratch) as inputs:
        inputs.words.of(text_ids)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
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
from stages.common.mapped import MappedGroups, MappedTable, columns_of, copied, grouped
from stages.tracks.pgkpr.phrases import check_ends, ranked
from stages.tracks.pgkpr.words import WORD_ROWS, list_lengths, positions, words_of

# Gives the pieces of a table, by its key, anew each time it is called.
Batches = Callable[[], Iterable[pa.Table]]
TEXTRANK = METHOD_TABLES["textrank"]
# What is read of each table.
READ = {EXAMPLES: ["example_id", "split", "source_id", "target_id", "reference_ids", "group"],
        TEXTS: ["text_id", "text", "language"], TOKENS: ["text_id", "token", "tag"],
        ATTRIBUTION: ["text_id", "mode", "pair", "score"], PSI: ["text_id", "mode", "pair", "primary"],
        S_TAGS: ["text_id", "primary"], TEXTRANK: ["text_id", "rank", "start", "end"]}


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

    words: MappedTable
    lengths: np.ndarray
    texts: MappedTable
    scores: dict[str, MappedTable]
    textrank: MappedGroups | None
    english: bool

    def positions(self, text_ids: np.ndarray) -> np.ndarray:
        """Return the row of ``words`` of each text.

        Raises:
            InputError: a text is not there.
        """
        return positions(self.words.ids, text_ids, "tokens.parquet")


@contextmanager
def opened_inputs(tables: Mapping[str, Batches], folder: Path) -> Iterator[Inputs]:
    """Yield the tables of a data set, copied to files in ``folder`` that are gone after the block.

    Args:
        tables: ``texts``, ``tokens`` and ``attribution``; ``psi``, ``s_tags`` and ``textrank`` may be missing.
        folder: of this process.

    Raises:
        InputError: no row is of a mode, a word has no tag, or ``textrank`` and ``tokens`` are of different texts.
    """
    languages: set[str] = set()
    with ExitStack() as stack:
        untagged = Faults()
        words = stack.enter_context(copied(
            "tokens", WORD_ROWS, (words_of(piece, untagged).as_rows() for piece in pieces(tables["tokens"]())),
            folder / "words.arrow"))
        untagged.check()
        texts = stack.enter_context(copied("texts", columns_of(TEXTS, ["text_id", "text"]),
                                           _noting_languages(tables["texts"](), languages), folder / "texts.arrow"))
        scores = {name: stack.enter_context(_score_rows(tables[source.table], source, folder / f"{name}.arrow"))
                  for name, source in SCORES.items() if source.table in tables}
        textrank = None
        if "textrank" in tables:
            textrank = stack.enter_context(grouped(
                "textrank", columns_of(TEXTRANK, READ[TEXTRANK]), _with_ends(tables["textrank"](), words),
                folder / "textrank.arrow"))
            positions(textrank.ids, words.ids, "textrank.parquet")
        lengths = words.numbers(lambda rows: list_lengths(rows["words"]), np.int32)
        yield Inputs(words, lengths, texts, scores, textrank, "en" in languages)


@contextmanager
def _score_rows(batches: Batches, source: WordColumn, file: Path) -> Iterator[MappedTable]:
    columns = ["text_id", *(["pair"] if source.mode == "xy" else []), source.column]
    rows = batches() if source.mode is None else (
        batch.filter(pc.equal(batch["mode"], source.mode)) for batch in batches())
    with copied(source.table, columns_of(_SCHEMAS[source.table], columns), rows, file,
                "pair" if source.mode == "xy" else None) as table:
        if source.mode is not None and not len(table.ids):
            raise InputError(f"{source.table}.parquet: no row is of mode {source.mode}, from which column "
                             f"{source.column} of the pairs is taken. Add {source.mode} to {source.table}.modes in "
                             f"params.yaml.")
        yield table


def _noting_languages(batches: Iterable[pa.Table], languages: set[str]) -> Iterator[pa.Table]:
    for batch in batches:
        languages.update(pc.unique(batch["language"]).to_pylist())
        yield batch


def _with_ends(batches: Iterable[pa.Table], words: MappedTable) -> Iterator[pa.Table]:
    """Yield ``batches`` of the ranking, whose phrases are to end within their texts."""
    tokens = words.numbers(lambda rows: list_lengths(rows["kept"]), np.int32)
    for batch in batches:
        rows = ranked(batch)
        text_ids = rows["text_id"].to_numpy()
        check_ends(text_ids, rows["end"].to_numpy(), tokens[positions(words.ids, text_ids, "tokens.parquet")])
        yield batch
