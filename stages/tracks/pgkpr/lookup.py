"""What a saved rewriter carries beside its weights, so that it can be used away from the artifacts of its training."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from models.pgkpr.pgkpr import RewriterConfig
from stages.common.model_folder import TRAINED_ON_FILE, load_origin
from stages.tracks.pgkpr.items import Rule, Vocabulary

VOCABULARY_FILE = "vocabulary.json"


@dataclass(frozen=True)
class TrainedOn:
    """Where a model came from, as far as using it depends on that.

    Attributes:
        dataset: name of the data set.
        keywords: how its keywords were chosen in training; None for a model that reads none.
        mark_all: whether every occurrence of a keyword was one.
        max_length: words of a text that are read and were taught.
    """

    dataset: str
    keywords: Rule | None
    mark_all: bool
    max_length: int


def notes_of(vocabulary: Vocabulary, on: TrainedOn) -> dict[str, Any]:
    """Return the notes that go with a model's weights: its vocabulary and its origin."""
    columns = {"token": vocabulary.tokens, "kind": vocabulary.kinds, "count": vocabulary.counts}
    return {VOCABULARY_FILE: columns, TRAINED_ON_FILE: asdict(on)}


def load_lookup(folder: Path) -> tuple[Vocabulary, TrainedOn]:
    """Return what :func:`notes_of` was given.

    Raises:
        InputError: there is no model in ``folder``, or one of another version.
    """
    (columns,), on = load_origin(folder, TrainedOn, (VOCABULARY_FILE,), "PGKPR", RewriterConfig)
    return Vocabulary.from_frame(pd.DataFrame(columns).rename_axis("token_id").reset_index()), on
