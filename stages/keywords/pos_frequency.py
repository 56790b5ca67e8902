"""Parts of speech of the keywords of PGKPR and PSI (PGKPR Figures 3 and 4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from stages.common.figures import PALETTE, Plot, drawing, finished
from stages.common.schemas import STRINGS
from stages.common.seeds import flipped

# The five that the paper shows. By family, NN stands for NN, NNS, NNP and NNPS, and so on.
FAMILIES = ("NN", "JJ", "PRP", "RB", "VB")
OTHER = "other"
# Where tags are not Penn's, the universal part of speech names the family.
_UNIVERSAL = {"NOUN": "NN", "PROPN": "NN", "ADJ": "JJ", "PRON": "PRP", "ADV": "RB", "VERB": "VB", "AUX": "VB"}
# Weights of each token by attribution and by PSI, null where the text was not scored.
_WEIGHTS = {"attribution": "score", "psi": "primary"}
COUNTED = pa.schema([("text_id", pa.int64()), ("tag", STRINGS), ("pos", STRINGS), ("score", pa.list_(pa.float32())),
                     ("primary", pa.list_(pa.bool_()))])
# Of the picture.
_LABELS = {"attribution": "gradient attribution (PGKPR's coins)",
           "attribution_expected": "gradient attribution (sum of probabilities)", "psi": "PSI (primary words)"}
_COLOURS = ("first", "muted", "second", "good", "bad")
_NAMES = {"NN": "NN*\nnouns", "JJ": "JJ*\nadjectives", "PRP": "PRP*\npronouns", "RB": "RB*\nadverbs",
          "VB": "VB*\nverbs", OTHER: "other"}


@dataclass(frozen=True)
class Counted:
    """The examples whose sources are counted: of ``split`` test as in the paper, or train if there is no test.

    Attributes:
        examples: ids, ascending (n,).
        sources: text id of the source of each (n,).
    """

    split: str
    examples: np.ndarray
    sources: np.ndarray

    @classmethod
    def of(cls, examples: pa.Table) -> "Counted":
        """Return those of table ``examples``."""
        split = "test" if pc.any(pc.equal(examples["split"], "test")).as_py() else "train"
        chosen = examples.filter(pc.equal(examples["split"], split)).sort_by("example_id")
        return cls(split, chosen["example_id"].to_numpy(), chosen["source_id"].to_numpy())


def counted_rows(tokens: pa.Table, tables: Mapping[str, pa.Table], texts: np.ndarray) -> pa.Table:
    """Return a table of schema COUNTED of the ``texts`` that are in a piece."""
    rows = tokens.filter(pa.array(np.isin(tokens["text_id"].to_numpy(), texts)))
    columns = {name: rows[name] for name in ("text_id", "tag", "pos")}
    for name, column in _WEIGHTS.items():
        alone = tables[name].filter(pc.equal(tables[name]["mode"], "xx"))
        columns[column] = alone[column].take(pc.index_in(rows["text_id"], alone["text_id"]))
    return pa.table(columns, schema=COUNTED)


def family(tag: str, universal: str, penn: bool) -> str:
    """Return the family of a token: that of its Penn tag, or of its universal part of speech."""
    if not penn:
        return _UNIVERSAL.get(universal, OTHER)
    return next((name for name in FAMILIES if tag.startswith(name)), OTHER)


def frequency_table(rows: pa.Table, counted: Counted, language: str, seed: int) -> pd.DataFrame:
    """Return keyword tokens by part of speech: flipped and expected by attribution, primary by PSI.

    A source counts once per example, since each example has its own coins (PGKPR section 4.1), those by which PGKPR
    reads the example when it is evaluated, here over the whole source. There is a row per method and part of speech:
    ``keywords`` (tokens by family), ``share`` (of the method's keyword tokens), ``exact_tag`` (tokens with exactly that
    tag) and ``keyword_share`` (of the method, over all tokens).
    """
    if missing := sorted(set(counted.sources.tolist()) - set(rows["text_id"].to_pylist())):
        raise InputError(f"table tokens: text {missing[0]} has no row. Run `keycontrast run`.")
    sources, table = rows.to_pandas().set_index("text_id").loc[counted.sources], list[dict[str, Any]]()
    words = [np.asarray(pos) != "SPACE" for pos in sources["pos"]]    # PGKPR reads no white space
    for name in sources.columns:
        sources[name] = [row if row is None else np.asarray(row)[kept]
                         for row, kept in zip(sources[name], words, strict=True)]
    coins = [scores if scores is None else flipped(scores.astype(np.float64), seed, "xx", example)
             for example, scores in zip(counted.examples.tolist(), sources["score"], strict=True)]
    for method, weights in (("attribution", coins), ("attribution_expected", sources["score"]),
                            ("psi", sources["primary"])):
        scored = sources[["tag", "pos"]].assign(weight=list(weights)).dropna(subset="weight")
        tokens = scored.explode(["tag", "pos", "weight"]).dropna(subset="weight")  # a text may have no token
        weight = tokens["weight"].to_numpy(dtype=np.float64)
        families = [family(tag, pos, language == "en") for tag, pos in zip(tokens["tag"], tokens["pos"], strict=True)]
        by_family, by_tag = (pd.Series(weight).groupby(list(names)).sum() for names in (families, tokens["tag"]))
        for name in (*FAMILIES, OTHER):
            keywords = float(by_family.get(name, 0.0))
            exact = by_tag.drop(list(FAMILIES), errors="ignore").sum() if name == OTHER else by_tag.get(name, 0.0)
            table.append({"method": method, "pos": name, "keywords": round(keywords, 4),
                          "share": _share(keywords, weight.sum()), "exact_tag": round(float(exact), 4),
                          "keyword_share": _share(weight.sum(), len(tokens))})
    return pd.DataFrame(table)


def _share(part: float, total: float) -> float:
    return round(float(part) / float(total), 6) if total else 0.0


def pos_plot(frequencies: pd.DataFrame, texts: int, split: str) -> Plot:
    """Return the bar chart of table ``frequencies`` over ``texts`` source texts of ``split``."""
    methods = list(dict.fromkeys(frequencies["method"]))
    names = (*FAMILIES, OTHER)
    shares = {method: frequencies[frequencies["method"] == method].set_index("pos") for method in methods}
    width = 0.8 / max(1, len(methods))
    with drawing(6.4, 3.0) as figure:
        axes = figure.add_subplot()
        for number, method in enumerate(methods):
            rows = shares[method]
            label = f"{_LABELS.get(method, method)}: {rows['keyword_share'].iloc[0]:.0%} of tokens"
            axes.bar(np.arange(len(names)) + (number - (len(methods) - 1) / 2) * width,
                     [rows.loc[name, "share"] for name in names], width, label=label,
                     color=PALETTE[_COLOURS[number % len(_COLOURS)]])
        axes.set_xticks(np.arange(len(names)), [_NAMES[name] for name in names])
        axes.set_ylabel("share of keyword tokens")
        axes.legend()
        described = "; ".join(f"{_LABELS.get(method, method)}: " + ", ".join(
            f"{name} {shares[method].loc[name, 'share']:.0%}" for name in names) for method in methods)
        return finished(figure, "pos_frequency", f"Keywords by part of speech, {texts} {split} sources", described)
