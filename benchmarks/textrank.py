"""Keyword ranking beside the pytextrank package on the same annotated texts, one core: the engine, and the components
for spaCy."""

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json

from benchmarks.harness import Context, Disagreement, Section, compare
from keycontrast import spacy_component
from keycontrast.ranking import rank
from keycontrast.ranking.package import docs, package_component, pytextrank, rank_with_package
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.text.annotate import annotator

_SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample" / "paraphrase.jsonl"
_WORDS = (24, 240)
_DOCUMENTS = (24, 240, 2400)  # words
_TOTAL = 24_000  # words of all texts
_ALL = 1_000_000  # phrases per text, more than any has
_SCORE = 1e-6


def run(context: Context) -> list[Section]:
    """Time rankings and components for spaCy on texts of several lengths."""
    pa.set_cpu_count(1)  # Arrow's own threads would be a second core
    return [*(_engines(words, context) for words in _WORDS), *(_components(words, context) for words in _DOCUMENTS)]


def annotated(words: int, texts: int) -> pa.Table:
    """Return the token table of ``texts`` texts, joined from the shipped sample until they have ``words`` words."""
    sources = cycle(pa.json.read_json(_SAMPLE)["source"].unique().to_pylist())
    joined = []
    for _ in range(texts):
        text = next(sources)
        while len(text.split()) < words:
            text += f" {next(sources)}"
        joined.append(text)
    return annotator("embedded")(pa.table({"text_id": pa.array(range(texts), pa.int64()), "text": joined}))


def differing(tokens: pa.Table) -> int:
    """Return the number of texts on which engine and package differ: phrases, their places, or scores beyond 1e-6."""
    columns = ("text_id", "phrase", "keyword", "token_start", "token_end", "status")
    ours, theirs = ({tuple(row[name] for name in columns): row["score"] or 0.0 for row in table.to_pylist()}
                    for table in (rank(tokens, "pytextrank", _ALL, compat="pytextrank"),
                                  rank_with_package(tokens, _ALL, package_component("pytextrank"))))
    return len({row[0] for row in ours.keys() | theirs.keys()
                if row not in ours or row not in theirs or abs(ours[row] - theirs[row]) > _SCORE})


def _engines(words: int, context: Context) -> Section:
    tokens = annotated(words, 20 if context.quick else _TOTAL // words)
    wrong = differing(tokens)
    if wrong:
        raise Disagreement(f"textrank: {wrong} of {tokens.num_rows} texts differ from pytextrank")
    idf = InverseFrequency.over_tables([tokens])
    rebuilt = [doc for _, doc in docs(tokens)]
    component = package_component("pytextrank")
    rows = compare({
        "ours, compat: pytextrank": lambda: rank(tokens, "pytextrank", compat="pytextrank"),
        "ours, pytextrank": lambda: rank(tokens, "pytextrank", idf=idf),
        "ours, mihalcea": lambda: rank(tokens, "mihalcea", idf=idf),
        "pytextrank's component": lambda: [component(doc) for doc in rebuilt],
    }, context.repeats, items=tokens.num_rows)
    return Section(
        f"{words} words per text", f"{tokens.num_rows:,} annotated texts of {words} words or a few more, one core",
        f"0 of {tokens.num_rows:,} texts differ between compat: pytextrank and the package in phrases or scores "
        f"({_SCORE:g})", [rows],
        ["The package works on spaCy documents that were built beforehand; ours on the token table, from Arrow to "
         "Arrow, ready to be written."])


def _components(words: int, context: Context) -> Section:
    """Compare the components for spaCy, which take one document after another."""
    documents = [doc for _, doc in docs(annotated(words, 10 if context.quick else _TOTAL // words))]

    def ranked(component: Callable[[Any], Any]) -> Callable[[], list[Any]]:
        return lambda: [component(doc)._.phrases for doc in documents]

    ours, theirs = ranked(spacy_component._Component()), ranked(pytextrank.BaseTextRankFactory())
    for mine, other in zip(ours(), theirs(), strict=True):
        scores = {phrase.text: phrase.rank for phrase in other}
        if scores.keys() != {phrase.text for phrase in mine} or any(
                abs(scores[phrase.text] - phrase.rank) > _SCORE for phrase in mine):
            raise Disagreement(f"{words} words: the components give different phrases")
    rows = compare({"keycontrast_textrank": ours, "pytextrank's textrank": theirs}, context.repeats,
                   items=len(documents))
    return Section(f"Components for spaCy, {words} words", f"{len(documents):,} documents of {words} words or a few "
                   f"more, `doc._.phrases`, one core", f"both give the same phrases for every document, ranks within "
                   f"{_SCORE:g}", [rows])
