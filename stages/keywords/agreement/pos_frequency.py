"""Which parts of speech the keywords of PGKPR and PSI have (PGKPR Figures 3 and 4; METHODS C.6)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.common.bernoulli import flipped
from stages.common.mapped import MappedTable
from stages.common.schemas import STRINGS

# The five that the paper shows. By family, NN stands for NN, NNS, NNP and NNPS, and so on.
FAMILIES = ("NN", "JJ", "PRP", "RB", "VB")
OTHER = "other"
# Where tags are not Penn's, the universal part of speech names the family.
_UNIVERSAL = {"NOUN": "NN", "PROPN": "NN", "ADJ": "JJ", "PRON": "PRP", "ADV": "RB", "VERB": "VB", "AUX": "VB"}


# What is counted of a text: the weight of each token by attribution and by PSI, null where the text was not scored.
_WEIGHTS = {"attribution": "score", "psi": "primary"}
COUNTED = pa.schema([("text_id", pa.int64()), ("tag", STRINGS), ("pos", STRINGS), ("score", pa.list_(pa.float32())),
                     ("primary", pa.list_(pa.bool_()))])
# Examples whose sources are looked up at a time.
_PIECE = 2048


@dataclass(frozen=True)
class Counted:
    """The examples whose sources are counted.

    Attributes:
        split: that they are of: test as in the paper, or train if there is no test.
        examples: their ids, ascending (n,).
        sources: text id of the source of each (n,).
    """

    split: str
    examples: np.ndarray
    sources: np.ndarray

    @classmethod
    def of(cls, batches: Iterable[pa.Table]) -> "Counted":
        """Return those of table ``examples``, which comes in pieces, by example."""
        columns = ("example_id", "source_id")
        held: dict[str, list[list[np.ndarray]]] = {"test": [], "train": []}
        for batch in batches:
            for split, pieces in held.items():
                chosen = batch.filter(pc.equal(batch["split"], split))
                if chosen.num_rows:
                    pieces.append([chosen[name].to_numpy() for name in columns])
            if held["test"]:
                held["train"] = []
        split = "test" if held["test"] else "train"
        nothing = [np.zeros(0, dtype=np.int64)] * len(columns)
        return cls(split, *(np.concatenate(arrays) for arrays in zip(nothing, *held[split], strict=True)))


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


def rows_to_count(tokens: pa.Table, tables: Mapping[str, pa.Table], wanted: np.ndarray) -> pa.Table:
    """Return what is counted of texts, as a table of schema COUNTED.

    Args:
        tokens: rows of table ``tokens``, by text id.
        tables: the rows of ``attribution`` and ``psi`` for these texts.
        wanted: texts that are counted, sorted.
    """
    ids = tokens["text_id"].to_numpy()
    near = wanted[slice(*np.searchsorted(wanted, [ids[0], ids[-1] + 1]))] if len(ids) else wanted[:0]
    rows = tokens.filter(pa.array(np.isin(ids, near)))
    columns = {name: rows[name] for name in ("text_id", "tag", "pos")}
    for name, column in _WEIGHTS.items():
        alone = tables[name].filter(pc.equal(tables[name]["mode"], "xx"))
        columns[column] = alone[column].take(pc.index_in(rows["text_id"], alone["text_id"]))
    return pa.table(columns, schema=COUNTED)


def pos_counts(rows: MappedTable, counted: Counted, language: str, seed: int) -> dict[str, PosCounts]:
    """Count keyword tokens by part of speech: flipped and expected by attribution, primary by PSI.

    A source counts once per example, as each example has coins of its own; those are PGKPR's (METHODS C.6), but over
    whole sources, since how many words models read is none of this stage's settings.

    Args:
        rows: of all sources, as :func:`rows_to_count` makes them.
        counted: the examples.
        language: of the texts, which says the kind of tags.
        seed: the project's.

    Raises:
        InputError: a source has no row.
    """
    counts = {name: PosCounts() for name in ("attribution", "attribution_expected", "psi")}
    penn = language == "en"
    # Example after example, however many are looked up at a time: the last digit of a sum hangs on it.
    for start in range(0, len(counted.examples), _PIECE):
        examples, sources = counted.examples[start:start + _PIECE], counted.sources[start:start + _PIECE]
        found = rows.of(sources)
        columns = (found[name].to_pylist() for name in ("tag", "pos", *_WEIGHTS.values()))
        for example, tags, pos, scores, primary in zip(examples.tolist(), *columns, strict=True):
            if scores is not None:
                counts["attribution_expected"].add(tags, pos, scores, penn)
                counts["attribution"].add(tags, pos, flips(scores, seed, example).tolist(), penn)
            if primary is not None:
                counts["psi"].add(tags, pos, primary, penn)
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
