"""How keywords were found, counted while they are chosen, and how often the texts of an example share one."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.common.examples import TextMarks, is_single, room_for

_ROLES = ("source", "target", "negative")
_UNSEEN = ("validation", "test")


class Tally:
    """Counts over keywords that come piece by piece; holds four bytes per text and each distinct keyword once.

    Args:
        method: that ranks.
        training: by text id, whether training examples use a text.
    """

    def __init__(self, method: str, training: TextMarks) -> None:
        self._method, self._training = method, training
        self._numbers: dict[str, int] = {}
        self._keyword = np.zeros(0, dtype=np.int32)     # by text id, the number of its keyword
        self._methods: dict[str, int] = {}
        self._unscored = 0

    def add(self, table: pa.Table, unscored: int) -> None:
        """Take in a piece of table ``keywords``, of whose texts ``unscored`` have no ranking."""
        coded = table["keyword"].combine_chunks().dictionary_encode()
        words = coded.dictionary.to_pylist()
        numbers = np.array([self._numbers.setdefault(word, len(self._numbers)) for word in words], dtype=np.int64)
        ids = table["text_id"].to_numpy()
        if len(ids):
            self._keyword = room_for(self._keyword, int(ids.max()) + 1)
            self._keyword[ids] = numbers[coded.indices.to_numpy()]
        for found in pc.value_counts(table["method"]).to_pylist():
            self._methods[found["values"]] = self._methods.get(found["values"], 0) + found["counts"]
        self._unscored += unscored

    def counts(self, examples: Iterable[pa.Table]) -> dict[str, Any]:
        """Return how keywords were found and, for triples, the shares that bound what a contrast can do.

        Args:
            examples: pieces of their table.
        """
        known = np.zeros(len(self._numbers), dtype=bool)
        known[self._keyword[:len(self._training)][self._training]] = True
        shares = _Shares(known)
        for piece in examples:
            if not is_single(piece):
                shares.add(piece, {role: self._keyword_of(piece, role) for role in _ROLES})
        return {"texts_by_method": dict(sorted(self._methods.items())),
                "keywords": {"distinct": len(self._numbers), "distinct_in_training": int(known.sum())},
                **shares.found()}

    def fallbacks(self) -> list[str]:
        """Return a sentence per fall-back that was taken."""
        sentences = []
        if self._unscored:
            sentences.append(f"{self._unscored} texts have no row in table {self._method}: their keyword is by IDF")
        if self._methods.get("idf", 0):
            sentences.append(f"{self._methods['idf']} texts have no ranked keyword: the word of highest IDF was taken")
        if self._methods.get("none", 0):
            sentences.append(f"{self._methods['none']} texts have no keyword at all")
        return sentences

    def _keyword_of(self, examples: pa.Table, role: str) -> np.ndarray:
        """Return the number of the keyword of each example's text in a role; 0 where it has none."""
        ids = pc.fill_null(examples[f"{role}_id"], -1).to_numpy()
        return np.where(ids < 0, 0, self._keyword[ids])


class _Shares:
    """Of how many examples some of the keywords are one, or known from training: ``known`` (keywords,)."""

    def __init__(self, known: np.ndarray) -> None:
        self._known = known
        self._hits: dict[str, int] = {}
        self._all: dict[str, int] = {}

    def add(self, examples: pa.Table, keyword: Mapping[str, np.ndarray]) -> None:
        """Count examples, given the number of the keyword of each one's text by role."""
        split = {name: pc.equal(examples["split"], name).to_numpy() for name in ("train", "validation", "test")}
        with_negative = split["train"] & pc.is_valid(examples["negative_id"]).to_numpy()
        self._count("target", keyword["source"] == keyword["target"], split["train"])
        self._count("negative", keyword["target"] == keyword["negative"], with_negative)
        for name in _UNSEEN:
            self._count(name, self._known[keyword["source"]], split[name])

    def found(self) -> dict[str, Any]:
        """Return the shares; nothing if there were no such examples."""
        if not self._all:
            return {}
        return {"share_source_is_target": self._share("target"), "share_target_is_negative": self._share("negative"),
                "share_source_known": {name: self._share(name) for name in _UNSEEN}}

    def _count(self, name: str, hit: np.ndarray, among: np.ndarray) -> None:
        self._hits[name] = self._hits.get(name, 0) + int((hit & among).sum())
        self._all[name] = self._all.get(name, 0) + int(among.sum())

    def _share(self, name: str) -> float | None:
        """Return a share; None where there is nothing to count."""
        return round(self._hits[name] / self._all[name], 6) if self._all[name] else None
