"""Ranked phrases of texts: ``Keywords().rank(texts, top=10)``.

    >>> found = Keywords().rank(["Dogs chase a red ball.", "A ball game in the park."], top=3)
    >>> [[phrase.keyword for phrase in phrases] for phrases in found]
    [['red ball', 'dogs'], ['ball game', 'park']]
    >>> found[1][0].text, found[1][0].start, found[1][0].end
    ('ball game', 2, 11)
    >>> found.to_pandas()[["row", "rank", "keyword"]].values.tolist()
    [[0, 1, 'red ball'], [0, 2, 'dogs'], [1, 1, 'ball game'], [1, 2, 'park']]
"""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, get_args, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.choice import Choice, is_whole
from keycontrast.containment import LONGEST, Containment
from keycontrast.encoders import source_of
from keycontrast.errors import InputError, nearest, plain
from keycontrast.ranking import Settings, ranker
from keycontrast.ranking.blocks import TokenBlock
from keycontrast.ranking.chunks import Chunks, listed_words, with_candidates
from keycontrast.ranking.methods import Ranking
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.reading import is_unicode
from keycontrast.text.normal_form import INVISIBLE, normal_form
from keycontrast.text.schemas import TOKENS
from keycontrast.text.tokens import document_columns, token_table

if TYPE_CHECKING:
    import pandas as pd
    from spacy.language import Language
    from spacy.tokens import Doc

    Texts: TypeAlias = str | Iterable[str] | Iterable[Doc] | pd.Series | pa.Array | pa.ChunkedArray | Doc
else:
    Texts = Any

Method = Literal["tfidf", "pytextrank", "positionrank", "mihalcea", "yake", "embedrank"]
METHODS: tuple[str, ...] = get_args(Method)
LANGUAGES = ("en", "zh")
# Annotations without which a method gives wrong phrases and no error; the other methods need parts of speech.
_NEEDED = {"yake": (), "pytextrank": ("POS", "LEMMA"), "positionrank": ("POS", "LEMMA")}
_CALLED = {"POS": "parts of speech", "LEMMA": "lemmas"}
_OF_VOCABULARY = ("tfidf", "pytextrank", "positionrank", "embedrank")
_OF_SEEDS = ("pytextrank", "embedrank")
_WORDS = 5  # at most in a phrase: 99 % of Inspec's keyphrases have no more, but lists of names in figures do
_CHUNK = 1024
_INVISIBLE = str.maketrans(dict.fromkeys(INVISIBLE))
_COLUMNS = {"row": pa.int64(), "rank": pa.int32(), "phrase": pa.string(), "keyword": pa.string(),
            "score": pa.float64(), "start": pa.int32(), "end": pa.int32()}
_NOTHING = pa.table({name: pa.array([], kind) for name, kind in _COLUMNS.items()})


class Encoder(Protocol):
    """An encoder of texts, such as a ``SentenceTransformer``."""

    def encode(self, texts: list[str]) -> Any:
        """Return a vector of each text, (texts, d)."""


class _Part(NamedTuple):
    """The number of the first of some texts, the texts, and the token rows of those that are not skipped."""

    first: int
    texts: Sequence[Any]
    tokens: pa.Table


@dataclass(frozen=True)
class Phrase:
    """A phrase of a text: as written at its first occurrence, from character ``start`` to before ``end``.

    ``keyword`` is its normal form, the same in all texts; ``rank`` is 1 for the text's best.
    """

    text: str
    keyword: str
    score: float
    rank: int
    start: int
    end: int


