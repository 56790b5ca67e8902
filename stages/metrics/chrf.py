"""chrF: how many short runs of letters an output shares with its references (Popović 2015), as sacreBLEU counts it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stages.metrics.bleu import check_items
from stages.metrics.resampling import Statistic
from stages.metrics.tokens import Text, joined

_BETA = 2       # weight of recall


def chrf_statistic(outputs: Sequence[Text], references: Sequence[Sequence[Text]]) -> Statistic:
    """Return chrF2 of the corpus, lower-cased, of runs of 1 to 6 letters, on its scale of 0 to 100.

    White space does not count, so that texts cut into words score as those that are not. Of several references that of
    the best score counts, item by item.

    >>> chrf_statistic(["Same", "abc"], [["same"], ["xyz"]]).items.shape
    (2, 18)

    Raises:
        ValueError: no items, different numbers of items, or an item without reference.
    """
    from sacrebleu.metrics import CHRF

    check_items(outputs, references)
    # Streams of equal length; None stands where an item has fewer references.
    streams: Any = [[_letters(item[place]) if place < len(item) else None for item in references]
                    for place in range(max(map(len, references)))]
    counted = CHRF(lowercase=True, beta=_BETA)._extract_corpus_statistics(list(map(_letters, outputs)), streams)
    return Statistic(np.array(counted, dtype=np.int64), _chrf_of_sums)


def _letters(text: Text) -> str:
    return "".join(joined(text).split())


def _chrf_of_sums(sums: np.ndarray) -> np.ndarray:
    """Return F of mean precision and mean recall over the orders of which output and reference have any."""
    said, there, matched = (sums[..., place::3] for place in range(3))      # (..., 6) each
    counts = (said > 0) & (there > 0)
    orders = np.maximum(counts.sum(-1), 1)
    precision, recall = (np.where(counts, matched / np.maximum(total, 1), 0).sum(-1) / orders
                         for total in (said, there))
    weighted = _BETA**2 * precision + recall
    return 100 * (1 + _BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
