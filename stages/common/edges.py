"""Edges of the keyword graph as columns, and the choice of the strongest."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Edges:
    """Columns of table ``edges``, sorted by target, then source; a pair of nodes has one sign.

    Attributes:
        target, source: node ids (E,) int32; target receives from source.
        sign: (E,) int8, +1 or -1.
        count: multiplicities (E,) int64.
    """

    target: np.ndarray
    source: np.ndarray
    sign: np.ndarray
    count: np.ndarray

    def __len__(self) -> int:
        return len(self.target)

    @classmethod
    def of(cls, target: np.ndarray, source: np.ndarray, sign: np.ndarray, count: np.ndarray) -> "Edges":
        """Return the columns with the types of the table."""
        return cls(target.astype(np.int32), source.astype(np.int32), sign.astype(np.int8), count.astype(np.int64))

    @classmethod
    def joined(cls, parts: "list[Edges]") -> "Edges":
        """Return the edges of ``parts``, one after the other."""
        empty = np.zeros(0, dtype=np.int64)
        return cls.of(*(np.concatenate([empty, *(getattr(part, name) for part in parts)])
                        for name in ("target", "source", "sign", "count")))

    def where(self, chosen: np.ndarray) -> "Edges":
        """Return the edges that ``chosen`` (a mask, or places) takes."""
        return Edges(self.target[chosen], self.source[chosen], self.sign[chosen], self.count[chosen])

    def table(self) -> pa.Table:
        """Return table ``edges``."""
        return pa.table({"target": self.target, "source": self.source, "sign": self.sign, "count": self.count})


def strongest(group: np.ndarray, column: np.ndarray, count: np.ndarray, columns: int,
              limit: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ``limit`` largest counts of each group; of equal counts, those of the smaller columns.

    Args:
        group: number of the group of each entry (n,), not negative.
        column: (n,), below ``columns``; a pair of group and column stands at most once.
        count: (n,), at least 1.
        columns: number of columns.
        limit: entries kept per group; None keeps all.

    Returns:
        Group, column and count of the entries kept: by group, falling count, rising column.
    """
    peak = int(count.max(initial=0))
    sizes = np.bincount(group)
    width = (peak + 1) * columns
    taken = sizes if limit is None else np.minimum(sizes, limit)
    kept = np.repeat(np.arange(len(sizes)), taken)
    places = np.arange(len(kept)) + np.repeat(np.cumsum(sizes) - sizes - (np.cumsum(taken) - taken), taken)
    if len(sizes) * width >= 2**63:
        order = np.lexsort((column, -count, group))[places]
        return kept, column[order], count[order]
    # The three parts in one number: sorting plain numbers is many times faster than sorting by three keys.
    key = (group.astype(np.int64) * (peak + 1) + (peak - count)) * columns + column
    key.sort()
    rest = key[places] - kept * width
    return kept, rest % columns, peak - rest // columns
