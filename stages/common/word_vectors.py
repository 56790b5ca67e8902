"""Word vectors, read from a text file or trained on the texts of a data set.

A file is read line by line, so that only the wanted words are in memory. word2vec text and fastText ``.vec`` begin with
``COUNT WIDTH``, GloVe text with the first word. Lines end at newlines alone (GloVe's Twitter file has a word U+0085),
and a word may have spaces (GloVe's largest file has ". . ."): the last D fields are the vector.
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
    """The vectors of the wanted words in a file."""

    words: list[str]  # in the order of the file, each once (V,)
    vectors: np.ndarray  # (V, D) float32
    layout: str  # "header" (word2vec text, fastText .vec) or "no header" (GloVe)
    lines: int  # words in the whole file
    duplicates: int  # lines that repeat a wanted word, which are ignored


def read_vectors(path: Path, wanted: Collection[str]) -> FileVectors:
    """Return the vectors of those ``wanted`` words that the file ``path`` has; an InputError names a damaged line."""
    if not path.is_file():
        raise InputError(f"word_vectors.source: {path}: no such file. Give its path, relative to the project, as "
                         f"word_vectors.path, or set word_vectors.source to train.")
    words = {word.encode(): word for word in wanted}
    vectors: dict[str, np.ndarray] = {}
    number, width, declared, duplicates = 0, 0, None, 0
    with _lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            # Not strip(): a word may be a no-break space or the like.
            line = line.rstrip(b" \r\n")
            if number == 1:
                width, declared = _first_line(path, line)
                if declared is not None:
                    continue
            spelling, values = _split(path, number, line, width)
            word = words.get(spelling)
            if word in vectors:
                duplicates += 1
            elif word is not None:
                for field in values.split(b" "):
                    if not _is_number(field):
                        shown = field[:40].decode("utf-8", "backslashreplace")
                        raise InputError(f"{path}, line {number}: {shown!r} in the vector of {word!r} is not a finite "
                                         f"number.")
                vectors[word] = np.array([float(field) for field in values.split(b" ")], dtype=np.float32)
    if not width:
        raise InputError(f"{path}: the file is empty. {_TEXT_ONLY}.")
    count = number - (declared is not None)
    if declared not in (None, count):
        raise InputError(f"{path}, line 1: the header says {declared} words, the file has {count}. It was cut or put "
                         f"together by hand: fetch it again, or correct its first line.")
    return FileVectors(list(vectors), np.array(list(vectors.values()), dtype=np.float32).reshape(-1, width),
                       "no header" if declared is None else "header", count, duplicates)


@contextmanager
def _lines(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as handle:
            yield handle  # type: ignore[misc]  # GzipFile reads like any binary file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: the archive is damaged or was cut short ({error}). Fetch it again.") from error


def _first_line(path: Path, line: bytes) -> tuple[int, int | None]:
    """Return the width of vectors, and the number of words if the line is a header."""
    fields = line.split(b" ")
    header = len(fields) == 2 and all(field.isdigit() for field in fields)
    width = int(fields[1]) if header else len(fields) - 1
    if width < 2:
        raise InputError(f"{path}, line 1: neither a header 'COUNT WIDTH' nor a word with two or more numbers "
                         f"separated by spaces. {_TEXT_ONLY}.")
    return width, int(fields[0]) if header else None


def _split(path: Path, number: int, line: bytes, width: int) -> tuple[bytes, bytes]:
    """Return the word of a line and its ``width`` values."""
    if b"\0" in line:
        raise InputError(f"{path}, line {number}: binary data. {_TEXT_ONLY}.")
    parts = line.rsplit(b" ", width)
    spaces = line.count(b" ")
    if spaces == width or spaces > width and not _is_number(parts[0].rpartition(b" ")[2]):
        return parts[0], line[len(parts[0]) + 1:]
    raise InputError(f"{path}, line {number}: {spaces} numbers after the word, where line 1 makes it {width}. Words "
                     f"and numbers are separated by single spaces.")


def _is_number(field: bytes) -> bool:
    try:
        return abs(float(field)) <= _LARGEST  # false for a NaN
    except ValueError:
        return False


ALGORITHM = "word2vec, skip-gram with 5 negative samples"


def train_skip_gram(sentences: Sequence[Sequence[str]], size: int, window: int, min_count: int, epochs: int,
                    seed: int, isotropic: bool = False) -> tuple[list[str], np.ndarray]:
    """Return the words that occur ``min_count`` times, sorted, and their word2vec vectors (V, size) float32.

    More than one worker thread would race. If no word is frequent enough, a ValueError says so.
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
    """Return ``vectors`` (V, D) minus their mean (Mu and Viswanath, ICLR 2018), each scaled to length 1.

    The step is not in the paper. Without it, skip-gram vectors of few texts give function words the largest PSI: on
    3,000 Quora triples, to four texts of five; with it, to two of five.
    """
    centred = vectors - vectors.mean(axis=0, dtype=np.float64)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.divide(centred, length, out=np.zeros_like(centred), where=length > 0).astype(np.float32)


def training_description(**settings: Any) -> dict[str, Any]:
    """Return the description of trained vectors for metadata."""
    return {"origin": "trained on the training split", "algorithm": ALGORITHM, "gensim": version("gensim"), **settings}
