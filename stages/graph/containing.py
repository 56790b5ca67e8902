"""Which texts contain which keywords: the other reading of "samples that contain the same keyword" (METHODS A.3)."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from stages.common.normal_form import normal_form

# Apostrophes are left out of keywords by some rankings, and so on both sides here.
_APOSTROPHE = "'"


class Containment:
    """Finds keywords in texts, token by token: "art" is in "modern art", and not in "smart".

    Args:
        keywords: in normal form.
        lemmas: whether the last word of a keyword is its lemma (``keywords.kw_lemma``).
    """

    def __init__(self, keywords: Iterable[str], lemmas: bool) -> None:
        self.lemmas = lemmas
        self._known: dict[str, list[str]] = {}
        for keyword in keywords:
            self._known.setdefault(_bare(keyword), []).append(keyword)
        # Beginnings of keywords: runs of tokens are followed no further than one may still become a keyword.
        self._begun = {keyword[:length] for keyword in self._known for length in range(len(keyword) + 1)}

    def of(self, text: str, starts: Sequence[int], ends: Sequence[int], lemmas: Sequence[str]) -> set[str]:
        """Return the keywords that a text contains.

        Args:
            text: as written.
            starts, ends: offsets of its tokens.
            lemmas: of its tokens.
        """
        found: set[str] = set()
        for first, start in enumerate(starts):
            for last in range(first, len(ends)):
                if self.lemmas:
                    found.update(self._known.get(_bare(text[start : starts[last]] + lemmas[last]), ()))
                form = _bare(text[start : ends[last]])
                found.update(self._known.get(form, ()))
                if form not in self._begun:
                    break
        return found


def contained(texts: Iterable[pa.Table], containment: Containment) -> Iterator[pa.Table]:
    """Yield columns ``text_id`` and ``keyword``: the keywords that texts contain.

    Args:
        texts: pieces with columns ``text_id``, ``text``, ``start``, ``end`` and ``lemma``.
        containment: of the keywords.
    """
    for piece in texts:
        ids: list[int] = []
        keywords: list[str] = []
        for row in piece.to_pylist():
            found = containment.of(row["text"], row["start"], row["end"], row["lemma"])
            ids += [row["text_id"]] * len(found)
            keywords += found
        yield pa.table({"text_id": pa.array(ids, pa.int64()), "keyword": pa.array(keywords, pa.string())})


def _bare(phrase: str) -> str:
    return normal_form(phrase.replace(_APOSTROPHE, ""))
