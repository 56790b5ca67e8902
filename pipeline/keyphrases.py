"""Keyphrases of a file of texts at once: no recipe, no params, nothing written but what is asked for.

    ranked = ranked_texts(["Graph theory helps with maps."], "tfidf", Choice(top=3))
    print_json(ranked, sys.stdout)
"""

import csv
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from pipeline.cells import no_formula, printable
from pipeline.given_texts import texts_from
from pipeline.phrase_choice import Choice, Vectors
from stages.common.columns.phrases import PHRASES
from stages.common.methods import FOR_ANY_TEXT, METHODS
from stages.common.tables import Provenance, write_table
from stages.ranking.methods import METHODS as RANKINGS
from stages.ranking.selection import InverseFrequency
from stages.run.errors import InputError, nearest
from stages.text.annotation import annotated
from stages.text.tokens import stream_chunks

STANDARD_INPUT = "-"
DEFAULT = "tfidf"
NAMES = (*RANKINGS, *(name for name in FOR_ANY_TEXT if name != "textrank"))
_PIPELINE = "embedded"
# Texts that a process reads at a time; more processes than one are worth their start from here on.
_CHUNK = 1024
_SHOWN = 72


@dataclass(frozen=True)
class RankedTexts:
    """Texts and the phrases of each.

    Attributes:
        texts: as read; text n of the table is the n-th of them, from 1.
        table: of schema ``phrases``.
    """

    texts: Sequence[str]
    table: pa.Table

    def __iter__(self) -> Iterator[tuple[int, str, list[dict[str, Any]]]]:
        """Yield number, text and phrases of each text, which may have none."""
        found: dict[int, list[dict[str, Any]]] = {number: [] for number in range(1, len(self.texts) + 1)}
        for row in self.table.select(["text_id", "rank", "phrase", "keyword", "score"]).to_pylist():
            if row["rank"]:
                row["phrase"] = " ".join(row["phrase"].split())
                found[row.pop("text_id")].append(row)
        return ((number, self.texts[number - 1], phrases) for number, phrases in found.items())


def checked(method: str | None, what: str = "--method") -> str:
    """Return the ranking that is meant: the one named, or the default.

    Raises:
        InputError: there is none of that name.
    """
    if method is not None and method not in NAMES:
        raise InputError(f"{what}: no ranking is called {method!r}; {nearest(method, NAMES)}")
    return method or DEFAULT


def given(file: str, column: str | None, encoding: str, stream: TextIO) -> list[str]:
    """Return the texts of ``file``, or those on ``stream``, one a line, if it is ``-``.

    Raises:
        InputError: as :func:`pipeline.given_texts.texts_from` says; or there is none.
    """
    if file != STANDARD_INPUT:
        return list(texts_from([], Path(file), stream, column, encoding))
    if stream.isatty():
        raise InputError("standard input is this terminal. Pipe texts into the command, one a line, or name a file.")
    if column is not None:
        raise InputError("--column: standard input is read line by line and has no columns; leave it out, or name a "
                         "table (.csv, .tsv, .jsonl, .parquet).")
    texts = list(texts_from([], None, stream))
    if not texts:
        raise InputError("standard input: there is no text. It should have one per line.")
    return texts


def ranked_texts(texts: Sequence[str], method: str, choice: Choice, language: str = "en") -> RankedTexts:
    """Return the phrases of ``texts``; IDF is over these texts.

    Args:
        texts: any number.
        method: one of :data:`NAMES`.
        choice: which phrases of a text are kept.
        language: of all texts.

    Raises:
        InputError: nothing reads the language.
    """
    ids = pa.array(range(1, len(texts) + 1), pa.int64())
    chunks = list(stream_chunks([pa.table({"text_id": ids, "text": pa.array(texts, pa.string())})], _CHUNK))
    tokens = pa.concat_tables(annotated(chunks, _PIPELINE, language, len(texts), min(os.cpu_count() or 1, len(chunks))))
    ranked = ranker(method, choice.drawn, language, InverseFrequency.over_tables([tokens]))(tokens)
    return RankedTexts(texts, choice.chosen(ranked, choice.counted([ranked]), likeness(method)))


def ranker(method: str, top: int, language: str, idf: InverseFrequency | None) -> Callable[[pa.Table], pa.Table]:
    """Return what makes rows of schema ``phrases``, at most ``top`` a text, of token tables.

    Args:
        method: one of :data:`NAMES`.
        top: phrases per text at most.
        language: of the texts.
        idf: over whatever texts count.
    """
    from stages.params.root import Params  # pydantic takes a while to import

    name = method if method in METHODS else "textrank"
    block: Any = Params.model_fields[name].annotation
    changes = {"method": method} if name == "textrank" else {}
    ranked = METHODS[name].ranker(block(phrases=top, **changes), language, idf)
    return lambda tokens: ranked(tokens).table


def likeness(method: str) -> Vectors | None:
    """Return the vectors by which a choice compares phrases: those of the method's encoder, if it has one."""
    if method != "embedrank":
        return None
    from stages.keywords.embedrank import phrase_vectors

    return phrase_vectors


def print_texts(found: RankedTexts, stream: TextIO) -> None:
    """Write each text's beginning and below it its phrases with their scores, for a person."""
    for number, text, phrases in found:
        line = printable(" ".join(text.split()))
        stream.write(f"{number}  {line if len(line) <= _SHOWN else line[:_SHOWN - 1] + '…'}\n")
        for phrase in phrases:
            stream.write(f"{phrase['score']:12.4g}  {printable(phrase['phrase'])}\n")
        if not phrases:
            stream.write(f"{'':14}(no phrase)\n")


def print_csv(found: RankedTexts, stream: TextIO) -> None:
    """Write a row per phrase as CSV, with nothing in it that a spreadsheet would take for a formula."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["text", "rank", "phrase", "keyword", "score"])
    for number, _, phrases in found:
        for phrase in phrases:
            writer.writerow([number, phrase["rank"], *(no_formula(printable(phrase[name])) for name in
                                                       ("phrase", "keyword")), phrase["score"]])


def print_json(found: RankedTexts, stream: TextIO) -> None:
    """Write one JSON object per text, those without a phrase too."""
    for number, _, phrases in found:
        stream.write(_SILENT.sub(lambda letter: f"\\u{ord(letter[0]):04x}",
                                 json.dumps({"text": number, "phrases": phrases}, ensure_ascii=False)) + "\n")


# What JSON may hold as it is, and a terminal obeys.
_SILENT = re.compile("[\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def check_parquet(path: Path) -> None:
    """Refuse, before anything is ranked, a file whose ending is another.

    Raises:
        InputError: it is.
    """
    if path.suffix != ".parquet":
        raise InputError(f"--out: {path} must end in .parquet; --csv and --jsonl write to standard output.")


def write_parquet(found: RankedTexts, path: Path, method: str) -> None:
    """Write the table of phrases, whole or not at all."""
    write_table(path, PHRASES, found.table, Provenance("keywords", method))
