"""The component for spaCy beside pytextrank's own: the same documents, one after another, one core."""

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Context, Disagreement, Section, compare
from benchmarks.textrank import _SAMPLE, of_length
from keycontrast import components
from stages.ranking.package import pytextrank
from stages.text.annotation import annotator
from stages.text.tokens import rebuild_docs

_LENGTHS = (24, 240, 2400)
_TOKENS = 24_000
_SCORE = 1e-6


def run(context: Context) -> list[Section]:
    """Time both on documents of 24, 240 and 2,400 tokens, of the shipped sample's texts."""
    import pyarrow as pa
    import pyarrow.json

    texts = pyarrow.json.read_json(_SAMPLE)["source"]
    tokens = annotator("embedded")(pa.table({"text_id": range(len(texts)), "text": texts}))
    return [_section(tokens, length, context) for length in _LENGTHS]


def _section(tokens: Any, length: int, context: Context) -> Section:
    number = max((_TOKENS if not context.quick else 10 * length) // length, 1)
    docs = [doc for _, doc in rebuild_docs(of_length(tokens, length, number))]
    ours, theirs = components._Component(), pytextrank.BaseTextRankFactory()

    def ranked(component: Callable[[Any], Any]) -> Callable[[], list[Any]]:
        return lambda: [component(doc)._.phrases for doc in docs]

    for mine, other in zip(ranked(ours)(), ranked(theirs)(), strict=True):
        scores = {phrase.text: phrase.rank for phrase in other}
        if scores.keys() != {phrase.text for phrase in mine} or any(
                abs(scores[phrase.text] - phrase.rank) > _SCORE for phrase in mine):
            raise Disagreement(f"{length} tokens: the components give different phrases")
    rows = compare({"keycontrast_textrank": ranked(ours), "pytextrank's textrank": ranked(theirs)}, context.repeats,
                   items=number)
    return Section(f"{length} tokens", f"{number:,} documents of {length} tokens, `doc._.phrases`, one core",
                   f"both give the same phrases for every document, ranks within {_SCORE:g}", rows)
