"""What a saved rewriter carries beside its weights, so that it can be used away from the artifacts of its training."""

from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from stages.artifacts.model_folder import as_note, load_notes, save_notes
from stages.tracks.pgkpr.keywords import Rule
from stages.tracks.pgkpr.vocabulary import Vocabulary

VOCABULARY_FILE = "vocabulary.json"
TRAINED_ON_FILE = "trained_on.json"


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


def save_lookup(folder: Path, vocabulary: Vocabulary, on: TrainedOn) -> None:
    """Write the vocabulary and the origin of a model into its folder."""
    columns = {"token": vocabulary.tokens, "kind": vocabulary.kinds, "count": vocabulary.counts}
    save_notes(folder, {VOCABULARY_FILE: columns, TRAINED_ON_FILE: asdict(on)})


def load_lookup(folder: Path) -> tuple[Vocabulary, TrainedOn]:
    """Return what :func:`save_lookup` wrote.

    Raises:
        InputError: there is no model in ``folder``, or one of another version.
    """
    columns, on = load_notes(folder, (VOCABULARY_FILE, TRAINED_ON_FILE), "PGKPR")
    frame = pd.DataFrame(columns).rename_axis("token_id").reset_index()
    return Vocabulary.from_frame(frame), as_note(TrainedOn, on, folder / TRAINED_ON_FILE)
