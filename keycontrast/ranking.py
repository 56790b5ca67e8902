"""Ranked phrases of texts: ``Keywords().rank(texts, top=10)``.

    >>> found = Keywords().rank(["Dogs chase a red ball.", "A ball game in the park."], top=3)
    >>> [[phrase.keyword for phrase in phrases] for phrases in found]
    [['red ball', 'dogs'], ['ball game', 'park']]
    >>> found[1][0].text, found[1][0].start, found[1][0].end
    ('ball game', 2, 11)
    >>> found.to_pandas()[["text", "rank", "keyword"]].values.tolist()
    [[0, 1, 'red ball'], [0, 2, 'dogs'], [1, 1, 'ball game'], [1, 2, 'park']]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import pyarrow as pa
import pyarrow.compute as pc

from keycontrast._code import code

if TYPE_CHECKING:
    import pandas as pd
    from spacy.tokens import Doc

    Texts: TypeAlias = str | Iterable[str] | Iterable[Doc] | pd.Series | pa.Array | pa.ChunkedArray | Doc
else:
    Texts = Any

InputError: type[Exception] = code("stages.run.errors").InputError
_CHUNK = 1024
_DELAY = 2.0    # a bar for what takes longer
_COLUMNS = {"text": pa.int64(), "rank": pa.int32(), "phrase": pa.string(), "keyword": pa.string(),
            "score": pa.float64(), "start": pa.int32(), "end": pa.int32()}


@dataclass(frozen=True)
class Phrase:
    """A phrase of a text.

    Attributes:
        text: as it is written at its first occurrence.
        keyword: its normal form, under which it is the same in all texts.
        score: the method's.
        rank: 1 for the text's best.
        start: first character in the text.
        end: character after the last.
    """

    text: str
    keyword: str
    score: float
    rank: int
    start: int
    end: int


class Phrases(Sequence[list[Phrase]]):
    """The phrases of one text or of many: item n is those of the n-th text, best first, none if it has none.

    Attributes:
        table: Arrow table, a row per phrase: ``text`` (number from 0), ``rank``, ``phrase``, ``keyword``, ``score``,
            ``start``, ``end`` (characters).
    """

    def __init__(self, table: pa.Table, texts: int, first: int = 0) -> None:
        self.table = table
        self._texts, self._first = texts, first
        self._lists: list[list[Phrase]] | None = None

    def __len__(self) -> int:
        return self._texts

    @overload
    def __getitem__(self, place: int) -> list[Phrase]: ...
    @overload
    def __getitem__(self, place: slice) -> list[list[Phrase]]: ...

    def __getitem__(self, place: int | slice) -> list[Phrase] | list[list[Phrase]]:
        if self._lists is None:
            self._lists = [[] for _ in range(self._texts)]
            for number, rank, phrase, keyword, score, start, end in zip(
                    *(self.table[name].to_pylist() for name in _COLUMNS), strict=True):
                self._lists[number - self._first].append(Phrase(phrase, keyword, score, rank, start, end))
        return self._lists[place]

    def __repr__(self) -> str:
        return f"<{self.table.num_rows} phrases of {self._texts} text{'s' * (self._texts != 1)}>"

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a data frame."""
        return self.table.to_pandas()