class Phrases(Sequence[list[Phrase]]):
    """The phrases of one text or of many: item n is the list of those of the n-th text, best first.

    Attributes:
        table: Arrow table, a row per phrase: ``row`` (number of the text, from 0), ``id`` (of a pandas Series with an
            index of its own), ``rank``, ``phrase``, ``keyword``, ``score``, ``start``, ``end`` (characters).
        skipped: texts that were null and left out.
    """

    def __init__(self, table: pa.Table, texts: int, first: int = 0, skipped: int = 0) -> None:
        self.table, self.skipped = table, skipped
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
            lists: list[list[Phrase]] = [[] for _ in range(self._texts)]
            for number, rank, phrase, keyword, score, start, end in zip(
                    *(self.table[name].to_pylist() for name in _COLUMNS), strict=True):
                lists[number - self._first].append(Phrase(phrase, keyword, score, rank, start, end))
            self._lists = lists     # whole, whatever other threads read meanwhile
        return self._lists[place]

    def __repr__(self) -> str:
        return f"<{self.table.num_rows} phrases of {self._texts} text{'s' * (self._texts != 1)}>"

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a data frame."""
        return self.table.to_pandas()


class Comparison:
    """The phrases of several methods side by side.

    Attributes:
        phrases: of each method.
        table: Arrow table: ``row`` and perhaps ``id`` of a text, ``rank``, and each method's keyword of that rank.
    """

    def __init__(self, phrases: dict[str, Phrases], ids: pa.Array | None) -> None:
        self.phrases = phrases
        table = _NOTHING.select(["row", "rank"])
        for method, ranked_phrases in phrases.items():
            keywords = ranked_phrases.table.select(["row", "rank", "keyword"]).rename_columns(["row", "rank", method])
            table = table.join(keywords, ["row", "rank"], join_type="full outer")
        self.table = with_ids(table.sort_by([("row", "ascending"), ("rank", "ascending")]), ids)

    def __repr__(self) -> str:
        texts = len(next(iter(self.phrases.values())))
        return f"<keywords of {texts} text{'s' * (texts != 1)} by {', '.join(self.phrases)}>"

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a data frame."""
        return self.table.to_pandas()


