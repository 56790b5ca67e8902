"""Finds keywords in texts, token by token."""

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from keycontrast.ranking.blocks import TokenBlock, written_texts
from keycontrast.text.normal_form import POINT, normal_form
from keycontrast.text.tokens import NOUNS

# Columns of table ``tokens`` by which keywords are found in a text.
SEARCHED = ["text_id", "token", "start", "end", "lemma", "is_stop", "pos"]
# Characters of a phrase that is searched for: time per token grows with the square of the longest phrase.
LONGEST = 200
_APOSTROPHES = re.compile("['\u2019]")


class Containment:
    """Finds keywords in normal form in texts, token by token: not "art" in "smart"; ``lemmas``: by last lemmas."""

    def __init__(self, keywords: Iterable[str], lemmas: bool) -> None:
        self.lemmas = lemmas
        self._known: dict[str, list[str]] = {}
        for keyword in (phrase for phrase in keywords if len(phrase) <= LONGEST):
            self._known.setdefault(_bare(keyword), []).append(keyword)
        # Prefixes of keywords: a run of tokens is extended only while it is one of them.
        self._begun = {keyword[:length] for keyword in self._known for length in range(len(keyword) + 1)}

    def places(self, text: str, starts: Sequence[int], ends: Sequence[int],
               lemmas: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Yield first token, token after the last, and keyword of each occurrence in a text, given its tokens."""
        for first, start in enumerate(starts):
            for last in range(first, len(ends)):
                if text.count("\n", starts[last], ends[last]) > 1:   # of two paragraphs
                    break
                form = _bare(text[start : ends[last]])
                known = self._known.get(form, [])
                if self.lemmas:
                    known = [*known, *self._known.get(_bare(text[start : starts[last]] + lemmas[last]), ())]
                # White space and apostrophes are tokens, but no occurrence begins or ends with one.
                if known and all(_bare(text[starts[edge] : ends[edge]]) for edge in (first, last)):
                    for keyword in known:
                        yield first, last + 1, keyword
                if not form or form not in self._begun:
                    break


def contained(tokens: Iterable[pa.Table], containment: Containment) -> Iterator[pa.Table]:
    """Yield ``text_id`` and ``keyword`` of the keywords in texts, given the columns :data:`SEARCHED` of their tokens.

    Texts are as the pipeline read them, without markup. A stop word counts only if it is a noun or adjective: "it"
    is not the keyword of a text on IT.
    """
    for piece in tokens:
        ids: list[int] = []
        keywords: list[str] = []
        columns = (piece[name].to_pylist() for name in ("text_id", "lemma", "is_stop", "pos"))
        for text_id, lemmas, stops, tags, (text, starts, ends) in zip(
                *columns, written_texts(TokenBlock(piece)), strict=True):
            counts = [not stop or pos in (*NOUNS, "ADJ") for stop, pos in zip(stops, tags, strict=True)]
            found = {keyword for first, last, keyword in containment.places(
                text, starts.tolist(), ends.tolist(), lemmas) if any(counts[first:last])}
            ids += [text_id] * len(found)
            keywords += sorted(found)
        yield pa.table({"text_id": pa.array(ids, pa.int64()), "keyword": pa.array(keywords, pa.string())})


def _bare(phrase: str) -> str:
    # Some rankings leave apostrophes out of keywords.
    return POINT.sub(r"\1\2", normal_form(_APOSTROPHES.sub("", phrase)))
