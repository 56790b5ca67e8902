"""Columns of table ``tokens``: from spaCy documents to Arrow arrays and back, and texts in fixed pieces."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from keycontrast.text.clean import Cleaned, clean
from keycontrast.text.schemas import TOKENS

# spaCy takes seconds to import and 100 MiB.
if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.strings import StringStore
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

TokenColumns = dict[str, Any]
Integers = npt.NDArray[np.int64]
# This affects the bytes: a tagger's sums may differ in the last bit with the other texts of a batch.
BATCH = 128
_CHARACTERS = 20_000  # of the texts that the pipeline holds at a time; each takes it about 4 kB
NOUNS = ("NOUN", "PROPN")
_CHUNKS = "noun_chunks"
# Letters and digits, perhaps with hyphens (SARS-CoV-2, 5G); languages and platforms that have signs in their names.
NAME = re.compile(r"(?=[\w-]*[A-Z])[A-Za-z]+(?:-[A-Za-z]+)*-?\d[\w-]*|[A-Za-z]{2,}\d+|\d[DGK]|"
                  r"[A-Za-z]*\.(?:NET|js|io)|[A-Za-z](?:#|\+\+)")
# The attributes that are read from each spaCy document in one call.
_ATTRIBUTES: list[int | str] = ["ORTH", "LEMMA", "POS", "TAG", "IDX", "LENGTH", "IS_STOP", "SENT_START"]


def annotate_texts(nlp: "Language", text_ids: Sequence[int], texts: Sequence[str],
                   cleaning: bool = False, given: bool = False) -> TokenColumns:
    """Return the columns of the token table for ``texts``, in their order; one ``nlp`` pass each.

    With ``cleaning``, the pipeline reads :func:`keycontrast.text.clean.clean` of them, and offsets are those of the
    texts as given; names with digits or signs, such as IL-6, are nouns; and ``cleaned`` is the number of changed texts.

    spaCy's memory for these texts is freed before this returns, so that a process does not grow with the vocabulary of
    a corpus. The memory of a ``given`` pipeline is not freed, since its caller may still use documents of it; noun
    chunks of such a pipeline are runs of nouns.
    """
    cleaned = [clean(text) for text in texts] if cleaning else []
    read = [item.read for item in cleaned] if cleaning else texts
    for text_id, text in zip(text_ids, read, strict=True):
        if len(text) > nlp.max_length:
            raise InputError(f"text {text_id}: {len(text):,} characters, but the language pipeline reads at most "
                             f"{nlp.max_length:,} at a time. Split it into paragraphs in the input file, or leave it "
                             f"out.")
    with nullcontext() if given else nlp.memory_zone():
        docs = _documents(nlp, read)
        if not cleaning:
            return {"text_id": pa.array(text_ids, pa.int64()), **document_columns(docs, nlp.vocab, runs=given)}
        columns = document_columns(docs, nlp.vocab, runs=given, names=True)
        return {"text_id": pa.array(text_ids, pa.int64()), "cleaned": sum(bool(item.start) for item in cleaned),
                **as_given(columns, cleaned)}


def _documents(nlp: "Language", texts: Sequence[str]) -> Iterator["Doc"]:
    """Yield the documents of ``texts``, of which the pipeline holds few at a time where they are long."""
    before = np.cumsum([0, *map(len, texts)])[:-1] // _CHARACTERS
    for _, rows in groupby(range(len(texts)), key=before.__getitem__):
        yield from nlp.pipe([texts[row] for row in rows], batch_size=BATCH)


def document_columns(docs: Iterable["Doc"], vocab: "Vocab", runs: bool = False,
                     names: bool = False) -> dict[str, pa.Array]:
    """Return list columns for ``docs``, all of one ``vocab``; they hold plain values and outlive the documents' memory.

    With ``runs``, noun chunks are the runs of nouns. With ``names``, names with digits or signs (IL-6, X900, C#), and
    words that are the whole text, are nouns.
    """
    from keycontrast.text.pipelines import noun_chunks

    of_their_own = not runs and vocab.get_noun_chunks is not noun_chunks  # type: ignore[comparison-overlap]
    arrays: list[npt.NDArray[Any]] = [np.zeros((0, len(_ATTRIBUTES)), np.uint64)]
    spans: list[list[tuple[int, int]]] = []
    for doc in docs:
        arrays.append(doc.to_array(_ATTRIBUTES).reshape(-1, len(_ATTRIBUTES)))
        if of_their_own:
            spans.append([(chunk.start, chunk.end) for chunk in doc.noun_chunks])
    lengths = np.array([len(array) for array in arrays[1:]], np.int64)
    orth, lemma, pos, tag, start, length, is_stop, opens = np.concatenate(arrays).T
    if names:
        named = _among(orth, vocab.strings, lambda word: NAME.fullmatch(word) is not None)
        worded = _among(orth, vocab.strings, lambda word: any(map(str.isalnum, word)))
        alone = np.repeat(np.add.reduceat(np.append(worded, False), np.cumsum(lengths) - lengths) == 1, lengths) \
            if len(worded) else worded
        named |= alone & worded & ~is_stop.astype(bool)
        nouns = _among(pos, vocab.strings, NOUNS.__contains__)
        pos = np.where(named & ~nouns, np.uint64(vocab.strings["NOUN"]), pos)
    strings = {name: strings_of(column, vocab.strings) for name, column in
             (("token", orth), ("lemma", lemma), ("pos", pos), ("tag", tag))}
    first = np.zeros(len(orth), bool)
    first[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    values: dict[str, Any] = {
        **strings, "start": start.astype(np.int32), "end": (start + length).astype(np.int32),
        "is_stop": is_stop.astype(bool),
        # A pipeline without sentence starts leaves them open (0), which reads as one sentence.
        "sentence_start": first | (opens == 1)}
    columns = {name: list_array(lengths, pa.array(column)) for name, column in values.items()}
    if of_their_own:
        counts = np.array([len(row) for row in spans], np.int64)
        begin, end = np.array([pair for row in spans for pair in row], np.int64).reshape(-1, 2).T
    else:
        counts, begin, end = noun_runs(_among(pos, vocab.strings, NOUNS.__contains__), lengths)
    return columns | chunk_columns(counts, begin, end)


def as_given(columns: dict[str, pa.Array], cleaned: Sequence[Cleaned]) -> dict[str, pa.Array]:
    """Return list columns of cleaned texts with the words and offsets of the texts as given."""
    changed = [row for row, item in enumerate(cleaned) if item.start or item.read != item.text]
    if not changed:
        return columns
    lengths = columns["token"].value_lengths().to_numpy()
    offsets = np.append(0, np.cumsum(lengths))
    words = columns["token"].flatten().to_pylist()
    start, end = (columns[name].flatten().to_numpy().copy() for name in ("start", "end"))
    for row in changed:
        inside, item = slice(offsets[row], offsets[row + 1]), cleaned[row]
        words[inside] = [item.text[first:last] for first, last in zip(start[inside], end[inside], strict=True)]
        if item.start:
            start[inside] = np.array([*item.start, 0], np.int32)[start[inside]]
            end[inside] = np.array([*item.end, 0], np.int32)[end[inside] - 1]
    values = {"token": pa.array(words, pa.string()), "start": pa.array(start), "end": pa.array(end)}
    return columns | {name: list_array(lengths, column) for name, column in values.items()}


def strings_of(hashes: npt.NDArray[np.uint64], strings: "StringStore") -> pa.Array:
    """Return the string behind each of spaCy's hashes; each distinct one is looked up once."""
    keys, places = np.unique(hashes, return_inverse=True)
    return pa.array([strings[key] for key in keys.tolist()], pa.string()).take(pa.array(places))


def _among(hashes: npt.NDArray[np.uint64], strings: "StringStore", chosen: Callable[[str], bool],
           ) -> npt.NDArray[np.bool_]:
    known, places = np.unique(hashes, return_inverse=True)
    return np.array([chosen(strings[key]) for key in known.tolist()], bool)[places]


def noun_runs(inside: npt.NDArray[np.bool_], lengths: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the runs per text of marked tokens, and first token and token after the last of each run in its text.

    ``inside`` marks the tokens of all texts, (tokens,), of which each text has ``lengths``, (texts,).
    """
    text = np.repeat(np.arange(len(lengths)), lengths)
    begins = inside.copy()
    begins[1:] &= ~(inside[:-1] & (text[1:] == text[:-1]))
    ends = inside.copy()
    ends[:-1] &= ~(inside[1:] & (text[1:] == text[:-1]))
    before = (np.cumsum(lengths) - lengths)[text]
    place = np.arange(len(inside)) - before
    return np.bincount(text[begins], minlength=len(lengths)), place[begins], place[ends] + 1


def chunk_columns(counts: Integers, begin: Integers, end: Integers) -> dict[str, pa.Array]:
    """Return the columns of noun chunks: how many each text has, and the places of each in its text."""
    return {"chunk_start": list_array(counts, pa.array(begin.astype(np.int32))),
            "chunk_end": list_array(counts, pa.array(end.astype(np.int32)))}


def list_array(lengths: Integers, values: pa.Array) -> pa.ListArray:
    """Return a list column whose rows take ``lengths`` of ``values``, one after the other."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def token_table(columns: Mapping[str, Any]) -> pa.Table:
    """Return ``columns`` (lists or Arrow arrays) as an Arrow table of the ``tokens`` schema."""
    return pa.table(dict(columns), schema=TOKENS)


def rebuild_docs(tokens: pa.Table) -> Iterator[tuple[int, "Doc"]]:
    """Yield text id and spaCy document of each row of a token table; ``doc.noun_chunks`` gives the stored spans."""
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

    vocab = Vocab()
    label = vocab.strings.add("NP")
    # spaCy's stubs promise spans; it reads these triples.
    noun_chunks: Any = lambda doc: ((*chunk, label) for chunk in doc.user_data[_CHUNKS])  # noqa: E731
    vocab.get_noun_chunks = noun_chunks
    names = ("text_id", "token", "start", "end", "lemma", "pos", "tag", "sentence_start", "chunk_start", "chunk_end")
    columns = [tokens[name].to_pylist() for name in names]
    for text_id, words, start, end, lemma, pos, tag, opens, chunk_start, chunk_end in zip(*columns, strict=True):
        spaces = [after > before for before, after in zip(end, start[1:] + end[-1:], strict=True)]
        doc = Doc(vocab, words=words, spaces=spaces, tags=tag, pos=pos, lemmas=lemma, sent_starts=opens)
        doc.user_data[_CHUNKS] = list(zip(chunk_start, chunk_end, strict=True))
        yield text_id, doc


def stream_chunks(batches: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """Yield rows that come in ``batches``, sorted by ``text_id``, in pieces of ``size`` rows, however they are cut."""
    rest: pa.Table | None = None
    for batch in batches:
        rest = batch if rest is None else pa.concat_tables([rest, batch])
        full = rest.num_rows - rest.num_rows % size
        for start in range(0, full, size):
            yield _alone(rest, start, start + size)
        rest = rest.slice(full)
    if rest is not None and rest.num_rows:
        yield _alone(rest, 0, rest.num_rows)


def _alone(table: pa.Table, start: int, stop: int) -> pa.Table:
    # A copy, because a pickled slice of an Arrow table carries the whole table.
    return table.take(pa.array(np.arange(start, stop))).combine_chunks()


def pieces(batches: Iterable[pa.Table], texts: int = 1 << 12, tokens: int = 1 << 17) -> Iterator[pa.Table]:
    """Join ``batches`` of a token table to pieces of so many texts or tokens, by content alone."""
    held: list[pa.Table] = []
    rows = count = 0
    for batch in batches:
        held.append(batch)
        rows, count = rows + batch.num_rows, count + (pc.sum(pc.list_value_length(batch["token"])).as_py() or 0)
        if rows >= texts or count >= tokens:
            yield pa.concat_tables(held).combine_chunks()
            held, rows, count = [], 0, 0
    if held:
        yield pa.concat_tables(held).combine_chunks()
