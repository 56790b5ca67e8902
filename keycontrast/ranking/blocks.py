"""Token tables as flat arrays: all tokens of many texts side by side, so that steps run over a block at once.

A block holds whole texts. How texts fall into blocks bounds memory and changes no result: every step sums within
one text at a time, in the order of its tokens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError

# Tokens of a block; a longer text is a block of its own. About 100 MiB of working arrays.
BLOCK = 1 << 17


@dataclass(frozen=True)
class TokenBlock:
    """Whole texts of a token table, flattened."""

    table: pa.Table

    @cached_property
    def text_ids(self) -> np.ndarray:
        """Text ids, (texts,)."""
        return self.table["text_id"].to_numpy()

    @cached_property
    def offsets(self) -> np.ndarray:
        """Place of each text's first token, and the number of tokens at the end, (texts + 1,)."""
        return _offsets(self.table["token"])

    @cached_property
    def text(self) -> np.ndarray:
        """Row of the text that each token belongs to, (tokens,)."""
        return np.repeat(np.arange(self.table.num_rows), np.diff(self.offsets))

    def column(self, name: str) -> pa.Array:
        """Return a list column flattened, (tokens,)."""
        if not np.array_equal(_offsets(self.table[name]), self.offsets):
            raise InputError(f"table tokens: the lists of column {name!r} are not as long as those of 'token'; "
                             f"run the stage annotate again.")
        return _flat(self.table[name])

    @cached_property
    def tokens(self) -> pa.Array:
        """Tokens as written, (tokens,)."""
        return self.column("token")

    @cached_property
    def words(self) -> tuple[np.ndarray, list[str]]:
        """The number of each token in the list of distinct ones, (tokens,), and that list."""
        return encode(self.tokens)

    def matching(self, test: Callable[[str], bool]) -> np.ndarray:
        """Return whether each token passes ``test``, which is called once per distinct one, (tokens,)."""
        codes, known = self.words
        return np.array([test(word) for word in known], dtype=bool)[codes]

    @cached_property
    def sentence(self) -> np.ndarray:
        """Number of the sentence that each token is in, over the block; no sentence spans two texts, (tokens,)."""
        opens = self.column("sentence_start").to_numpy(zero_copy_only=False).astype(bool)
        opens[self.offsets[:-1][np.diff(self.offsets) > 0]] = True
        return np.cumsum(opens)

    @cached_property
    def space_after(self) -> np.ndarray:
        """Whether the text has a space between the token and the next one, (tokens,)."""
        start, end = (self.column(name).to_numpy() for name in ("start", "end"))
        gap = np.zeros(len(start), dtype=bool)
        gap[:-1] = (start[1:] > end[:-1]) & (self.text[1:] == self.text[:-1])
        return gap

    @cached_property
    def chunks(self) -> "Spans":
        """Noun chunks that hold a token, in the order of the table."""
        offsets = _offsets(self.table["chunk_start"])
        text = np.repeat(np.arange(self.table.num_rows), np.diff(offsets))
        start, end = (_flat(self.table[name]).to_numpy().astype(np.int64) for name in ("chunk_start", "chunk_end"))
        if len(start) != len(end) or (end > np.diff(self.offsets)[text]).any() or (start > end).any():
            raise InputError("table tokens: noun chunks lie outside their texts; run the stage annotate again.")
        return Spans(text, start + self.offsets[text], end + self.offsets[text]).take(end > start)


@dataclass(frozen=True)
class Spans:
    """Runs of tokens in a block: row of the text, place of the first token, place after the last, each (spans,)."""

    text: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def __len__(self) -> int:
        return len(self.text)

    def take(self, places: np.ndarray) -> "Spans":
        """Return the spans at ``places`` (numbers or a mask)."""
        return Spans(self.text[places], self.start[places], self.end[places])

    def members(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the span of each member token and its place in the block, span by span."""
        lengths = self.end - self.start
        span = np.repeat(np.arange(len(self)), lengths)
        first = np.cumsum(lengths) - lengths
        return span, np.arange(len(span)) - first[span] + self.start[span]


def blocks(tokens: pa.Table, size: int = BLOCK) -> Iterator[TokenBlock]:
    """Cut a token table into blocks of at most ``size`` tokens, or of one text that is longer than that."""
    lengths = np.diff(_offsets(tokens["token"]))
    start, held = 0, 0
    for row, length in enumerate(lengths.tolist()):
        if row > start and held + length > size:
            yield TokenBlock(tokens.slice(start, row - start))
            start, held = row, 0
        held += length
    if start < tokens.num_rows:
        yield TokenBlock(tokens.slice(start))


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


def encode(strings: pa.Array, form: Callable[[str], str] = str) -> tuple[np.ndarray, list[str]]:
    """Return the number of each string's form, and the distinct forms; ``form`` is called once per distinct string."""
    encoded = strings.dictionary_encode()
    numbers: dict[str, int] = {}
    of_known = [numbers.setdefault(form(word), len(numbers)) for word in encoded.dictionary.to_pylist()]
    return np.array(of_known, dtype=np.int64)[encoded.indices.to_numpy()], list(numbers)


def among(strings: pa.Array, values: frozenset[str]) -> np.ndarray:
    """Return whether each string is one of ``values``."""
    return pc.is_in(strings, pa.array(sorted(values), strings.type)).to_numpy(zero_copy_only=False)


def sum_by(group: np.ndarray, values: np.ndarray, groups: int) -> np.ndarray:
    """Return the sum of the values of each group, added one after another in their order, (groups,)."""
    # Of no values at all, bincount makes integers.
    return np.bincount(group, weights=values, minlength=groups).astype(np.float64, copy=False)


def run_starts(values: np.ndarray) -> np.ndarray:
    """Return whether each value opens a run of equal ones, (values,)."""
    return np.append(True, values[1:] != values[:-1])[:len(values)]


def _offsets(column: pa.ChunkedArray) -> np.ndarray:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return pc.list_flatten(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))
