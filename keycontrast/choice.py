"""The choice among a text's ranked phrases: by words, score, the texts that hold them, and diversity."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from keycontrast.text.normal_form import HAN
from keycontrast.text.schemas import PHRASES

# Unit vectors of keywords, (keywords, d); the similarity of two keywords is their dot product.
Vectors = Callable[[Sequence[str]], np.ndarray]
_ALL = 1_000_000
_HAN = re.compile(f"[{HAN}]")


@dataclass(frozen=True)
class Choice:
    """Options of :class:`keycontrast.keywords.Keywords`; stop words are in normal form.

    By maximal marginal relevance (Carbonell and Goldstein 1998), the next phrase has the greatest ``(1 - diversity) *
    relevance - diversity * similarity``, where relevance is its score divided by the text's best score, and similarity
    is the greatest similarity to a phrase chosen before.
    """

    top: int = 10
    diversity: float = 0.0
    min_count: int = 1
    ngram_range: tuple[int, int] | None = None
    threshold: float | None = None
    stop_words: frozenset[str] = frozenset()
    usual: int | None = None  # most words of a phrase; ignored for a text that has only longer ones

    def __post_init__(self) -> None:
        if not is_whole(self.top) or self.top < 1:
            raise InputError(f"top: must be a whole number from 1, found {self.top!r}")
        if not _is_number(self.diversity) or not 0 <= self.diversity <= 1:
            raise InputError(f"diversity: must lie between 0 and 1, found {self.diversity!r}")
        if not is_whole(self.min_count) or self.min_count < 1:
            raise InputError(f"min_count: must be a whole number from 1, found {self.min_count!r}")
        words = self.ngram_range
        if words is not None and not (isinstance(words, tuple | list) and len(words) == 2
                                      and all(map(is_whole, words)) and 1 <= words[0] <= words[1]):
            raise InputError(f"ngram_range: must be the fewest and the most words, such as 1 and 3, found "
                             f"{self.ngram_range}")
        if self.threshold is not None and not _is_number(self.threshold):
            raise InputError(f"threshold: must be a number, the minimum score of a phrase, found {self.threshold!r}")

    @property
    def drawn(self) -> int:
        """Phrases per text that a ranking must give for this choice."""
        return self.top if self == Choice(self.top) else _ALL

    def counted(self, ranked: Iterable[pa.Table]) -> Counter[str]:
        """Return how many texts hold each keyword in tables of all phrases; nothing if ``min_count`` needs no count."""
        counts: Counter[str] = Counter()
        for table in ranked if self.min_count > 1 else ():
            held = table.filter(pc.greater(table["rank"], 0))["keyword"].combine_chunks()
            counts.update(dict(row.values() for row in held.value_counts().to_pylist()))
        return counts

    def chosen(self, ranked: pa.Table, counts: Counter[str] | None = None, vectors: Vectors | None = None) -> pa.Table:
        """Return the chosen rows, with new ranks, of schema ``phrases``; ``ranked`` has :attr:`drawn` phrases per text.

        ``counts`` are from :meth:`counted`. Without ``vectors``, keywords are compared by the cosine of word sets.
        """
        if self == Choice(self.top):
            return ranked
        keywords = ranked["keyword"].to_pylist()
        text = ranked["text_id"].to_numpy()
        scores = ranked["score"].to_numpy(zero_copy_only=False)
        rank, start, end = (ranked[name].to_pylist() for name in ("rank", "token_start", "token_end"))
        kept = [rank[place] > 0 and self.fits(keyword, scores[place], end[place] - start[place], counts)
                for place, keyword in enumerate(keywords)]
        rows, ranks = list[int](), list[int]()
        borders = [0, *(np.flatnonzero(np.diff(text)) + 1).tolist(), len(text)] if len(text) else [0]
        for first, last in zip(borders[:-1], borders[1:], strict=True):
            places = [place for place in range(first, last) if kept[place]]
            if self.usual is not None:
                places = [place for place in places
                          if words_in(keywords[place], end[place] - start[place]) <= self.usual] or places
            best = [places[n] for n in self._order([keywords[place] for place in places], scores[places], vectors)]
            # A text without a chosen phrase has one row of rank 0, as a text without phrases has.
            rows += best or [first]
            ranks += range(1, len(best) + 1) if best else [0]
        return _ranked_anew(ranked.take(pa.array(rows, pa.int64())), ranks)

    def fits(self, keyword: str, score: float, tokens: int, counts: Counter[str] | None = None) -> bool:
        """Return whether a phrase is kept, by its words, its score and, with ``counts``, the texts that hold it."""
        length = words_in(keyword, tokens)
        return ((self.min_count == 1 or counts is None or counts[keyword] >= self.min_count)
                and (self.ngram_range is None or self.ngram_range[0] <= length <= self.ngram_range[1])
                and (self.threshold is None or score >= self.threshold)
                and self.stop_words.isdisjoint([keyword, *keyword.split(" ")]))

    def _order(self, keywords: Sequence[str], scores: np.ndarray, vectors: Vectors | None) -> Iterator[int]:
        """Yield the places of the phrases that are taken."""
        if not self.diversity:
            yield from range(min(self.top, len(keywords)))
            return
        if not keywords:
            return
        unit = vectors(keywords) if vectors else None
        cosines = _by_words(keywords) if unit is None else lambda place: unit @ unit[place]
        best = scores.max()
        worth = (1 - self.diversity) * (scores / best if best > 0 else np.zeros(len(scores)))
        similarity = np.zeros(len(scores))
        left = np.ones(len(scores), dtype=bool)
        for count in range(min(self.top, len(scores))):
            value = np.where(left, worth - self.diversity * similarity, -np.inf)
            place = int(value.argmax())  # the first of equals: as they were ranked
            left[place] = False
            cosine = cosines(place)
            similarity = np.maximum(similarity, cosine) if count else cosine
            yield place


def words_in(keyword: str, tokens: int) -> int:
    """Return the number of words in a phrase, separated by spaces; a Chinese phrase has one word per token."""
    return tokens if " " not in keyword and _HAN.search(keyword) else 1 + keyword.count(" ")


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return (isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
            and value == value)


def _by_words(keywords: Sequence[str]) -> Callable[[int], np.ndarray]:
    """Return a function from the position of one keyword to the cosines of all keywords with it, over sets of words, or
    of characters for a Chinese keyword."""
    sets = [set(keyword if _HAN.search(keyword) else keyword.split(" ")) for keyword in keywords]
    sizes = np.array(list(map(len, sets)))
    return lambda place: np.array([len(words & sets[place]) for words in sets]) / np.sqrt(sizes * sizes[place])


def _ranked_anew(table: pa.Table, ranks: Sequence[int]) -> pa.Table:
    """Return the rows with other ranks; those of rank 0 lose their phrase."""
    rank = pa.array(ranks, pa.int32())
    empty = pc.and_(pc.equal(rank, 0), pc.greater(table["rank"].combine_chunks(), 0))
    columns = {name: table[name].combine_chunks() for name in PHRASES.names} | {"rank": rank}
    for name in ("phrase", "keyword", "score", "token_start", "token_end"):
        columns[name] = pc.if_else(empty, pa.scalar(None, columns[name].type), columns[name])
    columns["status"] = pc.if_else(empty, "no_candidate", columns["status"])
    return pa.table(columns, schema=PHRASES)
