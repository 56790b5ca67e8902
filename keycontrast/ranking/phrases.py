"""From scored spans of a block to ranked phrases, each once per text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.ranking.blocks import Spans, TokenBlock, encode, run_starts
from keycontrast.ranking.selection import InverseFrequency, best_first
from keycontrast.text.normal_form import normal_form

if TYPE_CHECKING:
    from keycontrast.ranking.methods import Solved


@dataclass(frozen=True)
class Phrases:
    """Ranked phrases of the texts of a block, text by text, best first.

    Attributes:
        spans: first occurrence of each.
        rank: 1 for a text's best, (phrases,).
        score: (phrases,).
        phrase: as written, (phrases,).
        keyword: normal form, (phrases,).
    """

    spans: Spans
    rank: np.ndarray
    score: np.ndarray
    phrase: pa.Array
    keyword: pa.Array


def rank_spans(block: TokenBlock, solved: "Solved", idf: InverseFrequency | None, limit: int | None) -> Phrases:
    """Rank the phrases whose occurrences were scored, ``limit`` of each text or all.

    Occurrences with the same normal form are one phrase, with the highest of their scores. Order is by score, IDF over
    training texts, position. Those without a normal form, such as a lone apostrophe, are left out.
    """
    written = span_text(block, solved.spans)
    read = pc.replace_substring(written, "'", "") if solved.scrub else written
    codes, known = encode(read, str if solved.as_package else normal_form)
    forms = list(map(normal_form, known)) if solved.as_package else known
    named = np.array([bool(form) for form in forms], dtype=bool)[codes]
    places, best = _once(solved.spans, codes, np.flatnonzero(named), solved.score)
    found = solved.spans.take(places)
    if solved.as_package:
        tie = np.argsort(sorted(range(len(known)), key=known.__getitem__)).astype(np.int64)
        order = np.lexsort((tie[codes[places]], -best, found.text))
    else:
        means = np.zeros(len(found)) if idf is None else idf.means(block, found)
        order = best_first(found.text, best, means, found.start, found.end)
    text = found.text[order]
    rank = np.arange(len(order)) - np.searchsorted(text, text) + 1
    kept = rank <= (len(rank) if limit is None else limit)
    order, chosen = order[kept], pa.array(places[order[kept]])
    return Phrases(found.take(order), rank[kept], best[order], written.take(chosen),
                   pa.array(forms, pa.string()).take(pa.array(codes[places[order]])))


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


def _once(spans: Spans, codes: np.ndarray, places: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of the first occurrence of each (text, code) among ``places``, and the highest score of all."""
    order = places[np.lexsort((spans.start[places], codes[places], spans.text[places]))]
    opens = np.flatnonzero(run_starts(spans.text[order]) | run_starts(codes[order]))
    return order[opens], np.maximum.reduceat(score[order], opens) if len(order) else score[order]
