"""Strata of evaluated items: how often training has seen the keyword of an input. Metrics are told for each apart.

A stratum is a property of the item and not of the model, so all rows of a table have the same. A further one is a line
of ``STRATA``, over columns that :func:`keyword_columns` gives.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from stages.common.schemas import NO_KEYWORD


@dataclass(frozen=True)
class Stratum:
    """A stratum.

    Attributes:
        name: in tables and ``metrics.json``.
        title: for people.
        meaning: what its items have in common.
        holds: given rows with the columns of :func:`keyword_columns`, which of them belong to it (n,) bool.
    """

    name: str
    title: str
    meaning: str
    holds: Callable[[pd.DataFrame], np.ndarray]


_ALL = (
    Stratum("cluster3", "cluster of 3", "three training inputs or more have the input's keyword",
            lambda rows: rows["cluster"].to_numpy() >= 3),
    Stratum("known", "known", "the input's keyword is a node of the training graph, of whatever cluster",
            lambda rows: rows["known"].to_numpy(bool)),
    Stratum("unseen", "unseen", "training has not seen the input's keyword",
            lambda rows: ~rows["known"].to_numpy(bool)))
STRATA = {one.name: one for one in _ALL}


def keyword_columns(items: pd.DataFrame, example_ids: pd.Series) -> dict[str, Any]:
    """Return ``cluster`` and ``known`` of evaluated examples, by the keywords of all training items.

    Args:
        items: table ``items``.
        example_ids: examples in it, in any order.

    Returns:
        ``cluster``, the training inputs with the keyword of each input (n,) int64, none for inputs without one, which
        form no cluster; and ``known``, whether it is a node: the keyword of a training input, target or negative (n,)
        bool.
    """
    training = items[items["split"] == "train"]
    nodes = pd.concat([training[name] for name in ("keyword", "target_keyword", "negative_keyword")])
    sizes = training["keyword"].value_counts().drop(NO_KEYWORD, errors="ignore")
    own = items.set_index("example_id")["keyword"].loc[example_ids]
    return {"cluster": own.map(sizes).fillna(0).astype("int64").to_numpy(),
            "known": own.isin(nodes.dropna()).to_numpy()}
