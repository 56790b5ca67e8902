"""What may be a phrase: noun chunks without certain words, or the occurrences of a vocabulary."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from keycontrast.network import Containment
from keycontrast.ranking.blocks import TokenBlock, blocks
from keycontrast.ranking.chunks import set_chunks, with_chunks, with_columns
from keycontrast.ranking.phrases import written_texts
from keycontrast.text.normal_form import normal_form
from keycontrast.text.tokens import list_array

# Part of speech and tag of a stop word: no rule makes a phrase of it.
_NO_WORD = "X"


def listed_words(name: str, words: Any) -> tuple[str, ...]:
    """Return the words or phrases that an option lists."""
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise InputError(f"{name}: a list of words is needed, such as ['water', 'red ball'], found {words!r}")
    found = tuple(words)
    for word in found:
        if not isinstance(word, str) or not word.strip():
            raise InputError(f"{name}: a word is needed, found {word!r}")
    return found


def with_candidates(tokens: pa.Table, language: str, stop_words: frozenset[str],
                    vocabulary: Containment | None) -> pa.Table:
    """Return ``tokens`` whose noun chunks are the phrases that may be ranked.

    ``stop_words``, in normal form, part chunks and belong to no graph. The occurrences of a ``vocabulary`` take the
    place of noun chunks.
    """
    made = [tokens.slice(0, 0)]
    for block in blocks(tokens):
        rows = _without(block, stop_words) if stop_words else block.table
        made.append(with_chunks(rows, "auto", language) if vocabulary is None else _occurrences(rows, vocabulary))
    return pa.concat_tables(made)


def _without(block: TokenBlock, words: frozenset[str]) -> pa.Table:
    stops = block.matching(lambda word: normal_form(word) in words)
    span, places = block.chunks.members()
    span, places = span[~stops[places]], places[~stops[places]]
    opens = np.append(True, (np.diff(span) != 0) | (np.diff(places) != 1))[:len(places)]
    closes = np.append(opens[1:], True)[:len(places)]
    made = set_chunks(block, places[opens], places[closes] + 1)
    lengths = np.diff(block.offsets)
    return with_columns(made, {name: list_array(lengths, pc.if_else(pa.array(stops), _NO_WORD, block.column(name)))
                               for name in ("pos", "tag")})


def _occurrences(tokens: pa.Table, vocabulary: Containment) -> pa.Table:
    block = TokenBlock(tokens)
    found = [(first, last) for (text, starts, ends), offset in zip(written_texts(block), block.offsets, strict=False)
             for first, last in sorted({(first + offset, last + offset) for first, last, _ in vocabulary.places(
                 text, starts.tolist(), ends.tolist(), ())})]
    return set_chunks(block, *np.array(found, dtype=np.int64).reshape(-1, 2).T)
