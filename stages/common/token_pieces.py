"""Token tables in pieces of about the same size."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

# Tokens of a block; a longer text is a block of its own. About 100 MiB of working arrays.
BLOCK = 1 << 17
# Texts of a piece that a worker ranks at a time, if they are short.
PIECE = 1 << 12


def pieces(batches: Iterable[pa.Table], texts: int = PIECE, size: int = BLOCK) -> Iterator[pa.Table]:
    """Join small ``batches`` of a token table to pieces of about ``texts`` texts or ``size`` tokens.

    Pieces are cut by what they hold and by nothing else, so that they are the same whoever works on them.
    """
    held: list[pa.Table] = []
    rows = tokens = 0
    for batch in batches:
        held.append(batch)
        rows, tokens = rows + batch.num_rows, tokens + (pc.sum(pc.list_value_length(batch["token"])).as_py() or 0)
        if rows >= texts or tokens >= size:
            yield pa.concat_tables(held).combine_chunks()
            held, rows, tokens = [], 0, 0
    if held:
        yield pa.concat_tables(held).combine_chunks()