class Keywords:
    """Ranks the phrases of texts.

    Args:
        method: one of :attr:`methods`; ``embedrank`` is best and slow.
        language: of the texts, ``en`` or ``zh``, or that of a ``pipeline``; None is a pipeline object's, or English.
        pipeline: of texts that are not Chinese: ``embedded``, an installed spaCy package, a folder with a slash
            in it, or a spaCy pipeline, which is not changed.
        workers: processes that read texts. With more than one, a script must do its work below
            ``if __name__ == "__main__":``.
        diversity: 0 chooses the best phrases of a text; values up to 1 prefer phrases that differ from those chosen
            before (maximal marginal relevance, over the words of phrases, or by ``embedrank``'s encoder).
        min_count: keep phrases that occur in at least this many texts of :meth:`fit`, or else of :meth:`rank`; as part
            of a longer phrase they do not count.
        ngram_range: fewest and most words of a phrase; None is 1 to 5 where a text has such phrases, or any number
            with ``candidates``.
        stop_words: words that no phrase may contain, and phrases to leave out; compared in normal form.
        candidates: a vocabulary; its occurrences are ranked in place of noun chunks, also those inside longer ones.
        seed_words: words or phrases that the ranking prefers, by ``embedrank`` as in KeyBERT, by ``pytextrank`` as in
            biased TextRank (the walk returns to them).
        threshold: minimum score of a phrase; the scale of the scores depends on the method.
        encoder: of ``embedrank``: a folder, a name on the hub, or an object with ``encode(list[str])``; None is
            the bundled one. With folders and the hub, a text's embedding is the mean of its last states.
        on_null: ``error``, or ``skip`` to leave out texts that are null (None, NaN), which keep their places.

    Raises:
        InputError: a name or value that is not allowed.
    """

    methods = METHODS

    def __init__(self, method: Method = "tfidf", language: str | None = None, *,
                 pipeline: str | PathLike[str] | Language = "embedded", workers: int = 1, diversity: float = 0.0,
                 min_count: int = 1, ngram_range: tuple[int, int] | None = None, stop_words: Iterable[str] = (),
                 candidates: Iterable[str] | None = None, seed_words: Iterable[str] = (),
                 threshold: float | None = None, encoder: str | PathLike[str] | Encoder | None = None,
                 on_null: Literal["error", "skip"] = "error") -> None:
        _check_method("method", method)
        if on_null not in ("error", "skip"):
            raise InputError(f"on_null: found {on_null!r}; {nearest(str(on_null), ('error', 'skip'))}")
        self._skips = on_null == "skip"
        if not is_whole(workers) or workers < 1:
            raise InputError(f"workers: must be a whole number from 1, found {workers!r}")
        self._pipeline, self._language = _reader(pipeline, language, workers)
        self._method, self._workers = method, workers
        self._encoder = _encoder(encoder)
        self._seeds = listed_words("seed_words", seed_words)
        listed_stops = list(map(normal_form, listed_words("stop_words", stop_words)))
        # Keywords lack apostrophes; a word is compared as it is written, or "she'll" would forbid "shell".
        stops = frozenset([*listed_stops, *(stop.replace("'", "") for stop in listed_stops if " " in stop)])
        self._usual = _WORDS if ngram_range is None and candidates is None else None
        self._choice = self._chooses(method, Choice(10, diversity, min_count, ngram_range, threshold, stops))
        self._vocabulary: Containment | None = None
        if candidates is not None:
            phrases = dict.fromkeys(map(normal_form, listed_words("candidates", candidates)))
            if not phrases:
                raise InputError("candidates: the vocabulary is empty; leave it out, and noun chunks are ranked")
            if longest := next((phrase for phrase in phrases if len(phrase) > LONGEST), None):
                raise InputError(f"candidates: {longest[:40]!r}... has more than {LONGEST} characters; leave it out")
            self._vocabulary = Containment(phrases, lemmas=False)
        self._restricts = bool(stops) or self._vocabulary is not None
        self._idf: InverseFrequency | None = None
        self._counts: Counter[str] | None = None

    def fit(self, texts: Texts) -> Keywords:
        """Compute inverse document frequencies over ``texts`` (any iterable) for later rankings; return ``self``."""
        counts, rank = Counter[str](), self._ranker(self._method, self._choice, None)

        def counted() -> Iterator[pa.Table]:
            for part in self._parts(texts, [self._method]):
                if self._choice.min_count > 1:
                    counts.update(self._choice.counted([rank(part.tokens)]))
                yield part.tokens

        self._idf = InverseFrequency.over_tables(counted())
        self._counts = counts if self._choice.min_count > 1 else None
        return self

    def rank(self, texts: Texts, top: int = 10) -> Phrases:
        """Return the phrases of one text or many, at most ``top`` of each.

        Inverse document frequencies, which order phrases by ``tfidf`` and break the ties of other rankings, are those
        of :meth:`fit`, or else of these texts alone.

        Args:
            texts: a text, texts in any iterable, a pandas or Arrow column, or annotated documents of spaCy.
            top: phrases per text at most, from 1.
        """
        return self._all([self._method], texts, top)[self._method]

    def compare(self, methods: Sequence[Method], texts: Texts, top: int = 10) -> Comparison:
        """Return the phrases of each text by several of :attr:`methods` side by side; texts are read once."""
        if isinstance(methods, str) or not isinstance(methods, Sequence) or not methods:
            raise InputError(f"compare: a list of methods is needed, such as ['tfidf', 'yake'], found {methods!r}")
        for method in methods:
            _check_method("compare", method)
        if self._counts is not None:
            raise InputError("compare: fit has counted the phrases of one method for min_count; leave out fit")
        return Comparison(self._all(list(dict.fromkeys(methods)), texts, top), ids_of(texts))

    def _chooses(self, method: str, choice: Choice) -> Choice:
        """Return ``choice`` with the limit of words; yake needs none, since its phrases have at most three words."""
        return replace(choice, usual=None if method == "yake" else self._usual)

    def _all(self, methods: Sequence[str], texts: Texts, top: int) -> dict[str, Phrases]:
        choices = {method: self._chooses(method, replace(self._choice, top=top)) for method in methods}
        for method, choice in choices.items():
            self._ranking(method, choice)  # what is wrong with the options is said before texts are read
        ids = ids_of(texts)
        parts = list(self._parts(texts, methods))
        tokens = [part.tokens for part in parts]
        idf = self._idf or InverseFrequency.over_tables(tokens)
        total = sum(len(part.texts) for part in parts)
        phrases = {}
        for method, choice in choices.items():
            ranked_parts = list(map(self._ranker(method, choice, idf), tokens))
            counts = choice.counted(ranked_parts) if self._idf is None else self._counts
            table = pa.concat_tables([_NOTHING, *(self._chosen(method, choice, ranked, part, counts)
                                                  for ranked, part in zip(ranked_parts, parts, strict=True))])
            phrases[method] = Phrases(with_ids(table, ids), total, skipped=total - sum(map(len, tokens)))
        self._warn(parts)
        return phrases

    def _warn(self, parts: Sequence[_Part]) -> None:
        """Warn of texts in another language than the one given."""
        if self._language not in LANGUAGES:
            return
        from keycontrast.text.annotate import is_foreign

        texts = [text for part in parts for text in part.texts]
        count = sum(isinstance(text, str) for text in texts)
        foreign = [isinstance(text, str) and is_foreign(text, self._language) for text in texts]
        if any(foreign):
            warnings.warn(f"{sum(foreign)} of {count} texts ({sum(foreign) / count:.0%}) are not written as "
                          f"language {self._language!r} is, the first of them text {foreign.index(True)} (counted from "
                          f"0); their phrases mean little.", stacklevel=4)

    def stream(self, texts: Texts, top: int = 10) -> Iterator[list[Phrase]]:
        """Yield the phrases of each text, in order, with a thousand texts in memory at a time, after :meth:`fit`."""
        if self._idf is None:
            raise InputError("stream: call fit(texts) before, with these or other texts, for the inverse document "
                             "frequencies; rank(texts) counts them itself.")
        choice = replace(self._choice, top=top)
        rank = self._ranker(self._method, choice, self._idf)
        for part in self._parts(texts, [self._method]):
            chosen = self._chosen(self._method, choice, rank(part.tokens), part, self._counts)
            yield from Phrases(chosen, len(part.texts), part.first)

    def ranked(self, tokens: pa.Table, top: int) -> pa.Table:
        """Return the rows of table ``phrases`` for token rows, by the frequencies of :meth:`fit`, or else of these."""
        choice = replace(self._choice, top=top)
        ranked = self._ranker(self._method, choice, self._idf or InverseFrequency.over_tables([tokens]))(tokens)
        counts = choice.counted([ranked]) if self._idf is None else self._counts
        return choice.chosen(ranked, counts, self._vectors(self._method))

    def ranking_input(self, texts: Texts, top: int) -> tuple[pa.Table, Ranking, Choice]:
        """Return token rows, whose noun chunks are the candidates, the ranking, and the choice of ``top`` of them."""
        choice = replace(self._choice, top=top)
        return self._candidates(self.tokens(texts)), self._ranking(self._method, choice), choice

    def tokens(self, texts: Texts) -> pa.Table:
        """Return the token rows of texts or documents, numbered from 0, without those that are skipped."""
        parts = list(self._parts(texts, [self._method]))
        self._warn(parts)
        return pa.concat_tables([TOKENS.empty_table(), *(part.tokens for part in parts)]).combine_chunks()

    def _parts(self, texts: Texts, methods: Sequence[str]) -> Iterator[_Part]:
        """Yield the token rows of texts or documents, a thousand at a time, annotated as ``methods`` need it."""
        if self._encoder != "bundled" and "embedrank" not in methods:
            raise InputError(f"encoder: it is of embedrank, not of {' or '.join(methods)}; choose that method too, or "
                             f"leave it out")
        needed = [name for name in _CALLED if any(name in _NEEDED.get(method, ("POS",)) for method in methods)]
        total = len(texts) if isinstance(texts, Sized) and not isinstance(texts, str) and not _is_doc(texts) else None
        given = listed(texts)
        first = list(islice(given, 1))
        rest = chain(first, given)
        if any(map(_is_doc, first)):
            yield from _documents(rest, needed)
            return
        from keycontrast.text.annotate import annotated  # brings spaCy, which takes seconds to import

        if not isinstance(self._pipeline, str):
            from keycontrast.text.pipelines import check_annotation

            check_annotation(self._pipeline, f"{self._pipeline.lang}_{self._pipeline.meta['name']}", needed)
        pending: deque[tuple[int, Sequence[Any]]] = deque()
        for tokens in annotated(self._chunks(rest, pending), self._pipeline, self._language, total, self._workers):
            yield _Part(*pending.popleft(), tokens)

    def _chunks(self, texts: Iterator[Any], chunks: deque[tuple[int, Sequence[Any]]]) -> Iterator[pa.Table]:
        """Yield texts with their numbers, a thousand at a time; ``chunks`` gets the first number and the texts."""
        start = 0
        while part := list(islice(texts, _CHUNK)):
            ids = [place for place, text in enumerate(part, start) if not (self._skips and _is_null(text))]
            for place in ids:
                text = part[place - start]
                if not isinstance(text, str):
                    advice = "; give on_null='skip' to leave out such texts" if _is_null(text) else ""
                    raise InputError(f"text {place} (counted from 0) is no text but of type {type(text).__name__}"
                                     f"{advice}")
                if not is_unicode(text):
                    raise InputError(f"text {place} (counted from 0) has half a surrogate pair, which is invalid")
            chunks.append((start, part))
            yield pa.table({"text_id": pa.array(ids, pa.int64()),
                            "text": pa.array([part[place - start] for place in ids], pa.string())})
            start += len(part)

    def _ranking(self, method: str, choice: Choice) -> Ranking:
        for option, given, fitting in (("candidates", self._vocabulary, _OF_VOCABULARY),
                                       ("seed_words", self._seeds, _OF_SEEDS)):
            if given and method not in fitting:
                raise InputError(f"{option}: the method {method} does nothing with them; choose "
                                 f"{', '.join(fitting[:-1])} or {fitting[-1]}")
        if method == "yake" and choice.ngram_range is not None and choice.ngram_range[0] > 3:
            raise InputError("ngram_range: phrases of yake have at most three words; choose another method")
        chunks: Chunks = "annotated" if self._restricts else "auto"
        return ranking_of(method, self._language, choice.drawn, self._encoder, self._seeds, chunks)

    def _ranker(self, method: str, choice: Choice, idf: InverseFrequency | None) -> Callable[[pa.Table], pa.Table]:
        rank = ranker(self._ranking(method, choice), choice.drawn, idf)
        return lambda tokens: rank(self._candidates(tokens)).table

    def _candidates(self, tokens: pa.Table) -> pa.Table:
        if not self._restricts:
            return tokens
        return with_candidates(tokens, self._language, self._choice.stop_words, self._vocabulary)

    def _vectors(self, method: str) -> Callable[[Sequence[str]], Any] | None:
        """Return the embedding of phrases by the method's encoder, if it has one."""
        return getattr(self._ranking(method, self._choice), "vectors", None)

    def _chosen(self, method: str, choice: Choice, ranked: pa.Table, part: _Part,
                counts: Counter[str] | None) -> pa.Table:
        return _table(choice.chosen(ranked, counts, self._vectors(method)), part)


