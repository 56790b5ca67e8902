"""From scored spans of a block to ranked phrases, each once per text."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.ranking.blocks import Spans, TokenBlock, encode, encode_as, segment_ranks
from keycontrast.ranking.selection import InverseFrequency, best_first
from keycontrast.text.normal_form import normal_form


@dataclass(frozen=True)
class Phrases:
    """Ranked phrases of the texts of a block, text by text, best first.

    Attributes:
        spans: first occurrence of each.
        rank: 1 for a text's best, (phrases,).
        score: (phrases,).
        idf: mean IDF of the tokens, (phrases,); zeros without an IDF.
        phrase: as written, (phrases,).
        keyword: normal form, (phrases,).
    """

    spans: Spans
    rank: np.ndarray
    score: np.ndarray
    idf: np.ndarray
    phrase: pa.Array
    keyword: pa.Array


def rank_spans(block: TokenBlock, spans: Spans, score: np.ndarray, idf: InverseFrequency | None, limit: int | None,
               scrub: bool) -> Phrases:
    """Rank the phrases that ``spans`` are occurrences of.

    Occurrences with the same normal form are one phrase, with the highest of their scores; where they differ is
    in how they are written. Order is by score, IDF over training texts, position.

    Args:
        block: texts.
        spans: occurrences.
        score: of each.
        idf: breaks ties; without it the position does.
        limit: phrases kept per text; None keeps all.
        scrub: leave apostrophes out of keywords, as the pytextrank package does.
    """
    written = span_text(block, spans)
    codes, forms = encode_as(_scrubbed(written) if scrub else written, normal_form)
    named = np.array([bool(form) for form in forms], dtype=bool)
    group = np.flatnonzero(named[codes]) if len(codes) else np.zeros(0, dtype=np.int64)
    firsts, best = _once(spans.take(group), codes[group], len(forms), score[group])
    places = group[firsts]
    found = spans.take(places)
    means = np.zeros(len(found)) if idf is None else idf.means(block, found)
    order = best_first(found.text, best, means, found.start, found.end)
    return _cut(found, order, best, means, written.take(pa.array(places)),
                pa.array(forms, pa.string()).take(pa.array(codes[places])), limit)


def rank_spans_as_pytextrank(block: TokenBlock, spans: Spans, score: np.ndarray, limit: int | None) -> Phrases:
    """Rank spans in the order of the pytextrank package, ties by text.

    The package tells phrases apart by how they are written, capitals included, but for apostrophes. A phrase
    without a normal form (a lone apostrophe) is left out.

    Args:
        block: texts.
        spans: occurrences.
        score: of each.
        limit: phrases kept per text; None keeps all.
    """
    written = span_text(block, spans)
    codes, known = encode(_scrubbed(written))
    forms = [normal_form(text) for text in known.to_pylist()]
    named = np.array([bool(form) for form in forms], dtype=bool)
    group = np.flatnonzero(named[codes]) if len(codes) else np.zeros(0, dtype=np.int64)
    # Bytes of UTF-8 sort as code points do, and so as Python's strings.
    tie = np.empty(len(known), dtype=np.int64)
    tie[pc.sort_indices(known).to_numpy()] = np.arange(len(known))
    firsts, best = _once(spans.take(group), codes[group], len(forms), score[group])
    places = group[firsts]
    found = spans.take(places)
    order = np.lexsort((tie[codes[places]], -best, found.text))
    return _cut(found, order, best, np.zeros(len(found)), written.take(pa.array(places)),
                pa.array(forms, pa.string()).take(pa.array(codes[places])), limit)


def span_text(block: TokenBlock, spans: Spans) -> pa.Array:
    """Return each span as it is written in its text, (spans,)."""
    span, places = spans.members()
    ends = spans.end[span] - 1 == places
    # Each token is followed by a space or by nothing; both lie behind the tokens.
    parts = pa.concat_arrays([block.tokens, pa.array(["", " "], block.tokens.type)])
    spaced = len(block.tokens) + (block.space_after[places] & ~ends)
    pieces = np.stack([places, spaced], axis=1).ravel()
    offsets = np.concatenate([[0], np.cumsum(2 * (spans.end - spans.start))])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), parts.take(pa.array(pieces)))
    return pc.binary_join(lists, "")


def written_texts(block: TokenBlock) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield each text from its tokens, and the first character of each token and the one after its last."""
    texts = span_text(block, Spans(np.arange(block.table.num_rows), block.offsets[:-1], block.offsets[1:])).to_pylist()
    lengths = pc.utf8_length(block.tokens).to_numpy().astype(np.int64)
    begins = np.append(0, np.cumsum(lengths + block.space_after))
    for row, text in enumerate(texts):
        tokens = slice(block.offsets[row], block.offsets[row + 1])
        starts = begins[tokens] - begins[tokens.start]
        yield text, starts, starts + lengths[tokens]


def _scrubbed(written: pa.Array) -> pa.Array:
    return pc.replace_substring(written, "'", "")


def _once(spans: Spans, codes: np.ndarray, kinds: int, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of the first occurrence of each (text, code), and the highest score of all of them."""
    key = spans.text * max(kinds, 1) + codes
    order = np.lexsort((spans.start, key))
    opens = np.flatnonzero(np.append(True, key[order][1:] != key[order][:-1])) if len(order) else order
    best = np.maximum.reduceat(score[order], opens) if len(order) else score
    return order[opens], best


def _cut(spans: Spans, order: np.ndarray, score: np.ndarray, idf: np.ndarray, phrase: pa.Array, keyword: pa.Array,
         limit: int | None) -> Phrases:
    rank = segment_ranks(spans.text[order]) + 1
    kept = rank <= (len(rank) if limit is None else limit)
    order = order[kept]
    return Phrases(spans.take(order), rank[kept], score[order], idf[order], phrase.take(pa.array(order)),
                   keyword.take(pa.array(order)))