class Keywords:
    """Ranks the phrases of texts.

    Args:
        method: as of ``keycontrast keywords``: tfidf, pytextrank, positionrank, mihalcea, yake, embedrank.
        language: of the texts, ``en`` or ``zh``.
        pipeline: what reads English texts: ``embedded``, an installed spaCy package, or a folder with a slash in it.
        workers: processes that read texts. With more than one, a script must do its work below
            ``if __name__ == "__main__":``, as with all of Python's worker processes.
        diversity: 0 takes the best phrases of a text; towards 1, those that differ from the ones before them (maximal
            marginal relevance, over the words of phrases, or by ``embedrank``'s encoder).
        min_count: texts that must hold a phrase, of those given to :meth:`fit`, or else to :meth:`rank`.
        ngram_range: fewest and most words of a phrase; None takes all.

    Raises:
        InputError: no ranking has that name (the message names the nearest), or a value lies outside of its bounds.
    """

    def __init__(self, method: str = "tfidf", language: str = "en", *, pipeline: str = "embedded", workers: int = 1,
                 diversity: float = 0.0, min_count: int = 1, ngram_range: tuple[int, int] | None = None) -> None:
        self._method = code("pipeline.keyphrases").checked(method, "method")
        self._language, self._pipeline, self._workers = language, pipeline, workers
        self._choice = code("pipeline.phrase_choice").Choice(10, diversity, min_count, ngram_range)
        self._idf: Any = None
        self._counts: Any = None

    def fit(self, texts: Texts) -> Keywords:
        """Take inverse document frequencies from these texts, for all rankings from now on; return itself.

        Texts are read a part at a time: an iterator of any length will do.
        """
        tokens, counts = self.tokens(texts), None
        if self._choice.min_count > 1:
            counts = Counter[str]()
            tokens = self._counting(tokens, counts)
        self._idf = code("stages.ranking.selection").InverseFrequency.over_tables(tokens)
        self._counts = counts
        return self

    def _counting(self, tokens: Iterator[pa.Table], counts: Counter[str]) -> Iterator[pa.Table]:
        """Yield ``tokens``, and count on the way the texts that hold each phrase."""
        ranker = self._ranker(self._choice, None)
        for part in tokens:
            counts.update(self._choice.counted([ranker(part)]))
            yield part

    def rank(self, texts: Texts, top: int = 10) -> Phrases:
        """Return the phrases of one text or many, at most ``top`` of each.

        Inverse document frequencies, which order phrases by ``tfidf`` and break the ties of other rankings, are those
        of :meth:`fit`, or else of these texts alone.

        Args:
            texts: a text, texts in any iterable, a pandas or Arrow column, or documents of spaCy, which are taken as
                the caller's pipeline left them.
            top: phrases per text at most, from 1.

        Raises:
            InputError: ``top`` is less than 1, a text is none, or a document has no parts of speech.
        """
        choice = replace(self._choice, top=top)
        tokens = list(self.tokens(texts))
        parts = list(map(self._ranker(choice, self.idf(tokens)), tokens))
        counts = choice.counted(parts) if self._idf is None else self._counts
        made = [self._chosen(choice, ranked, part, counts) for ranked, part in zip(parts, tokens, strict=True)]
        return Phrases(pa.concat_tables(made) if made else _table(None, None), sum(part.num_rows for part in tokens))

    def stream(self, texts: Texts, top: int = 10) -> Iterator[list[Phrase]]:
        """Yield the phrases of each text, in order, with a thousand texts in memory at a time.

        Raises:
            InputError: as :meth:`rank`; or :meth:`fit` has not been called, so that a text's phrases would depend on
                which others happen to be in memory.
        """
        if self._idf is None:
            raise InputError("stream: call fit(texts) before, with these or other texts, for the inverse document "
                             "frequencies; rank(texts) counts them itself.")
        choice = replace(self._choice, top=top)
        ranker = self._ranker(choice, self._idf)
        for tokens in self.tokens(texts):
            chosen = self._chosen(choice, ranker(tokens), tokens, self._counts)
            yield from Phrases(chosen, tokens.num_rows, tokens["text_id"][0].as_py())

    def ranked(self, tokens: pa.Table, top: int) -> pa.Table:
        """Return the rows of table ``phrases`` for token rows, by the frequencies of :meth:`fit`, or else of these."""
        choice = replace(self._choice, top=top)
        ranked = self._ranker(choice, self.idf([tokens]))(tokens)
        counts = choice.counted([ranked]) if self._idf is None else self._counts
        return choice.chosen(ranked, counts, code("pipeline.keyphrases").likeness(self._method))

    def idf(self, tokens: Iterable[pa.Table]) -> Any:
        """Return the frequencies of :meth:`fit`, or else those of ``tokens``."""
        return self._idf or code("stages.ranking.selection").InverseFrequency.over_tables(tokens)

    def _ranker(self, choice: Any, idf: Any) -> Callable[[pa.Table], pa.Table]:
        return code("pipeline.keyphrases").ranker(self._method, choice.drawn, self._language, idf)

    def _chosen(self, choice: Any, ranked: pa.Table, tokens: pa.Table, counts: Any) -> pa.Table:
        vectors = code("pipeline.keyphrases").likeness(self._method)
        return _table(choice.chosen(ranked, counts, vectors), tokens)

    def tokens(self, texts: Texts) -> Iterator[pa.Table]:
        """Yield the token rows of texts or documents, a thousand at a time, numbered from 0."""
        total = len(texts) if isinstance(texts, Sized) and not isinstance(texts, str) and not _is_doc(texts) else None
        rest = listed(texts)
        first = next(rest, None)
        if first is None:
            return iter(())
        if _is_doc(first):
            return _annotated(chain([first], rest))
        return code("stages.text.annotation").annotated(
            _chunks(chain([first], rest)), self._pipeline, self._language, total, self._workers, _DELAY)


