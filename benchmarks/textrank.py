"""Keyword ranking beside the pytextrank package on the same annotated texts, one core: the engine, and the components
for spaCy."""

import tempfile
from collections.abc import Callable, Iterator
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
from keycontrast.ranking.selection import DIGITS, InverseFrequency
from keycontrast.text.annotate import annotator
from pipeline.schemas import SCHEMAS

_SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample" / "paraphrase.jsonl"
_LENGTHS = (24, 240)
_DOCUMENTS = (24, 240, 2400)  # tokens
_TOKENS = 24_000
_ALL = 1_000_000  # phrases per text, more than any has
_SCORE = 1e-6
_BATCH = 256
_LISTS = [name for name in SCHEMAS["tokens"].arrow().names if name not in ("text_id", "chunk_start", "chunk_end")]


def run(context: Context) -> list[Section]:
    """Time rankings at 24 and 240 tokens per text, and measure memory at two sizes.

    Texts are those of the shipped sample, joined and cut to the length wanted, and annotated before anything is timed.
    """
    # Arrow's own threads would be a second core.
    pa.set_cpu_count(1)
    annotated = _annotated(context)
    sections = [_speed(annotated, length, context) for length in _LENGTHS]
    return [*sections, *(_component(annotated, length, context) for length in _DOCUMENTS), _memory(annotated, context)]


def of_length(tokens: pa.Table, length: int, texts: int) -> pa.Table:
    """Return ``texts`` texts of ``length`` tokens, joined from those of ``tokens``, which are taken in turn."""
    rows, place = [], 0
    source = tokens.to_pylist()
    for number in range(texts):
        row: dict[str, Any] = {"text_id": number, "chunk_start": [], "chunk_end": [], **{name: [] for name in _LISTS}}
        while len(row["token"]) < length:
            _join(row, source[place % len(source)])
            place += 1
        rows.append(_cut(row, length))
    return pa.Table.from_pylist(rows, schema=SCHEMAS["tokens"].arrow())


def differing(tokens: pa.Table, method: str = "pytextrank") -> int:
    """Return in how many texts our engine and the package differ: phrases, their order, scores beyond 1e-6.

    Phrases whose scores lie within 1e-9 of each other compare as sets.
    """
    from keycontrast.ranking.package import package_component, rank_with_package

    ours = rank(tokens, method, _ALL, compat="pytextrank")
    theirs = rank_with_package(tokens, _ALL, package_component(method))
    mine, other = (_by_text(table) for table in (ours, theirs))
    return sum(not _agree(mine[text], other[text]) for text in mine.keys() | other.keys())


def rank_pieces(path: str, texts: int) -> int:
    """Rank ``texts`` texts, those of the token table at ``path`` over and over, as the stage does; count phrases."""
    ranked = ranker(Settings(), 5)
    return sum(ranked(piece).table.num_rows for piece in pieces(_repeated(pq.read_table(path), texts)))


def _annotated(context: Context) -> pa.Table:
    texts = pa.json.read_json(_SAMPLE)["source"].unique()[:60 if context.quick else 4000]
    return annotator("embedded")(pa.table({"text_id": pa.array(range(len(texts)), pa.int64()), "text": texts}))


def _speed(annotated: pa.Table, length: int, context: Context) -> Section:
    from keycontrast.ranking.package import docs, package_component

    tokens = of_length(annotated, length, 20 if context.quick else _TOKENS // length)
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
        f"{length} tokens per text", f"{tokens.num_rows:,} annotated texts of {length} tokens, one core",
        f"0 of {tokens.num_rows:,} texts differ between compat: pytextrank and the package in phrases, order or scores "
        f"(1e-6)", rows,
        ["The package works on spaCy documents that were built beforehand; ours on the token table, from Arrow to "
         "Arrow, ready to be written."])


def _component(annotated: pa.Table, length: int, context: Context) -> Section:
    """Compare the components for spaCy, which take one document after another."""
    from keycontrast.ranking.package import docs, pytextrank

    number = 10 if context.quick else _TOKENS // length
    documents = [doc for _, doc in docs(of_length(annotated, length, number))]

    def ranked(component: Callable[[Any], Any]) -> Callable[[], list[Any]]:
        return lambda: [component(doc)._.phrases for doc in documents]

    ours, theirs = ranked(spacy_component._Component()), ranked(pytextrank.BaseTextRankFactory())
    for mine, other in zip(ours(), theirs(), strict=True):
        scores = {phrase.text: phrase.rank for phrase in other}
        if scores.keys() != {phrase.text for phrase in mine} or any(
                abs(scores[phrase.text] - phrase.rank) > _SCORE for phrase in mine):
            raise Disagreement(f"{length} tokens: the components give different phrases")
    rows = compare({"keycontrast_textrank": ours, "pytextrank's textrank": theirs}, context.repeats, items=number)
    return Section(f"Components for spaCy, {length} tokens", f"{number:,} documents of {length} tokens, "
                   f"`doc._.phrases`, one core", f"both give the same phrases for every document, ranks within "
                   f"{_SCORE:g}", rows)


def _memory(annotated: pa.Table, context: Context) -> Section:
    sizes = (200, 400) if context.quick else (20_000, 80_000)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "tokens.parquet")
        pq.write_table(annotated, path)
        table = [{"texts": size, "MiB above the process": round(peak_memory(rank_pieces, path, size), 1)}
                 for size in sizes]
    return Section("Memory", "short texts, ranked piece by piece as the stage does", "the same engine as above", [],
                   ["Memory does not grow with the number of texts: pieces are cut by texts and tokens."], table)


def _join(row: dict[str, Any], other: dict[str, Any]) -> None:
    """Put the tokens of ``other`` behind those of ``row``, with a space between."""
    before = len(row["token"])
    shift = row["end"][-1] + 1 if before else 0
    for name in _LISTS:
        row[name] += [place + shift for place in other[name]] if name in ("start", "end") else other[name]
    for name in ("chunk_start", "chunk_end"):
        row[name] += [place + before for place in other[name]]


def _cut(row: dict[str, Any], length: int) -> dict[str, Any]:
    chunks = [pair for pair in zip(row["chunk_start"], row["chunk_end"], strict=True) if pair[1] <= length]
    return {"text_id": row["text_id"], **{name: row[name][:length] for name in _LISTS},
            "chunk_start": [start for start, _ in chunks], "chunk_end": [end for _, end in chunks]}


def _by_text(table: pa.Table) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["text_id"], []).append(row)
    return found


def _agree(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> bool:
    scores = [np.array([row["score"] or 0.0 for row in rows]) for rows in (ours, theirs)]
    if len(ours) != len(theirs) or (np.abs(scores[0] - scores[1]) > _SCORE).any():
        return False
    ties = np.cumsum(np.append(0, np.abs(np.diff(scores[1])) > 10.0**-DIGITS))
    names = ("phrase", "keyword", "token_start", "token_end", "status")
    mine, other = ({(tie, *(row[name] for name in names)) for tie, row in zip(ties, rows, strict=True)}
                   for rows in (ours, theirs))
    return mine == other


def _repeated(tokens: pa.Table, texts: int) -> Iterator[pa.Table]:
    for start in range(0, texts, _BATCH):
        places = np.arange(start, min(start + _BATCH, texts))
        yield tokens.take(pa.array(places % tokens.num_rows)).set_column(0, "text_id", pa.array(places, pa.int64()))
