"""Word vectors: from a file of text, or trained on the texts of a data set.

A file is read line by line, so that only the wanted words lie in memory. Three layouts are told apart by the first
line, gzip by the first bytes, never by the name:

- word2vec text and fastText ``.vec``: a line ``COUNT WIDTH``, then ``word x1 ... xD`` per line;
- GloVe text: no such line, the width being that of the first word.

Lines end at newlines alone (GloVe's Twitter file has a word U+0085), and a word may hold spaces (GloVe's largest
file has ". . ."): its last D fields are the vector. The shape of every line is checked; numbers are read, and so
checked, for wanted words only.
"""

import gzip
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np

from keycontrast.errors import InputError

_LARGEST = float(np.finfo(np.float32).max)
_TEXT_ONLY = ("Give word vectors as text: word2vec text, GloVe text or fastText .vec, each also as .gz "
              "(unpack a .zip first; write a binary model out as text with the tool that made it)")


@dataclass(frozen=True)
class FileVectors:
    """What a file holds of the wanted words.

    Attributes:
        words: in the order of the file, each once (V,).
        vectors: (V, D) float32.
        layout: ``header`` (word2vec text, fastText .vec) or ``no header`` (GloVe).
        lines: words in the whole file.
        duplicates: lines passed over because a wanted word had stood before.
    """

    words: list[str]
    vectors: np.ndarray
    layout: str
    lines: int
    duplicates: int


def read_vectors(path: Path, wanted: Collection[str]) -> FileVectors:
    """Return the vectors of the ``wanted`` words that ``path`` has.

    Raises:
        InputError: no such file; not text; a line of another width; a vector with something that is no finite
            number; fewer or more lines than the header says; an archive cut short.
    """
    if not path.is_file():
        raise InputError(f"word_vectors.source: {path}: no such file. Give path:FILE, relative to the project, or "
                         f"train.")
    with _lines(path) as lines:
        return _Reading(path, {word.encode(): word for word in wanted}).read(lines)


