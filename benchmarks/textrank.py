"""Keyword ranking beside the pytextrank package on the same annotated texts, one core: the engine, and the components
for spaCy."""

import tempfile
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from benchmarks.harness import Context, Disagreement, Section, compare, peak_memory
from keycontrast import spacy_component
from keycontrast.ranking import Settings, rank, ranker
from keycontrast.ranking.blocks import pieces
from keycontrast.ranking.package import docs, package_component, pytextrank, rank_with_package
from keycontrast.ranking.selection import DIGITS, InverseFrequency
from keycontrast.text.annotate import annotator

_SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample" / "paraphrase.jsonl"
_WORDS = (24, 240)
_DOCUMENTS = (24, 240, 2400)  # words
_TOTAL = 24_000  # words of all texts
_ALL = 1_000_000  # phrases per text, more than any has
_SCORE = 1e-6
_BATCH = 256


def run(context: Context) -> list[Section]:
    """Time rankings and components for spaCy on texts of several lengths, and measure memory at two sizes."""
    pa.set_cpu_count(1)  # Arrow's own threads would be a second core
    sections = [_engines(words, context) for words in _WORDS]
    return [*sections, *(_components(words, context) for words in _DOCUMENTS), _memory(context)]


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
    """Return the number of texts on which engine and package differ: phrases, their order, scores beyond 1e-6.

    Phrases whose scores lie within 1e-9 of each other compare as sets.
    """
    ours = _by_text(rank(tokens, "pytextrank", _ALL, compat="pytextrank"))
    theirs = _by_text(rank_with_package(tokens, _ALL, package_component("pytextrank")))
    return sum(not _agree(ours.get(text, []), theirs.get(text, [])) for text in ours.keys() | theirs.keys())


def rank_pieces(path: str, texts: int) -> int:
    """Rank ``texts`` texts, those of the token table at ``path`` over and over, as the stage does; count phrases."""
    tokens, ranked = pq.read_table(path), ranker(Settings(), 5)
    numbers = (np.arange(start, min(start + _BATCH, texts)) for start in range(0, texts, _BATCH))
    batches = (tokens.take(pa.array(batch % tokens.num_rows)).set_column(0, "text_id", pa.array(batch, pa.int64()))
               for batch in numbers)
    return sum(ranked(piece).table.num_rows for piece in pieces(batches))


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
        f"0 of {tokens.num_rows:,} texts differ between compat: pytextrank and the package in phrases, order or scores "
        f"(1e-6)", [rows],
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


def _memory(context: Context) -> Section:
    texts, sizes = (60, (200, 400)) if context.quick else (2000, (20_000, 80_000))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "tokens.parquet")
        pq.write_table(annotated(1, texts), path)
        table = [{"texts": size, "MiB above the process": peak_memory(rank_pieces, path, size)[1]} for size in sizes]
    return Section("Memory", "short texts, ranked piece by piece as the stage does", "the same engine as above",
                   [table], ["Memory does not grow with the number of texts: pieces are cut by texts and tokens."])


def _by_text(table: pa.Table) -> dict[int, list[dict[str, Any]]]:
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["text_id"], []).append(row)
    return rows


def _agree(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> bool:
    scores = [np.array([row["score"] or 0.0 for row in rows]) for rows in (ours, theirs)]
    if len(ours) != len(theirs) or (np.abs(scores[0] - scores[1]) > _SCORE).any():
        return False
    ties = np.cumsum(np.append(0, np.abs(np.diff(scores[1])) > 10.0**-DIGITS))
    names = ("phrase", "keyword", "token_start", "token_end", "status")
    mine, other = ({(tie, *(row[name] for name in names)) for tie, row in zip(ties, rows, strict=True)}
                   for rows in (ours, theirs))
    return mine == other
