"""What the HCL track knows of a kind of model, and of a row of its table that is to be trained."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from stages.common.columns.graph import NODES
from stages.common.columns.items import EXAMPLES
from stages.common.columns.keywords import KEYWORDS
from stages.common.columns.texts import TEXTS
from stages.common.paths import DatasetPaths
from stages.tracks.common.starts import Start
from stages.tracks.common.training import Training

# What every architecture is trained on; an architecture may read further tables of the data set.
TABLES = (EXAMPLES, TEXTS, KEYWORDS, NODES)


@dataclass(frozen=True)
class HclRow:
    """A model to be trained.

    Attributes:
        name: of the model.
        paths: of its data set.
        seed: fans out by name into weights, order, dropout and noise.
        values: plain values of the block ``train_hcl`` with the model's overrides.
        items: from :func:`stages.tracks.hcl.items.joined_items`, all splits.
        nodes: table ``nodes``.
        language: ISO 639-1 code of its texts.
        encoder: param ``encoder.source``.
        node_vectors, graph: plain values of the blocks of these names.
        structure: of which kind its data set's rows are; see :class:`stages.ingest.layouts.Layout`.
        init_from: trained model that it starts from, or a start from elsewhere.
    """

    name: str
    paths: DatasetPaths
    seed: int
    values: Mapping[str, Any]
    items: pd.DataFrame
    nodes: pd.DataFrame
    language: str
    encoder: str
    node_vectors: Mapping[str, Any]
    graph: Mapping[str, Any]
    structure: str
    init_from: Start | None = None


@dataclass(frozen=True)
class Architecture:
    """A kind of model; each lies in a file of its own in ``architectures``.

    Attributes:
        name: as the params have it.
        title: as tables and cards have it.
        prepared: returns the training of a row of the results table.
    """

    name: str
    title: str
    prepared: Callable[[HclRow], Training[Any]]
