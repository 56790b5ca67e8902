"""Noun chunks with the words that belong to them, made anew from the parts of speech of a token table.

The annotation's own chunks hold nouns alone, so that keywords meet in the graph of a corpus ("old bike" would not meet
"bike"). What a reader takes for the keyword of a question, or marks in a document, is longer, and is cut by three rules
here: adjectives and past participles belong to the noun behind them ("black money"); a hyphen without spaces joins
whatever stands on either side ("state-of-the-art method"); a line's end within a paragraph parts nothing. They are
rules for languages with adjectives before nouns and spaces between words; Chinese keeps the chunks of its annotation.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pyarrow as pa

from keycontrast.ranking.blocks import TokenBlock, among
from keycontrast.text.tokens import NOUNS, chunk_columns, noun_runs

Chunks = Literal["auto", "annotated", "adjectives"]
CHUNKS: tuple[Chunks, ...] = ("auto", "annotated", "adjectives")
_JOINING = frozenset({"-", "\u2010", "\u2011"})
_DESCRIBING = frozenset({*NOUNS, "ADJ"})
_PARTICIPLE = frozenset({"VBN"})
_BRACKETS = frozenset("<>{}\\[]")


def with_chunks(tokens: pa.Table, chunks: Chunks, language: str = "en") -> pa.Table:
    """Return ``tokens`` with the noun chunks that ``chunks`` asks for: ``auto`` is ``adjectives``, but of Chinese."""
    if chunks == "annotated" or not tokens.num_rows or (chunks == "auto" and language == "zh"):
        return tokens
    block = TokenBlock(tokens)
    return set_chunks(block, *described_nouns(block))


def set_chunks(block: TokenBlock, begin: np.ndarray, end: np.ndarray) -> pa.Table:
    """Return the tokens of ``block`` with other noun chunks: first token and token after the last, text by text."""
    tokens, text = block.table, block.text[begin]
    counts, first = np.bincount(text, minlength=tokens.num_rows), block.offsets[text]
    return with_columns(tokens, chunk_columns(counts, begin - first, end - first))


def with_columns(tokens: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return ``tokens`` with other values of some columns."""
    for name, values in columns.items():
        place = tokens.schema.get_field_index(name)
        tokens = tokens.set_column(place, tokens.schema.field(place), values)
    return tokens


def described_nouns(block: TokenBlock) -> tuple[np.ndarray, np.ndarray]:
    """Return first token and token after the last of each noun chunk with adjectives, as places in ``block``.

    A chunk is the longest run of nouns, proper nouns, adjectives and past participles, less what stands behind its
    last noun.
    """
    pos = block.column("pos")
    # Signs, and words with brackets in them, are never part of a phrase, whatever their tags say.
    sound = block.matching(lambda word: any(map(str.isalnum, word)) and not _BRACKETS.intersection(word))
    noun = among(pos, frozenset(NOUNS)) & sound
    inside = (among(pos, _DESCRIBING) | among(block.column("tag"), _PARTICIPLE)) & sound
    follows = np.zeros(len(inside), dtype=bool)  # whether the next token is of the same text
    follows[:-1] = block.text[1:] == block.text[:-1]
    glued = follows & ~block.space_after
    hyphens = _between(block.matching(_JOINING.__contains__), block.matching(str.isalnum), glued)
    for apart in (-1, 0, 1):
        inside[hyphens + apart] = True
    breaks = block.matching(lambda word: word.isspace() and word.count("\n") < 2)
    inside[_between(breaks, inside & ~breaks, follows)] = True
    counts, begin, end = noun_runs(inside, np.diff(block.offsets))
    first = np.repeat(block.offsets[:-1], counts)
    begin, end = begin + first, end + first
    last = np.maximum.accumulate(np.where(noun, np.arange(len(noun)), -1))
    held = last[end - 1] >= begin
    return begin[held], last[end[held] - 1] + 1


def _between(middle: np.ndarray, sides: np.ndarray, joined: np.ndarray) -> np.ndarray:
    """Return the places of ``middle`` with one of ``sides`` before and behind, each joined to its next."""
    places = np.flatnonzero(middle[1:-1] & sides[:-2] & sides[2:] & joined[:-2] & joined[1:-1]) + 1
    return places.astype(np.int64)