def _check_method(option: str, method: str) -> None:
    if method not in METHODS:
        raise InputError(f"{option}: no ranking is called {str(method)[:60]!r}; {nearest(str(method), METHODS)}")


def _encoder(encoder: Any) -> Any:
    """Return the encoder as a ranking takes it: a source, or an object."""
    if encoder is None:
        return "bundled"
    if isinstance(encoder, str | PathLike):
        return source_of(encoder, "encoder")
    if not callable(getattr(encoder, "encode", None)):
        raise InputError(f"encoder: a folder, a name on the hub or an object with encode(texts) is needed, found "
                         f"{type(encoder).__name__}")
    return encoder


def _reader(pipeline: Any, language: str | None, workers: int) -> tuple[str | Language, str]:
    """Return the language pipeline, or its name, and the language."""
    if isinstance(pipeline, str | PathLike):
        name, language = fspath(pipeline), language or "en"
        if name == "embedded" and language not in LANGUAGES:
            raise InputError(f"language: {language!r} is none of {' and '.join(map(repr, LANGUAGES))}, which are read "
                             f"without a pipeline of yours; for another, name a spaCy pipeline (option pipeline)")
        return name if isinstance(pipeline, str) or "/" in name else f"./{name}", language
    if not hasattr(pipeline, "pipe") or not hasattr(pipeline, "vocab"):
        raise InputError(f"pipeline: a name, a folder or a spaCy pipeline is needed, found {type(pipeline).__name__}")
    if language not in (None, pipeline.lang) and pipeline.lang != "xx":
        raise InputError(f"language: {language!r} is given, but the pipeline is made for {pipeline.lang!r}; leave it "
                         f"out, or give another pipeline")
    if workers > 1:
        raise InputError("workers: a spaCy pipeline is used in one process; save it (pipeline.to_disk) and give the "
                         "folder, or leave out workers")
    return pipeline, language or pipeline.lang


