"""The texts to be scored, block by block."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.text.batches import fixed_chunks, piece_counts
from stages.attribution.saliency.scorers import Pairs, Scorer
from stages.common.examples import MODES
from stages.common.schemas import ATTRIBUTION
from stages.common.tables import as_table

# Chunks that are scored together.
BLOCK_CHUNKS = 64
# Pairs are padded to multiples of this: a finer step than that of single texts pads less, and they are many.
_WIDTHS = 8
# Rows of the table that are written at once.
_WRITTEN_ROWS = 4096


@dataclass(frozen=True)
class Attributed:
    """Some rows of table ``attribution``, and how many of their words have no word piece."""

    table: pa.Table
    unaligned: int

    @property
    def counts(self) -> dict[str, int]:
        """Counts for the metadata: rows by mode, words, and those without pieces."""
        rows = {f"rows_{found['values']}": found["counts"]
                for found in sorted(pc.value_counts(self.table["mode"]).to_pylist(), key=lambda one: one["values"])}
        words = int(pc.sum(pc.list_value_length(self.table["score"])).as_py() or 0)
        return {**rows, "words": words, "unaligned_words": self.unaligned}


@dataclass(frozen=True)
class Piece:
    """A block with all that is needed to score it.

    Attributes:
        requests: (rows, 3) text, mode and second text.
        text_of: its texts by id.
        words: the tokens of the first texts.
    """

    requests: np.ndarray
    text_of: Mapping[int, str]
    words: pa.Table


def score_block(piece: Piece, scorer: Scorer) -> Attributed:
    """Return the rows of table ``attribution`` for a block."""
    requests, text_of, words = piece.requests, piece.text_of, piece.words
    firsts, seconds = ([text_of[number] for number in requests[:, side].tolist()] for side in (0, 2))
    pairs = Pairs(firsts, seconds, _ragged(words["start"]), _ragged(words["end"]))
    pieces = piece_counts(scorer.tokenizer, sorted({*firsts, *seconds}))
    lengths = scorer.lengths([(pieces[first], pieces[second]) for first, second in zip(firsts, seconds, strict=True)])
    scores: list[np.ndarray] = [np.zeros(0, dtype=np.float32)] * len(requests)
    unaligned = 0
    for chunk in fixed_chunks(lengths, scorer.size, scorer.longest, _WIDTHS):
        found, lost = scorer(pairs.at(chunk.rows), chunk.width)
        for item, score in zip(chunk.items, found, strict=False):  # the rest are repeats that fill the chunk
            scores[item] = score
        unaligned += int(lost[:len(chunk.items)].sum())
    return _attributed(requests, words, scores, unaligned)


def _ragged(column: pa.ChunkedArray) -> list[np.ndarray]:
    """Return a list column as one array per row, without copying its values."""
    lists = column.combine_chunks()
    bounds = lists.offsets.to_numpy()
    values = lists.values.to_numpy()
    return [values[first:last] for first, last in zip(bounds[:-1], bounds[1:], strict=True)]


def _attributed(requests: np.ndarray, words: pa.Table, scores: list[np.ndarray], unaligned: int) -> Attributed:
    bounds = np.concatenate([[0], np.cumsum([len(score) for score in scores])]).astype(np.int32)
    return Attributed(as_table(ATTRIBUTION, {
        "text_id": requests[:, 0], "mode": np.array(MODES)[requests[:, 1]], "pair": requests[:, 2],
        "word": words["token"], "score": pa.ListArray.from_arrays(bounds, np.concatenate(scores))}), unaligned)


def gathered(blocks: Iterable[Attributed], counts: Counter[str]) -> Iterator[pa.Table]:
    """Yield the rows of ``blocks`` in pieces of at least a few thousand, and add up their counts in ``counts``."""
    waiting: list[pa.Table] = []
    for block in blocks:
        counts.update(block.counts)
        waiting.append(block.table)
        if sum(table.num_rows for table in waiting) >= _WRITTEN_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def fallbacks(counts: Mapping[str, int]) -> list[str]:
    """Return one sentence if words were left at 0 for want of word pieces."""
    unaligned, words = counts["unaligned_words"], counts["words"]
    return [f"{unaligned} of {words} words score 0: cut off by the network's length, or without "
            f"word pieces of their own"] if unaligned else []
