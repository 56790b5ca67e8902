"""TextRank as the pytextrank package computes it (METHODS A.2, ``method: pytextrank``).

The package is run as it is, with its defaults: nodes are (lemma, part of speech) of adjectives, nouns, proper
nouns and verbs, edges join nodes up to three apart, phrases are noun chunks. Documents are rebuilt from the
token table. Entities of a pipeline that finds them are not in that table, and so not among the phrases.
"""

import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
from spacy.tokens import Doc

from stages.artifacts.schemas import SCHEMAS
from stages.language.tokens import rebuild_docs
from stages.ranking.normal_form import normal_form

# On import the package looks for its own git repository and prints the folder where it found none.
with Path(os.devnull).open("w") as _silence, redirect_stdout(_silence):
    from pytextrank import BaseTextRankFactory

_NO_PHRASE = {"phrase": None, "keyword": None, "score": None, "start": None, "end": None}


def rank_with_pytextrank(tokens: pa.Table, phrases: int) -> pa.Table:
    """Return the first ``phrases`` phrases of each text in the package's order: by score, ties by text."""
    component = BaseTextRankFactory()
    rows = [{"text_id": text_id, **row} for text_id, doc in rebuild_docs(tokens)
            for row in _rows(component, doc, phrases)]
    return pa.Table.from_pylist(rows, schema=SCHEMAS["textrank"].arrow())


def _rows(component: BaseTextRankFactory, doc: Doc, phrases: int) -> Iterator[dict[str, Any]]:
    found = _phrases(component, doc)[:phrases] if len(doc) else []
    if not found:
        yield {"rank": 0, "status": "no_candidate" if len(doc) else "empty_text", **_NO_PHRASE}
    for place, row in enumerate(found, start=1):
        yield {"rank": place, "status": "ok", **row}


def _phrases(component: BaseTextRankFactory, doc: Doc) -> list[dict[str, Any]]:
    """Return the phrases of ``doc`` that have a normal form; a lone apostrophe, which is scrubbed, has none."""
    found = []
    for phrase in component(doc)._.phrases:
        keyword = normal_form(phrase.text)
        if keyword:
            first = min(phrase.chunks, key=lambda chunk: chunk.start)
            found.append({"phrase": first.text, "keyword": keyword, "score": float(phrase.rank),
                          "start": first.start, "end": first.end})
    return found
