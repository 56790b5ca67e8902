"""The spans of a token table that may be phrases: noun chunks, with adjectives or not, or phrases of a vocabulary.

The chunks of the annotation contain only nouns, so that texts share nodes in the graph of a corpus ("old bike" would
not equal "bike"). Keyphrases that readers choose for a question or a document are longer. Three rules extend the chunks
here: adjectives and past participles belong to the noun after them ("black money"); a hyphen without spaces joins the
words on either side ("state-of-the-art method"); a line break within a paragraph separates nothing. The rules are for
languages with adjectives before nouns and spaces between words; Chinese keeps the chunks of its annotation.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from keycontrast.ranking.blocks import TokenBlock, among, blocks, written_texts
from keycontrast.ranking.cooccurrence import parts_paragraphs
from keycontrast.text.normal_form import normal_form
from keycontrast.text.tokens import NOUNS, chunk_columns, list_array, noun_runs

if TYPE_CHECKING:
    from keycontrast.containment import Containment

Chunks = Literal["auto", "annotated", "adjectives"]
CHUNKS: tuple[Chunks, ...] = ("auto", "annotated", "adjectives")
_JOINING = frozenset({"-", "\u2010", "\u2011"})
_DESCRIBING = frozenset({*NOUNS, "ADJ"})
_PARTICIPLE = frozenset({"VBN"})
_BRACKETS = frozenset("<>{}\\[]")
# Part of speech and tag of a stop word: no rule makes a phrase of it.
_NO_WORD = "X"


def with_chunks(tokens: pa.Table, chunks: Chunks, language: str = "en") -> pa.Table:
    """Return ``tokens`` with the noun chunks that ``chunks`` names: ``auto`` is ``adjectives``, except in Chinese."""
    if chunks == "annotated" or not tokens.num_rows or (chunks == "auto" and language == "zh"):
        return tokens
    block = TokenBlock(tokens)
    return _set_chunks(block, *_described_nouns(block))


def with_candidates(tokens: pa.Table, language: str, stop_words: frozenset[str],
                    vocabulary: "Containment | None") -> pa.Table:
    """Return ``tokens`` whose noun chunks are the phrases that may be ranked.

    ``stop_words``, in normal form, part chunks. Occurrences of a ``vocabulary`` take the place of noun chunks.
    """
    parts = [tokens.slice(0, 0)]
    for block in blocks(tokens):
        rows = _without(block, stop_words) if stop_words else block.table
        parts.append(with_chunks(rows, "auto", language) if vocabulary is None else _occurrences(rows, vocabulary))
    return pa.concat_tables(parts)


def listed_words(name: str, words: Any) -> tuple[str, ...]:
    """Return the words or phrases that an option lists."""
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise InputError(f"{name}: a list of words is needed, such as ['water', 'red ball'], found {words!r}")
    word_list = tuple(words)
    for word in word_list:
        if not isinstance(word, str) or not word.strip():
            raise InputError(f"{name}: a word is needed, found {word!r}")
    return word_list


def _set_chunks(block: TokenBlock, begin: np.ndarray, end: np.ndarray) -> pa.Table:
    """Return the tokens of ``block`` with other noun chunks: first token and token after the last, text by text."""
    tokens, text = block.table, block.text[begin]
    counts, first = np.bincount(text, minlength=tokens.num_rows), block.offsets[text]
    return _with_columns(tokens, chunk_columns(counts, begin - first, end - first))


def _with_columns(tokens: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, values in columns.items():
        place = tokens.schema.get_field_index(name)
        tokens = tokens.set_column(place, tokens.schema.field(place), values)
    return tokens


def _described_nouns(block: TokenBlock) -> tuple[np.ndarray, np.ndarray]:
    """Return first token and token after the last of runs of nouns, adjectives and participles up to the last noun."""
    pos = block.column("pos")
    # Signs, and words with brackets in them, are never part of a phrase, whatever their tags say.
    sound = block.matching(lambda word: any(map(str.isalnum, word)) and not _BRACKETS.intersection(word))
    noun = among(pos, frozenset(NOUNS)) & sound
    inside = (among(pos, _DESCRIBING) | among(block.column("tag"), _PARTICIPLE)) & sound
    follows = np.zeros(len(inside), dtype=bool)  # whether the next token is of the same text
    follows[:-1] = block.text[1:] == block.text[:-1]
    glued = follows & ~block.space_after
    words = block.matching(str.isalnum) & ~among(pos, frozenset({_NO_WORD}))
    hyphens = _between(block.matching(_JOINING.__contains__), words, glued)
    for apart in (-1, 0, 1):
        inside[hyphens + apart] = True
    breaks = block.matching(lambda word: word.isspace() and not parts_paragraphs(word))
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


def _without(block: TokenBlock, words: frozenset[str]) -> pa.Table:
    stops = block.matching(lambda word: normal_form(word) in words)
    span, places = block.chunks.members()
    span, places = span[~stops[places]], places[~stops[places]]
    opens = np.append(True, (np.diff(span) != 0) | (np.diff(places) != 1))[:len(places)]
    closes = np.append(opens[1:], True)[:len(places)]
    chunked = _set_chunks(block, places[opens], places[closes] + 1)
    lengths = np.diff(block.offsets)
    changed = {name: pc.if_else(pa.array(stops), value, block.column(name))
               for name, value in (("pos", _NO_WORD), ("tag", _NO_WORD), ("is_stop", True))}
    return _with_columns(chunked, {name: list_array(lengths, values) for name, values in changed.items()})


def _occurrences(tokens: pa.Table, vocabulary: "Containment") -> pa.Table:
    block = TokenBlock(tokens)
    # Apostrophes count here: the candidate "shell" is not in "she'll".
    spans = [(first, last) for (text, starts, ends), offset in zip(written_texts(block), block.offsets, strict=False)
             for first, last in sorted({(first + offset, last + offset) for first, last, phrase in vocabulary.places(
                 text, starts.tolist(), ends.tolist(), ())
                 if normal_form(text[starts[first]:ends[last - 1]]).count("'") == phrase.count("'")})]
    return _set_chunks(block, *np.array(spans, dtype=np.int64).reshape(-1, 2).T)
