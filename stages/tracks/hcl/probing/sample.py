"""Which items a probe looks at."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from stages.common.seeds import generator


@dataclass(frozen=True)
class Sample:
    """A seeded sample.

    Attributes:
        items: in the order in which they were drawn; fitting ones come first.
        fitting: how many fitting items there are to draw from.
        filled: how many of the sample do not fit, for want of others.
    """

    items: pd.DataFrame
    fitting: int
    filled: int

    def first(self, size: int) -> pd.DataFrame:
        """Return the first ``size`` items drawn, by example id."""
        return self.items.head(size).sort_values("example_id", ignore_index=True)


def draw(items: pd.DataFrame, fits: np.ndarray, size: int, seed: int, name: str) -> Sample:
    """Return ``size`` of ``items``, or all there are, those that fit before the others.

    Args:
        items: with a column ``example_id``; their order does not matter.
        fits: whether each item is one that the probe wants (n,).
        size: of the sample.
        seed: of the project.
        name: of the sample; samples of other names are drawn by themselves.
    """
    order = np.argsort(items["example_id"].to_numpy(), kind="stable")
    shuffled = order[generator(seed, "probe_hcl", name).permutation(len(order))]
    chosen = np.concatenate([shuffled[fits[shuffled]], shuffled[~fits[shuffled]]])[:size]
    return Sample(items.iloc[chosen].reset_index(drop=True), int(fits.sum()), int((~fits[chosen]).sum()))