def ranking_of(method: str, language: str, phrases: int, encoder: Any = "bundled", seeds: tuple[str, ...] = (),
               chunks: Chunks = "auto") -> Ranking:
    """Return a ranking by its name, for so many phrases of a text, with the library's settings."""
    if method == "yake":
        from keycontrast.ranking.yake import YakeRanking

        return YakeRanking(language, top=phrases)
    if method == "embedrank":
        from keycontrast.ranking.embedrank import EmbedRanking

        return EmbedRanking(encoder, chunks=chunks, language=language, seeds=seeds, param="encoder")
    return Settings(method, language=language, focus=" ".join(seeds), chunks=chunks)


def listed(texts: Any) -> Iterator[Any]:
    """Return the texts or documents in a text, iterable or column; a table is an error."""
    if isinstance(texts, str) or _is_doc(texts):
        return iter((texts,))
    if isinstance(texts, pa.Array | pa.ChunkedArray):
        return (value.as_py() for value in texts)
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):
        raise InputError("texts: this is a table. Give the column that holds the texts, such as table['text'].")
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise InputError(f"texts: a text, or texts in a list, an iterator or a column are needed, found "
                         f"{type(texts).__name__}.")
    return iter(texts)


def ids_of(texts: Any) -> pa.Array | None:
    """Return the index of a pandas Series, unless it is only numbered; one of several levels is an error."""
    index: Any = getattr(texts, "index", None)
    if not hasattr(index, "nlevels") or (type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)):
        return None
    if index.nlevels > 1:
        raise InputError("texts: the index has several levels, and an id is one value; call reset_index() and choose "
                         "one of them with set_index")
    return id_column(index.tolist())


