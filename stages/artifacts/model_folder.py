"""What the folder of a trained model holds beside its weights: notes as JSON, and the history of its training."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from stages.artifacts.tables import atomic_file
from stages.runtime.errors import InputError

Note = TypeVar("Note")
# Where a model came from, as far as using it depends on that.
TRAINED_ON_FILE = "trained_on.json"


def save_notes(folder: Path, notes: Mapping[str, Any]) -> None:
    """Write each of ``notes``, plain values by file name, into a model's folder."""
    for name, content in notes.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n",
                                   encoding="utf-8")


def load_origin(folder: Path, kind: type[Note], names: Sequence[str], track: str) -> tuple[list[Any], Note]:
    """Return the notes called ``names`` of a trained model, and where it came from.

    Args:
        folder: of the model.
        kind: dataclass of which its origin was written.
        names: file names.
        track: of the model, for the error.

    Raises:
        InputError: there is no model in ``folder``, or one of a version whose origin has other fields.
    """
    files = (*names, TRAINED_ON_FILE)
    missing = [name for name in (*files, "config.json") if not (folder / name).exists()]
    if missing:
        raise InputError(f"{folder}: no trained {track} model ({missing[0]} is missing). Train it with "
                         f"`keycontrast run`.")
    *notes, values = (json.loads((folder / name).read_text(encoding="utf-8")) for name in files)
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if set(values) != known:
        raise InputError(f"{folder / TRAINED_ON_FILE}: of another version of Keycontrast, which differs in "
                         f"{', '.join(sorted(set(values) ^ known))}. Train the model again.")
    return notes, kind(**values)


def write_history(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a training's history, one row per epoch, as CSV."""
    with atomic_file(path) as file:
        pd.DataFrame(rows).to_csv(file, index=False, float_format="%.9g", lineterminator="\n")
