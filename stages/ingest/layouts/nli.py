"""Natural language inference: a premise, a hypothesis, and whether the first entails the second or denies it.

What a text entails is taken as a text that says the same, what it contradicts as a negative (as Gao et al. 2021 do for
sentence embeddings, SimCSE). Neutral pairs are neither, and are set aside.
"""

from collections.abc import Mapping
from typing import Any

from stages.ingest.layouts.layout import Column, Layout

# In words, by first letters (ANLI), and by the numbers of the published data sets (SNLI, MultiNLI).
_LABELS = {"entailment": 1, "e": 1, "0": 1, "contradiction": 0, "c": 0, "2": 0}
_NEUTRAL = ("neutral", "n", "1")
# Of pairs whose annotators did not agree.
_UNDECIDED = ("-", "-1")


def _as_pair(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return source, target and label; pairs of other labels are set aside.

    Raises:
        ValueError: the label is neutral, undecided, or none of these; the message is the reason.
    """
    label = str(content["label"]).lower()
    if label in _NEUTRAL:
        raise ValueError("neutral: neither entails nor contradicts")
    if label in _UNDECIDED:
        raise ValueError("undecided: its annotators did not agree")
    if label not in _LABELS:
        raise ValueError(f"label: must be entailment, neutral or contradiction (or 0, 1, 2), found "
                         f"{content['label']!r}")
    rest = {role: value for role, value in content.items() if role not in ("premise", "hypothesis", "label")}
    return {"source": content["premise"], "target": content["hypothesis"], "label": _LABELS[label], **rest}


LAYOUTS = (
    Layout("nli", "a premise and what it entails or contradicts; neutral pairs are set aside", {
        "premise": Column("a text", "premise"), "hypothesis": Column("a text about which it says something",
                                                                     "hypothesis"),
        "label": Column("entailment, neutral or contradiction, or 0, 1, 2", "label", values="name")},
        convert=_as_pair, set_aside=("neutral", "undecided")),
)