def with_ids(table: pa.Table, ids: pa.Array | None) -> pa.Table:
    """Return a table of rows with the column ``id`` of their texts, if there are ids."""
    return table if ids is None else table.add_column(1, "id", ids.take(table["row"].combine_chunks()))


def id_column(ids: Sequence[Any]) -> pa.Array:
    """Return ids as a column, as text if they are of several types."""
    try:
        return pa.array(ids)
    except (ValueError, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else plain(str(value)) for value in ids], pa.string())


def _is_doc(value: Any) -> bool:
    return hasattr(value, "noun_chunks") and hasattr(value, "has_annotation")   # which a part of a document lacks


def _is_null(text: Any) -> bool:
    return text is None or type(text).__name__ in ("NAType", "NaTType") or (isinstance(text, float) and text != text)


def _documents(docs: Iterator[Any], needed: Iterable[str]) -> Iterator[_Part]:
    start = 0
    while part := list(islice(docs, _CHUNK)):
        for place, doc in enumerate(part, start):
            if not _is_doc(doc):
                raise InputError(f"text {place} (counted from 0) is no document of spaCy, as those before it, but of "
                                 f"type {type(doc).__name__}")
            missing = [_CALLED[name] for name in needed if doc.text.strip() and not doc.has_annotation(name)]
            if missing:
                raise InputError(f"document {place} (counted from 0) has no {' and no '.join(missing)}; its pipeline "
                                 f"needs a tagger and a lemmatizer, or give texts in place of documents")
        first, tables = start, []
        for _, same in groupby(part, lambda doc: id(doc.vocab)):
            group = list(same)
            ids = pa.array(range(start, start + len(group)), pa.int64())
            tables.append(token_table({"text_id": ids, **document_columns(group, group[0].vocab, runs=True)}))
            start += len(group)
        yield _Part(first, part, pa.concat_tables(tables).combine_chunks())


def _table(rows: pa.Table, part: _Part) -> pa.Table:
    """Return the phrases of a part: characters in place of tokens, and phrases as they are written in the text."""
    block, rows = TokenBlock(part.tokens), rows.filter(pc.greater(rows["rank"], 0))
    before = block.offsets[np.searchsorted(block.text_ids, rows["text_id"].to_numpy())]
    begin = block.column("start").take(pa.array(before + rows["token_start"].to_numpy()))
    end = block.column("end").take(pa.array(before + rows["token_end"].to_numpy() - 1))
    phrases = []
    for row, first, last, phrase in zip(rows["text_id"].to_pylist(), begin.to_pylist(), end.to_pylist(),
                                        rows["phrase"].to_pylist(), strict=True):
        given = str(part.texts[row - part.first])[first:last].translate(_INVISIBLE)
        # If the text has markup inside the phrase, the phrase is given as the pipeline read it.
        phrases.append(given if given == phrase or normal_form(given) == normal_form(phrase)
                       else " ".join(phrase.split()))
    columns = (rows["text_id"], rows["rank"], pa.array(phrases, pa.string()), rows["keyword"], rows["score"], begin,
               end)
    return pa.table({name: pc.cast(column, kind)
                     for (name, kind), column in zip(_COLUMNS.items(), columns, strict=True)})
