"""Which parts of speech the keywords of PGKPR and PSI have (PGKPR Figures 3 and 4; METHODS C.6)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.keywords.bernoulli import flipped

# The five that the paper shows. By family, NN stands for NN, NNS, NNP and NNPS, and so on.
FAMILIES = ("NN", "JJ", "PRP", "RB", "VB")
OTHER = "other"
# Where tags are not Penn's, the universal part of speech names the family.
_UNIVERSAL = {"NOUN": "NN", "PROPN": "NN", "ADJ": "JJ", "PRON": "PRP", "ADV": "RB", "VERB": "VB", "AUX": "VB"}


@dataclass
class PosCounts:
    """Keyword tokens by part of speech, and how many tokens there were.

    Attributes:
        families: keyword tokens (expected number, for a method that gives probabilities) by family.
        exact: the same by exact tag, for the five tags that the paper shows.
        keywords: keyword tokens in all.
        tokens: tokens of all texts counted.
    """

    families: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    exact: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    keywords: float = 0.0
    tokens: int = 0

    def add(self, tags: Sequence[str], pos: Sequence[str], weights: Sequence[float], penn: bool) -> None:
        """Count one text, each token with the weight of its being a keyword (0 or 1, or a probability)."""
        self.tokens += len(tags)
        for tag, universal, weight in zip(tags, pos, weights, strict=True):
            if weight:
                self.families[family(tag, universal, penn)] += weight
                self.exact[tag if tag in FAMILIES else OTHER] += weight
                self.keywords += weight


def pos_counts(tables: Mapping[str, pa.Table], sources: Mapping[int, int], language: str,
               seed: int) -> dict[str, PosCounts]:
    """Count keyword tokens by part of speech: flipped and expected by attribution, primary by PSI.

    A source counts once per example, as each example has coins of its own; those are PGKPR's (METHODS C.6), but over
    whole sources, since how many words models read is none of this stage's settings.

    Args:
        tables: ``tokens``, ``attribution`` and ``psi``.
        sources: text by example.
        language: of the texts, which says the kind of tags.
        seed: the project's.
    """
    wanted = pa.array(sorted(set(sources.values())), pa.int64())
    tokens = tables["tokens"].filter(pc.is_in(tables["tokens"]["text_id"], wanted)).to_pylist()
    tags = {row["text_id"]: (row["tag"], row["pos"]) for row in tokens}
    counts = {name: PosCounts() for name in ("attribution", "attribution_expected", "psi")}
    penn = language == "en"
    for name, column in (("attribution", "score"), ("psi", "primary")):
        table = tables[name].filter(pc.equal(tables[name]["mode"], "xx"))
        table = table.filter(pc.is_in(table["text_id"], wanted))
        found = dict(zip(table["text_id"].to_pylist(), table[column].to_pylist(), strict=True))
        for example, text in sources.items():
            values = found.get(text)
            if values is None:
                continue
            if name == "attribution":
                counts["attribution_expected"].add(*tags[text], values, penn)
                values = flips(values, seed, example).tolist()
            counts[name].add(*tags[text], values, penn)
    return counts


def family(tag: str, universal: str, penn: bool) -> str:
    """Return the family of a token: that of its Penn tag, or of its universal part of speech."""
    if not penn:
        return _UNIVERSAL.get(universal, OTHER)
    return next((name for name in FAMILIES if tag.startswith(name)), OTHER)


def flips(scores: Sequence[float], seed: int, example_id: int) -> np.ndarray:
    """Return which words of an example's source are keywords, (n_words,) of 0 and 1 (METHODS C.2).

    The coins are those by which PGKPR reads the example when it is evaluated, which cuts long sources afterwards;
    they depend on the seed and the example alone.
    """
    return flipped(np.asarray(scores, dtype=np.float64), seed, "xx", example_id)


def frequency_table(counts: Mapping[str, PosCounts]) -> pd.DataFrame:
    """Return one row per method and part of speech.

    Columns ``method``, ``pos``, ``keywords`` (tokens, by family), ``share`` (of the method's keyword tokens),
    ``exact_tag`` (tokens with that very tag) and ``keyword_share`` (keyword tokens over all tokens, the same in
    every row of a method).
    """
    rows = [{"method": method, "pos": name, "keywords": round(float(count.families[name]), 4),
             "share": _share(count.families[name], count.keywords), "exact_tag": round(float(count.exact[name]), 4),
             "keyword_share": _share(count.keywords, count.tokens)}
            for method, count in counts.items() for name in (*FAMILIES, OTHER)]
    return pd.DataFrame(rows)


def _share(part: float, whole: float) -> float:
    return round(float(part) / whole, 6) if whole else 0.0
