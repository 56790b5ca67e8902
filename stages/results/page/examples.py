"""The examples that the page shows side by side, with the places of their keywords in the texts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.common.schemas import NO_KEYWORD
from stages.results.model import Block, Run

_ROWS = 4       # whose outputs are shown


@dataclass(frozen=True)
class Example:
    """An evaluated item: its keywords, whether they are in the training graph, its texts, and outputs by run."""

    example_id: int
    keywords: list[str]
    known: bool
    source: str
    references: list[str]
    outputs: dict[str, str]


def shown_examples(block: Block, runs: Sequence[Run], count: int) -> list[Example]:
    """Return at most ``count`` items, evenly spread, with outputs of the full method and the next rows' first seeds."""
    chosen = [system.runs[0] for system in sorted(block.systems, key=lambda system: system is not block.full)][:_ROWS]
    known = {run.name: run.predictions for run in runs}
    rows = {name: {row.example_id: row for row in known[name].itertuples()} for name in chosen}
    shared = set.intersection(*(set(items) for items in rows.values()))
    ordered, count = sorted(shared), min(count, len(shared))
    return [_example(number, {name: items[number] for name, items in rows.items()}, block.track.many_keywords)
            for number in (ordered[place * len(ordered) // count] for place in range(count))]


def _example(number: int, rows: Mapping[str, Any], many: bool) -> Example:
    # The predictions of a run without keywords have none; another run of the same data set has them.
    first = next((row for row in rows.values() if isinstance(row.keyword, str)), next(iter(rows.values())))
    keyword = first.keyword if isinstance(first.keyword, str) and first.keyword != NO_KEYWORD else ""
    return Example(int(number), keyword.split() if many else [keyword] * bool(keyword), bool(first.keyword_known),
                   first.source, [str(text) for text in first.references],
                   {name: row.prediction for name, row in rows.items()})


def segments(text: str, keywords: Sequence[str | None]) -> list[tuple[str, bool]]:
    """Split ``text`` at keywords (whole words, but in Chinese and Japanese); return pieces, and which are keywords."""
    known = sorted({word for word in keywords if word and word != NO_KEYWORD}, key=lambda word: (-len(word), word))
    if not known:
        return [(text, False)] if text else []
    pieces = re.split(f"({'|'.join(map(_pattern, known))})", text, flags=re.IGNORECASE)
    return [(piece, bool(place % 2)) for place, piece in enumerate(pieces) if piece]


def _pattern(keyword: str) -> str:
    inner = r"\s+".join(re.escape(part) for part in keyword.split())
    return (r"(?<!\w)" if _spaced(keyword[0]) else "") + inner + (r"(?!\w)" if _spaced(keyword[-1]) else "")


def _spaced(letter: str) -> bool:
    return bool(re.match(r"\w", letter)) and not "\u3040" <= letter <= "\u9fff"
