"""The pytextrank package itself over stored tokens: ``engine: package``. The token table has no entities."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from networkx import PowerIterationFailedConvergence
from spacy.tokens import Doc

from keycontrast.ranking.methods import Settings
from keycontrast.ranking.ranker import Ranked, Report
from keycontrast.text.normal_form import normal_form
from keycontrast.text.schemas import PHRASES
from keycontrast.text.tokens import rebuild_docs

# On import the package looks for its own git repository and prints the folder where it found none.
with Path(os.devnull).open("w") as _silence, redirect_stdout(_silence):
    import pytextrank

_FACTORIES = {"pytextrank": "BaseTextRankFactory", "positionrank": "PositionRankFactory",
              "biasedtextrank": "BiasedTextRankFactory", "topicrank": "TopicRankFactory"}


def package_ranker(settings: Settings, phrases: int) -> Callable[[pa.Table], Ranked]:
    """Return the function from token tables to the package's rankings, as ``ranker`` does for ours."""
    component = package_component(settings.method, settings.focus, settings.span)

    def ranked(tokens: pa.Table) -> Ranked:
        table = rank_with_package(settings.chunked(tokens), phrases, component)
        first = table.filter(pc.less_equal(table["rank"], 1))
        return Ranked(table, Report(Counter(first["status"].to_pylist())))

    return ranked


def rank_with_package(tokens: pa.Table, phrases: int, component: Callable[[Doc], Any]) -> pa.Table:
    """Return table ``textrank``: the first ``phrases`` of each text in the package's order, by score, ties by text."""
    rows = [{"text_id": text_id, **row} for text_id, doc in docs(tokens) for row in _rows(component, doc, phrases)]
    return pa.Table.from_pylist(rows, schema=PHRASES).sort_by([("text_id", "ascending"), ("rank", "ascending")])


def package_component(method: str, focus: str = "", lookback: int = 3) -> Callable[[Doc], Any]:
    """Return the package's component for ``method``; ``biasedtextrank`` has bias 1 for the words of ``focus``."""
    component = getattr(pytextrank, _FACTORIES[method])(token_lookback=lookback)
    if method != "biasedtextrank":
        return component

    def biased(doc: Doc) -> Doc:
        component(doc)._.textrank.change_focus(focus, bias=1.0, default_bias=0.0)
        return doc

    return biased


def docs(tokens: pa.Table) -> Iterator[tuple[int, Doc]]:
    """Yield the rebuilt document of each text, stop words included, which topicrank leaves out."""
    for (text_id, doc), stops in zip(rebuild_docs(tokens), tokens["is_stop"].to_pylist(), strict=True):
        for token, stop in zip(doc, stops, strict=True):
            token.lex.is_stop = stop
        yield text_id, doc


def _rows(ranked: Callable[[Doc], Any], doc: Doc, phrases: int) -> Iterator[dict[str, Any]]:
    try:
        # A lone apostrophe, which is scrubbed, has no normal form.
        named = [phrase for phrase in ranked(doc)._.phrases if normal_form(phrase.text)] if len(doc) else []
        status = "no_candidate" if len(doc) else "empty_text"
    except PowerIterationFailedConvergence:
        named, status = [], "not_converged"
    if not named:
        yield {"rank": 0, "status": status}
    for place, phrase in enumerate(named[:phrases], start=1):
        first = min(phrase.chunks, key=lambda chunk: chunk.start)
        yield {"rank": place, "status": "ok", "phrase": first.text, "keyword": normal_form(phrase.text),
               "score": float(phrase.rank), "token_start": first.start, "token_end": first.end}
