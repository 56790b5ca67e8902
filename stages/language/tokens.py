"""Columns of ``tokens.parquet``: from spaCy documents to plain lists and back."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from stages.artifacts.schemas import SCHEMAS

TokenColumns = dict[str, list[Any]]
_SCHEMA = SCHEMAS["tokens"].arrow()
# Part of what decides the bytes: a tagger's sums may differ in the last bit with the texts beside a text.
_BATCH = 128
_CHUNKS = "noun_chunks"


def annotate_texts(nlp: Language, text_ids: Iterable[int], texts: Iterable[str]) -> TokenColumns:
    """Return the columns of the token table for ``texts``, in their order; one ``nlp`` pass each."""
    columns: TokenColumns = {name: [] for name in _SCHEMA.names}
    for text_id, doc in zip(text_ids, nlp.pipe(texts, batch_size=_BATCH), strict=True):
        columns["text_id"].append(text_id)
        for name, values in doc_columns(doc).items():
            columns[name].append(values)
    return columns


def doc_columns(doc: Doc) -> dict[str, list[Any]]:
    """Return one row of the token table, without its ``text_id``."""
    chunks = [(chunk.start, chunk.end) for chunk in doc.noun_chunks]
    return {
        "token": [token.text for token in doc],
        "lemma": [token.lemma_ for token in doc],
        "pos": [token.pos_ for token in doc],
        "tag": [token.tag_ for token in doc],
        "start": [token.idx for token in doc],
        "end": [token.idx + len(token) for token in doc],
        "is_stop": [token.is_stop for token in doc],
        # A pipeline without sentence starts leaves None, which reads as one sentence.
        "sentence_start": [token.i == 0 or token.is_sent_start is True for token in doc],
        "chunk_start": [start for start, _ in chunks],
        "chunk_end": [end for _, end in chunks],
    }


def token_table(columns: TokenColumns) -> pa.Table:
    """Return ``columns`` as an Arrow table of the ``tokens`` schema."""
    return pa.table(columns, schema=_SCHEMA)


def rebuild_docs(tokens: pa.Table) -> Iterator[tuple[int, Doc]]:
    """Yield text id and spaCy document of each row of a token table, as the pipeline left it; no model needed.

    ``doc.noun_chunks`` gives the stored spans. Texts without tokens are documents without tokens.
    """
    vocab = Vocab()
    # The annotations promise a function that yields spans; what spaCy reads are these triples.
    vocab.get_noun_chunks = _stored_chunks(vocab)  # type: ignore[assignment]
    columns = [
        tokens[name].to_pylist()
        for name in (
            "text_id",
            "token",
            "start",
            "end",
            "lemma",
            "pos",
            "tag",
            "sentence_start",
            "chunk_start",
            "chunk_end",
        )
    ]
    for text_id, words, start, end, lemma, pos, tag, opens, chunk_start, chunk_end in zip(*columns, strict=True):
        spaces = [after > before for before, after in zip(end, start[1:] + end[-1:], strict=True)]
        doc = Doc(vocab, words=words, spaces=spaces, tags=tag, pos=pos, lemmas=lemma, sent_starts=opens)
        doc.user_data[_CHUNKS] = list(zip(chunk_start, chunk_end, strict=True))
        yield text_id, doc


def _stored_chunks(vocab: Vocab) -> Callable[[Doc], Iterator[tuple[int, int, int]]]:
    label = vocab.strings.add("NP")

    def chunks(doc: Doc) -> Iterator[tuple[int, int, int]]:
        for start, end in doc.user_data[_CHUNKS]:
            yield start, end, label

    return chunks


def fixed_chunks(tokens_or_texts: pa.Table, size: int) -> list[pa.Table]:
    """Return ``tokens_or_texts``, sorted by ``text_id``, in pieces of ``size`` rows that stand alone.

    Copies, because a pickled slice of an Arrow table carries the whole table.
    """
    ordered = tokens_or_texts.sort_by("text_id")
    cuts = [*range(0, ordered.num_rows, size), ordered.num_rows]
    return [ordered.take(pa.array(range(start, stop))) for start, stop in pairwise(cuts)]
