"""What the folder of a trained model holds beside its weights: notes as JSON, and the history of its training."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd

from keycontrast.errors import InputError
from keycontrast.files import atomic_file, sha256_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Note = TypeVar("Note")
# Where a model came from, as far as using it depends on that.
TRAINED_ON_FILE = "trained_on.json"
DIGESTS_FILE = "digests.json"


def save_notes(folder: Path, notes: Mapping[str, Any]) -> None:
    """Write each of ``notes``, plain values by file name, into a model's folder."""
    for name, content in notes.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n",
                                   encoding="utf-8")


def seal(folder: Path) -> None:
    """Write the SHA-256 of every file of a model's folder into it, once all stand."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != DIGESTS_FILE)
    save_notes(folder, {DIGESTS_FILE: {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}})


def check_seal(folder: Path) -> None:
    """Compare a model's files with the digests that lie beside them; a folder without any passes.

    Raises:
        InputError: one of them is not as it was written.
    """
    place = folder / DIGESTS_FILE
    if not place.exists():
        return
    digests = _json_of(place)
    for name, digest in digests.items():
        if not (folder / name).is_file() or sha256_of(folder / name) != digest:
            raise InputError(f"{folder / name}: not as it was when the model was trained, as by a bad disk. Bring it "
                             f"back: `dvc checkout --force {folder}` after `keycontrast verify`, which says whether "
                             f"DVC's cache is sound; or train the model again.")


def _json_of(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: damaged ({error}). Train the model again with `keycontrast run`.") from error


def load_origin(folder: Path, kind: type[Note], names: Sequence[str], track: str,
                config: type["PretrainedConfig"] | None = None) -> tuple[list[Any], Note]:
    """Return the notes called ``names`` of a trained model, and where it came from.

    Args:
        folder: of the model.
        kind: dataclass of which its origin was written.
        names: file names.
        track: of the model, for the error.
        config: of the track's models; None looks at none.

    Raises:
        InputError: there is no model in ``folder``, one that is damaged, or one of another version: its origin has
            other fields, or its configuration a setting that is gone.
    """
    files = (*names, TRAINED_ON_FILE)
    missing = [name for name in (*files, "config.json") if not (folder / name).exists()]
    if missing:
        raise InputError(f"{folder}: no trained {track} model ({missing[0]} is missing). Train it with "
                         f"`keycontrast run`.")
    check_seal(folder)
    *notes, values = (_json_of(folder / name) for name in files)
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if set(values) != known:
        raise InputError(f"{folder / TRAINED_ON_FILE}: of another version of Keycontrast, which differs in "
                         f"{', '.join(sorted(set(values) ^ known))}. Train the model again.")
    try:
        if config is not None:
            config.from_pretrained(folder)
    except ValueError as error:
        raise InputError(f"{folder / 'config.json'}: {error}. Train the model again.") from error
    return notes, kind(**values)


def write_history(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a training's history, one row per epoch, as CSV."""
    with atomic_file(path) as file:
        pd.DataFrame(rows).to_csv(file, index=False, float_format="%.9g", lineterminator="\n")