@contextmanager
def _lines(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as handle:
            yield handle  # type: ignore[misc]  # GzipFile reads like any binary file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: the archive is damaged or was cut short ({error}). Fetch it again.") from error


class _Reading:
    """One pass over a file."""

    def __init__(self, path: Path, wanted: dict[bytes, str]) -> None:
        self.path, self.wanted = path, wanted
        self.width = 0
        self.promised: int | None = None
        self.found: dict[str, np.ndarray] = {}
        self.duplicates = 0

    def read(self, lines: IO[bytes]) -> FileVectors:
        """Return what the file holds; see :func:`read_vectors`."""
        number = 0
        for number, line in enumerate(lines, start=1):
            if b"\0" in line:
                raise InputError(f"{self.path}, line {number}: binary data. {_TEXT_ONLY}.")
            # Not strip(): a word may be a no-break space or the like.
            line = line.rstrip(b" \r\n")
            if number == 1 and not self._first(line):
                continue
            self._take(line, number)
        if not self.width:
            raise InputError(f"{self.path}: the file is empty. {_TEXT_ONLY}.")
        count = number - (self.promised is not None)
        if self.promised not in (None, count):
            raise InputError(f"{self.path}, line 1: the header says {self.promised} words, the file has {count}. It "
                             f"was cut or put together by hand: fetch it again, or correct its first line.")
        vectors = np.array(list(self.found.values()), dtype=np.float32).reshape(-1, self.width)
        return FileVectors(list(self.found), vectors, "no header" if self.promised is None else "header", count,
                           self.duplicates)

    def _first(self, line: bytes) -> bool:
        """Learn the width from the first line; return whether that line is a word's."""
        fields = line.split(b" ")
        header = len(fields) == 2 and all(field.isdigit() for field in fields)
        self.width = int(fields[1]) if header else len(fields) - 1
        self.promised = int(fields[0]) if header else None
        if self.width < 2:
            raise InputError(f"{self.path}, line 1: neither a header 'COUNT WIDTH' nor a word with two or more numbers "
                             f"separated by spaces. {_TEXT_ONLY}.")
        return not header

    def _take(self, line: bytes, number: int) -> None:
        word, numbers = self._cut(line, number)
        known = self.wanted.get(word)
        if known is None:
            return
        if known in self.found:
            self.duplicates += 1
            return
        self.found[known] = np.array([self._number(field, known, number) for field in numbers.split(b" ")],
                                     dtype=np.float32)

    def _cut(self, line: bytes, number: int) -> tuple[bytes, bytes]:
        """Return word and numbers of a line, which has ``width`` numbers."""
        spaces = line.count(b" ")
        if spaces == self.width:
            word, _, numbers = line.partition(b" ")
            return word, numbers
        if spaces > self.width:
            parts = line.rsplit(b" ", self.width)
            if not _is_number(parts[0].rpartition(b" ")[2]):
                return parts[0], line[len(parts[0]) + 1:]
        raise InputError(f"{self.path}, line {number}: {spaces} numbers after the word, where line 1 makes it "
                         f"{self.width}. Words and numbers are separated by single spaces.")

    def _number(self, field: bytes, word: str, number: int) -> float:
        if not _is_number(field):
            shown = field[:40].decode("utf-8", "backslashreplace")
            raise InputError(f"{self.path}, line {number}: {shown!r} in the vector of {word!r} is not a finite number.")
        return float(field)


def _is_number(field: bytes) -> bool:
    try:
        return abs(float(field)) <= _LARGEST  # false for a NaN
    except ValueError:
        return False


ALGORITHM = "word2vec, skip-gram with 5 negative samples"


def train_skip_gram(sentences: Sequence[Sequence[str]], size: int, window: int, min_count: int, epochs: int,
                    seed: int, isotropic: bool = False) -> tuple[list[str], np.ndarray]:
    """Return words, sorted, and their vectors (V, size) float32.

    Plain word2vec and not fastText: the latter composes a vector of character n-grams for any string, so that no
    word would be unknown, while PSI gives unknown words a vector of their own. One worker thread: more would race.
    gensim draws the first weights from ``seed`` and not from the hash of words, so PYTHONHASHSEED is of no account.

    Args:
        sentences: words of each text, in the order in which they are read.
        size: width of a vector.
        window: words to either side that a word predicts.
        min_count: rarer words are left out.
        epochs: passes over the texts.
        seed: of weights and samples; its lower 32 bits count.
        isotropic: see :func:`isotropic_vectors`.

    Raises:
        ValueError: no word occurs ``min_count`` times.
    """
    from gensim.models import Word2Vec

    model = Word2Vec(vector_size=size, window=window, min_count=min_count, sg=1, negative=5, workers=1,
                     seed=seed % 2**32)
    model.build_vocab(sentences)
    if not len(model.wv):
        raise ValueError(f"no word occurs {min_count} times")
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    words = sorted(model.wv.key_to_index)
    vectors = np.array([model.wv[word] for word in words], dtype=np.float32)
    return words, isotropic_vectors(vectors) if isotropic else vectors


def isotropic_vectors(vectors: np.ndarray) -> np.ndarray:
    """Return ``vectors`` (V, D) less their mean, each scaled to length 1.

    Skip-gram vectors of few texts share one direction, and frequent words have the longest: the element-wise
    maximum of a text, and with it PSI, then belongs to function words. On 3,000 Quora triples the mean cosine of
    two words is 0.83, and the most important word of a text is a stop word four times out of five; with vectors
    made isotropic it is two times out of five. The step is ours; taking off the mean follows Mu and Viswanath,
    "All-but-the-Top" (ICLR 2018).
    """
    centred = vectors - vectors.mean(axis=0, dtype=np.float64)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.divide(centred, length, out=np.zeros_like(centred), where=length > 0).astype(np.float32)


def training_description(**settings: Any) -> dict[str, Any]:
    """Return what the metadata say of vectors trained here."""
    return {"origin": "trained on the training split", "algorithm": ALGORITHM, "gensim": version("gensim"), **settings}