def listed(texts: Any) -> Iterator[Any]:
    """Return the texts or documents in whatever holds them."""
    if isinstance(texts, str) or _is_doc(texts):
        return iter((texts,))
    if isinstance(texts, pa.Array | pa.ChunkedArray):
        return (value.as_py() for value in texts)
    return iter(texts)


def _is_doc(value: Any) -> bool:
    return hasattr(value, "noun_chunks") and hasattr(value, "to_array")


def _chunks(texts: Iterator[Any]) -> Iterator[pa.Table]:
    start = 0
    while part := list(islice(texts, _CHUNK)):
        for place, text in enumerate(part, start):
            if not isinstance(text, str):
                raise InputError(f"text {place} (counted from 0) is no text but of type {type(text).__name__}")
        yield pa.table({"text_id": pa.array(range(start, start + len(part)), pa.int64()),
                        "text": pa.array(part, pa.string())})
        start += len(part)


def _annotated(docs: Iterator[Any]) -> Iterator[pa.Table]:
    tokens = code("stages.text.tokens")
    start = 0
    while part := list(islice(docs, _CHUNK)):
        for place, doc in enumerate(part, start):
            if not _is_doc(doc):
                raise InputError(f"text {place} (counted from 0) is no document of spaCy, as those before it, but of "
                                 f"type {type(doc).__name__}")
            if len(doc) and not doc.has_annotation("POS"):
                raise InputError(f"document {place} (counted from 0) has no parts of speech; its pipeline needs a "
                                 f"tagger, or give texts in place of documents")
        tables = []
        for _, same in groupby(part, lambda doc: id(doc.vocab)):
            group = list(same)
            ids = pa.array(range(start, start + len(group)), pa.int64())
            tables.append(tokens.token_table({"text_id": ids, **tokens.document_columns(group, group[0].vocab)}))
            start += len(group)
        yield pa.concat_tables(tables).combine_chunks()


def _table(rows: pa.Table | None, tokens: pa.Table | None) -> pa.Table:
    """Return the phrases of a part: characters in place of tokens."""
    if rows is None or tokens is None:
        return pa.table({name: pa.array([], kind) for name, kind in _COLUMNS.items()})
    rows = rows.filter(pc.greater(rows["rank"], 0))
    place = pc.index_in(rows["text_id"], value_set=tokens["text_id"].combine_chunks())
    lengths = pc.list_value_length(tokens["start"].combine_chunks())
    before = pc.subtract(pc.cumulative_sum(lengths), lengths).take(place)
    starts, ends = (pc.list_flatten(tokens[name].combine_chunks()) for name in ("start", "end"))
    begin = starts.take(pc.add(before, rows["start"]))
    end = ends.take(pc.subtract(pc.add(before, rows["end"]), 1))
    columns = (rows["text_id"], rows["rank"], rows["phrase"], rows["keyword"], rows["score"], begin, end)
    return pa.table({name: pc.cast(column, kind)
                     for (name, kind), column in zip(_COLUMNS.items(), columns, strict=True)})
