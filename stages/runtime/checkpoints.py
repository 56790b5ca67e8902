"""Checkpoints that continue a run exactly: tensors in safetensors, plain values in JSON, never a pickle."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from safetensors.torch import load_file, save_file
from torch import Tensor


class CheckpointStore(Protocol):
    """Where a training loop keeps its state; handed to the loop, so that ``models`` opens no file."""

    def save(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Replace the stored state, whole or not at all."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the stored state; None if there is none."""


class FolderCheckpoints:
    """One checkpoint in ``folder``, valid only for ``key`` (a hash of params, data and code).

    A checkpoint written under another key belongs to another training and is removed.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder / "checkpoints"
        self.key = key
        if self.folder.exists():
            for other in sorted(self.folder.iterdir()):
                if other.name != key:
                    shutil.rmtree(other)

    def save(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Write beside the current checkpoint, then switch one small file over to the new one."""
        home = self.folder / self.key
        home.mkdir(parents=True, exist_ok=True)
        current = self._current()
        name = "b" if current == "a" else "a"
        state = home / name
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir()
        save_file({key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()},
                  state / "state.safetensors")
        (state / "state.json").write_text(json.dumps(values))
        pointer = home / "current.tmp"
        pointer.write_text(name)
        pointer.replace(home / "current")

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the tensors and plain values of the last complete checkpoint, or None."""
        current = self._current()
        if current is None:
            return None
        state = self.folder / self.key / current
        return load_file(state / "state.safetensors"), json.loads((state / "state.json").read_text())

    def clear(self) -> None:
        """Forget the checkpoint, once the final weights stand."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _current(self) -> str | None:
        pointer = self.folder / self.key / "current"
        return pointer.read_text().strip() if pointer.exists() else None
