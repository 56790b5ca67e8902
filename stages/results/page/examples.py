"""Which examples the page shows, and where their keywords stand in the texts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stages.common.schemas import NO_KEYWORD
from stages.common.seeds import derived_seed


@dataclass(frozen=True)
class Segment:
    """A piece of a text that is, or is not, a keyword."""

    text: str
    marked: bool


def chosen_examples(example_ids: Iterable[int], count: int) -> list[int]:
    """Return at most ``count`` of the ids, evenly spread over the sorted ids, so that any run shows the same."""
    ordered = sorted(set(example_ids))
    count = min(count, len(ordered))
    return [ordered[place * len(ordered) // count] for place in range(count)]


def seeded_examples(example_ids: Iterable[int], count: int, seed: int) -> list[int]:
    """Return at most ``count`` of the ids, drawn from the sorted ids by ``seed``, in their order."""
    ordered = sorted({int(number) for number in example_ids})
    generator = np.random.default_rng(derived_seed(seed, "report", "cases"))
    places = generator.choice(len(ordered), size=min(count, len(ordered)), replace=False)
    return [ordered[place] for place in sorted(places.tolist())]


def segments(text: str, keywords: Sequence[str | None]) -> list[Segment]:
    """Cut ``text`` at every occurrence of a keyword, whatever its case and white space.

    Keywords match whole words only; Chinese has no spaces between words, so there any place will do. The
    pieces joined again are ``text``.
    """
    known = sorted({word for word in keywords if word and word != NO_KEYWORD}, key=lambda word: (-len(word), word))
    if not known:
        return [Segment(text, False)] if text else []
    pieces = re.split(f"({'|'.join(map(_pattern, known))})", text, flags=re.IGNORECASE)
    return [Segment(piece, bool(place % 2)) for place, piece in enumerate(pieces) if piece]


def _pattern(keyword: str) -> str:
    inner = r"\s+".join(re.escape(part) for part in keyword.split())
    return (r"(?<!\w)" if _spaced(keyword[0]) else "") + inner + (r"(?!\w)" if _spaced(keyword[-1]) else "")


def _spaced(letter: str) -> bool:
    return bool(re.match(r"\w", letter)) and not "\u3040" <= letter <= "\u9fff"
