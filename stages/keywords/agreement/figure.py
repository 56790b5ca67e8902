"""The picture of PGKPR's Figures 3 and 4: keyword tokens by part of speech and method."""

import numpy as np
import pandas as pd

from stages.common.figures import PALETTE, Plot, drawing, finished
from stages.keywords.agreement.pos_frequency import FAMILIES, OTHER

LABELS = {"attribution": "gradient attribution (PGKPR's coins)",
          "attribution_expected": "gradient attribution (sum of probabilities)", "psi": "PSI (primary words)"}
_COLOURS = ("first", "muted", "second", "good", "bad")
_NAMES = {"NN": "NN*\nnouns", "JJ": "JJ*\nadjectives", "PRP": "PRP*\npronouns", "RB": "RB*\nadverbs",
          "VB": "VB*\nverbs", OTHER: "other"}


def pos_plot(frequencies: pd.DataFrame, texts: int, split: str) -> Plot:
    """Return the bars of ``frequencies`` (see ``frequency_table``) over ``texts`` source texts of ``split``."""
    methods = list(dict.fromkeys(frequencies["method"]))
    names = (*FAMILIES, OTHER)
    shares = {method: frequencies[frequencies["method"] == method].set_index("pos") for method in methods}
    width = 0.8 / max(1, len(methods))
    with drawing(6.4, 3.0) as figure:
        axes = figure.add_subplot()
        for number, method in enumerate(methods):
            rows = shares[method]
            label = f"{LABELS.get(method, method)}: {rows['keyword_share'].iloc[0]:.0%} of tokens"
            axes.bar(np.arange(len(names)) + (number - (len(methods) - 1) / 2) * width,
                     [rows.loc[name, "share"] for name in names], width, label=label,
                     color=PALETTE[_COLOURS[number % len(_COLOURS)]])
        axes.set_xticks(np.arange(len(names)), [_NAMES[name] for name in names])
        axes.set_ylabel("share of keyword tokens")
        axes.legend()
        described = "; ".join(f"{LABELS.get(method, method)}: " + ", ".join(
            f"{name} {shares[method].loc[name, 'share']:.0%}" for name in names) for method in methods)
        return finished(figure, "pos_frequency", f"Keywords by part of speech, {texts} {split} sources", described)
