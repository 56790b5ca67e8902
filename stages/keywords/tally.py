"""How keywords were found, counted while they are chosen, and how often the texts of an example share one."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.data.example_texts import TextIds, is_single, training_text_ids

_ROLES = ("source", "target", "negative")


class Tally:
    """Counts over keywords that come piece by piece; holds a number per text and each distinct keyword once."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._numbers: dict[str, int] = {}
        self._texts: list[np.ndarray] = []
        self._keywords: list[np.ndarray] = []
        self._methods: dict[str, int] = {}
        self._unscored = 0

    def add(self, table: pa.Table, unscored: int) -> None:
        """Take in a piece of table ``keywords``, of whose texts ``unscored`` have no ranking."""
        coded = table["keyword"].combine_chunks().dictionary_encode()
        words = coded.dictionary.to_pylist()
        numbers = np.array([self._numbers.setdefault(word, len(self._numbers)) for word in words], dtype=np.int64)
        self._texts.append(table["text_id"].to_numpy())
        self._keywords.append(numbers[coded.indices.to_numpy()])
        for found in pc.value_counts(table["method"]).to_pylist():
            self._methods[found["values"]] = self._methods.get(found["values"], 0) + found["counts"]
        self._unscored += unscored

    def counts(self, examples: pa.Table) -> dict[str, Any]:
        """Return how keywords were found and, for triples, the shares that bound what a contrast can do (A.3)."""
        known = np.unique(self._of(training_text_ids(examples)))
        counts = {"texts_by_method": dict(sorted(self._methods.items())),
                  "keywords": {"distinct": len(self._numbers), "distinct_in_training": len(known)}}
        return counts if is_single(examples) else {**counts, **self._shares(examples, known)}

    def fallbacks(self) -> list[str]:
        """Return a sentence per fall-back that was taken."""
        sentences = []
        if self._unscored:
            sentences.append(f"{self._unscored} texts have no row in {self._method}.parquet: their keyword is by IDF")
        if self._methods.get("idf", 0):
            sentences.append(f"{self._methods['idf']} texts have no ranked keyword: the word of highest IDF was taken")
        if self._methods.get("none", 0):
            sentences.append(f"{self._methods['none']} texts have no keyword at all")
        return sentences

    def _shares(self, examples: pa.Table, known: np.ndarray) -> dict[str, Any]:
        split = {name: pc.equal(examples["split"], name).to_numpy() for name in ("train", "validation", "test")}
        negative = pc.is_valid(examples["negative_id"]).to_numpy()
        ids = {role: pc.fill_null(examples[f"{role}_id"], -1).to_numpy() for role in _ROLES}
        # Rows without a negative look up some other text in its place, and are left out by `negative`.
        roles = {role: self._of(np.where(ids[role] < 0, ids["source"], ids[role])) for role in _ROLES}
        seen = np.isin(roles["source"], known)
        return {
            "share_source_is_target": _share((roles["source"] == roles["target"])[split["train"]]),
            "share_target_is_negative": _share((roles["target"] == roles["negative"])[split["train"] & negative]),
            "share_source_known": {name: _share(seen[split[name]]) for name in ("validation", "test")},
        }

    def _of(self, texts: TextIds) -> np.ndarray:
        """Return the number of each text's keyword."""
        if not self._texts:
            return np.zeros(0, dtype=np.int64)
        return np.concatenate(self._keywords)[np.searchsorted(np.concatenate(self._texts), texts)]


def _share(hits: np.ndarray) -> float | None:
    """Return the mean of ``hits``; None where there is nothing to count."""
    return round(float(hits.mean()), 6) if len(hits) else None
