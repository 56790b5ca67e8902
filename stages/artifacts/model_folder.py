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


def save_notes(folder: Path, notes: Mapping[str, Any]) -> None:
    """Write each of ``notes``, plain values by file name, into a model's folder."""
    for name, content in notes.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n",
                                   encoding="utf-8")


def load_notes(folder: Path, names: Sequence[str], track: str) -> list[Any]:
    """Return the notes called ``names`` of a trained model.

    Args:
        folder: of the model.
        names: file names.
        track: of the model, for the error.

    Raises:
        InputError: there is no model in ``folder``.
    """
    missing = [name for name in (*names, "config.json") if not (folder / name).exists()]
    if missing:
        raise InputError(f"{folder}: no trained {track} model ({missing[0]} is missing). Train it with "
                         f"`keycontrast run`.")
    return [json.loads((folder / name).read_text(encoding="utf-8")) for name in names]


def as_note(kind: type[Note], values: Mapping[str, Any], file: Path) -> Note:
    """Return ``values`` as the dataclass ``kind``, of which ``file`` was written.

    Raises:
        InputError: they are of a version that has other fields.
    """
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if set(values) != names:
        raise InputError(f"{file}: of another version of Keycontrast, which differs in "
                         f"{', '.join(sorted(set(values) ^ names))}. Train the model again.")
    return kind(**values)


def write_history(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a training's history, one row per epoch, as CSV."""
    with atomic_file(path) as file:
        pd.DataFrame(rows).to_csv(file, index=False, float_format="%.9g", lineterminator="\n")
