"""Numbers for distinct keys, by first appearance, without holding the keys in memory."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np

from stages.ingest.deduplication.on_disk import Buckets, RecordFile, in_order
from stages.run.errors import InputError

_OCCURRENCE = np.dtype([("high", "<u8"), ("low", "<u8"), ("place", "<i8")])
_FIRST = np.dtype([("place", "<i8"), ("first", "<i8")])
_NUMBER = np.dtype("<i4")


class Numbering:
    """Gives each distinct key the number of keys before it.

    A key is known by 128 bits of its BLAKE2 hash. That two of a billion keys share them has a chance of
    1 in 10**21 and is left out of account. Memory: a few bits per occurrence.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._occurrences = Buckets(folder / "hashes", _OCCURRENCE)
        self._total = 0

    def add(self, keys: Iterable[str]) -> None:
        """Note the next occurrences."""
        hashes = np.frombuffer(b"".join([blake2b(key.encode(), digest_size=16).digest() for key in keys]), "<u8")
        records = np.empty(len(hashes) // 2, _OCCURRENCE)
        records["high"], records["low"] = hashes[::2], hashes[1::2]
        records["place"] = np.arange(self._total, self._total + len(records))
        self._total += len(records)
        self._occurrences.add((records["high"] % self._occurrences.count).astype(np.int64), records)

    def numbers(self) -> RecordFile:
        """Return the number of each occurrence, in their order; nothing can be added afterwards.

        Raises:
            InputError: there are more keys than numbers of four bytes.
        """
        is_first = np.zeros(-(-self._total // 64), dtype="<u8")
        folder = self._folder / "places"
        folder.mkdir()
        firsts = in_order(folder / "firsts", self._firsts(is_first), _FIRST, self._total)
        # The number of a key is how many first occurrences come before its own.
        before = np.cumsum(np.bitwise_count(is_first), dtype=np.int64) - np.bitwise_count(is_first)
        if len(before) and before[-1] > np.iinfo(_NUMBER).max - 64:
            raise InputError(f"the data set has more than {np.iinfo(_NUMBER).max} different texts: cut it up.")
        numbers = RecordFile(self._folder / "numbers", _NUMBER)
        for block in firsts.blocks():
            word, bit = block["first"] // 64, (block["first"] % 64).astype(np.uint64)
            lower = is_first[word] & ((np.uint64(1) << bit) - np.uint64(1))
            numbers.add(before[word] + np.bitwise_count(lower))
        firsts.remove()
        return numbers

    def _firsts(self, is_first: np.ndarray) -> Iterator[np.ndarray]:
        """Yield each occurrence with the first one of its key, and mark the latter in the bits ``is_first``."""
        for records in self._occurrences.take():
            records = records[np.lexsort((records["place"], records["low"], records["high"]))]
            starts = np.ones(len(records), dtype=bool)
            starts[1:] = ((records["high"][1:] != records["high"][:-1]) | (records["low"][1:] != records["low"][:-1]))
            found = np.empty(len(records), _FIRST)
            found["place"] = records["place"]
            found["first"] = records["place"][starts][np.cumsum(starts) - 1]
            places = found["place"][starts]
            np.bitwise_or.at(is_first, places // 64, np.uint64(1) << (places % 64).astype(np.uint64))
            yield found


def new_numbers(numbers: np.ndarray, known: int) -> np.ndarray:
    """Return where (n,) ``numbers`` has one for the first time, if those below ``known`` came before."""
    highest = np.maximum.accumulate(np.concatenate([[known - 1], numbers]))
    return highest[1:] > highest[:-1]
