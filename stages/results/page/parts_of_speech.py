"""PGKPR's Figures 3 and 4: which parts of speech the keywords of its two ways to find them have."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from stages.common.figures import PALETTE, Plot, drawing, file_name, finished
from stages.keywords.pos_frequency import FAMILIES
from stages.results.page.labels import number, percentage
from stages.results.page.material import DatasetMaterial

_NAMES = {"NN": "nouns", "JJ": "adjectives", "PRP": "pronouns", "RB": "adverbs", "VB": "verbs", "other": "all others"}
# Method in the table of frequencies: name, and colour in the picture.
_METHODS = {"attribution": ("PGKPR", "first"), "psi": ("PSI", "second")}
_HEADINGS = {"attribution": "PGKPR, one flip", "attribution_expected": "PGKPR, expected", "psi": "PSI"}


@dataclass(frozen=True)
class PartsOfSpeech:
    """Keyword tokens of one data set by part of speech.

    Attributes:
        methods: what the columns of ``rows`` count, in words.
        rows: name of a part of speech, and per method: tokens, their share of the method's keyword tokens, and how
            many have the very tag that names the family.
        shares: per method, the share of all tokens that are keywords.
    """

    dataset: str
    split: str
    sources: int
    plot: Plot
    methods: list[str]
    rows: list[tuple[str, list[tuple[str, str, str]]]]
    shares: list[str]


def parts_of_speech(dataset: DatasetMaterial) -> PartsOfSpeech | None:
    """Return the parts of speech of the keywords of one data set; None where they were not counted."""
    counted, frequencies = dataset.metrics.get("side_by_side", {}).get("pos_frequency"), dataset.frequencies
    if counted is None or frequencies is None:
        return None
    by_method = {method: rows.set_index("pos") for method, rows in frequencies.groupby("method", sort=False)}
    names = list(dict.fromkeys(frequencies["pos"]))
    rows = [(f"{name}* ({_NAMES[name]})" if name in FAMILIES else _NAMES.get(name, name),
             [_cells(found.loc[name]) for found in by_method.values()]) for name in names]
    return PartsOfSpeech(
        dataset.name, counted["split"], counted["sources"],
        _plot(dataset.name, {method: by_method[method] for method in _METHODS if method in by_method}),
        [_HEADINGS.get(str(method), str(method)) for method in by_method], rows,
        [percentage(float(found["keyword_share"].iloc[0])) for found in by_method.values()])


def _cells(row: pd.Series) -> tuple[str, str, str]:
    tokens, exact = (number(round(float(row[name]), 1), 1).removesuffix(".0") for name in ("keywords", "exact_tag"))
    return tokens, percentage(float(row["share"])), exact


def _plot(dataset: str, by_method: dict[str, pd.DataFrame]) -> Plot:
    width = 0.8 / max(1, len(by_method))
    with drawing(5.6, 2.6) as figure:
        axes = figure.add_subplot()
        for place, (method, rows) in enumerate(by_method.items()):
            name, colour = _METHODS[method]
            axes.bar(np.arange(len(FAMILIES)) + (place - (len(by_method) - 1) / 2) * width,
                     [rows.loc[family, "keywords"] for family in FAMILIES], width, label=name, color=PALETTE[colour])
        axes.set_xticks(np.arange(len(FAMILIES)), [f"{family}*\n{_NAMES[family]}" for family in FAMILIES])
        axes.set_ylabel("keyword tokens")
        axes.grid(axis="x", visible=False)
        axes.legend()
        described = "; ".join(f"{_METHODS[method][0]}: " + ", ".join(
            f"{_NAMES[family]} {float(rows.loc[family, 'keywords']):,.0f}" for family in FAMILIES)
            for method, rows in by_method.items())
        return finished(figure, file_name("parts-of-speech", dataset), "Keyword tokens by part of speech", described)
