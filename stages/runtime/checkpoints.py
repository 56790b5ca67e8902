"""Checkpoints that continue a run exactly: tensors in safetensors, plain values in JSON, never a pickle."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from stages.runtime import stopping

_WEIGHTS, _OPTIMISER, _VALUES = "weights.safetensors", "optimiser.safetensors", "state.json"
_KINDS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
          torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}


class FolderCheckpoints:
    """One checkpoint in ``folder``, valid only for ``key`` (a hash of params, data and code).

    A checkpoint written under another key belongs to another training and is removed. Each lies in a numbered folder;
    the best weights lie in that of the checkpoint whose weights they were, and are not written again.

    Args:
        folder: of this training alone.
        key: under which a checkpoint goes on.
        seconds: from the end of one checkpoint until another is due; 0 makes one due after every step.
        clock: tells the time in seconds.
    """

    def __init__(self, folder: Path, key: str, seconds: float = 0.0,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder / "checkpoints"
        self.key, self.seconds, self.clock = key, seconds, clock
        self.last = clock()
        if self.folder.exists():
            for other in sorted(self.folder.iterdir()):
                if other.name != key:
                    shutil.rmtree(other)

    def due(self) -> bool:
        """Tell whether the last checkpoint, or the opening of this store, is so long ago that another is due.

        It is at once if the process has been asked to stop; with that checkpoint it ends.
        """
        return stopping.asked() or self.clock() - self.last >= self.seconds

    def save(self, weights: Mapping[str, Tensor], optimiser: Mapping[str, Tensor], values: Mapping[str, Any],
             best: bool) -> None:
        """Write beside the current checkpoint, then switch one small file over to the new one."""
        current = self._current()
        number = current["state"] + 1 if current else 1
        home = self._home(number)
        shutil.rmtree(home, ignore_errors=True)  # of one that a kill cut off
        home.mkdir(parents=True)
        write_tensors(home / _WEIGHTS, weights)
        write_tensors(home / _OPTIMISER, optimiser)
        (home / _VALUES).write_text(json.dumps(values))
        pointer = self.folder / self.key / "current.tmp"
        kept = number if best else current["best"] if current else None
        pointer.write_text(json.dumps({"state": number, "best": kept}))
        pointer.replace(self.folder / self.key / "current")
        self._sweep(number, kept)
        self.last = self.clock()
        if stopping.asked():
            raise SystemExit(stopping.STATUS)

    def load(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]] | None:
        """Return weights, optimiser and plain values of the last complete checkpoint, or None."""
        current = self._current()
        if current is None:
            return None
        home = self._home(current["state"])
        return load_file(home / _WEIGHTS), load_file(home / _OPTIMISER), json.loads((home / _VALUES).read_text())

    def best(self) -> dict[str, Tensor]:
        """Return the weights that were saved last as the best."""
        current = self._current()
        assert current is not None and current["best"] is not None
        return load_file(self._home(current["best"]) / _WEIGHTS)

    def clear(self) -> None:
        """Forget the checkpoint, once the final weights stand."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _home(self, number: int) -> Path:
        return self.folder / self.key / str(number)

    def _current(self) -> dict[str, Any] | None:
        """Return the numbers of the current checkpoint and of the one that has the best weights, if there are any."""
        pointer = self.folder / self.key / "current"
        return json.loads(pointer.read_text()) if pointer.exists() else None

    def _sweep(self, current: int, best: int | None) -> None:
        """Remove what neither the current checkpoint nor the best weights need."""
        for home in self._home(current).parent.iterdir():
            if home.name == str(best) and best != current:
                for part in (_OPTIMISER, _VALUES):
                    (home / part).unlink(missing_ok=True)
            elif home.is_dir() and home.name != str(current):
                shutil.rmtree(home)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file, one tensor after another, so that no more than one of them is in memory twice.

    The format: size of the header in eight bytes, header (JSON: kind, shape and place of each tensor), then the bytes
    of the tensors; the widest kinds come first, so that each lies at a multiple of its width.
    """
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())
    header, end = {}, 0
    for name, tensor in ordered:
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _KINDS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in ordered:
            file.write(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
