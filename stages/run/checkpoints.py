"""Checkpoints that continue a run exactly: tensors in safetensors, plain values in JSON, no pickle."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from keycontrast.errors import InputError
from keycontrast.files import flush, flush_path, sha256_of
from stages.run.log import logger

_WEIGHTS, _OPTIMISER, _VALUES, _RECORD = "weights.safetensors", "optimiser.safetensors", "state.json", "whole.json"


class FolderCheckpoints:
    """The last two checkpoints in ``folder`` under ``key`` (a hash of params, data and code); others are removed.

    Each is a numbered folder with a record of its files' digests, which is written last. If a file is damaged, the
    previous checkpoint is loaded. The best weights remain in the folder of the checkpoint that saved them. The next
    checkpoint is due ``seconds`` after the last one, by ``clock``; with 0 one is due after every step.
    """

    def __init__(self, folder: Path, key: str, seconds: float = 0.0,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder / "checkpoints"
        self.key, self.seconds, self.clock = key, seconds, clock
        self.last = clock()
        self._record: _Record | None = None
        if self.folder.exists():
            for other in sorted(self.folder.iterdir()):
                if other.name != key:
                    shutil.rmtree(other)

    def due(self) -> bool:
        """Return whether the last checkpoint, or the opening of this store, is so long ago that another is due."""
        return self.clock() - self.last >= self.seconds

    def save(self, weights: Mapping[str, Tensor], optimiser: Mapping[str, Tensor], values: Mapping[str, Any],
             best: bool) -> None:
        """Write a checkpoint; its record makes it the current one."""
        current = self._current()
        number = current.number + 1 if current else 1
        home = self._file(str(number))
        shutil.rmtree(home, ignore_errors=True)  # left by a kill
        self._sweep(current)
        home.mkdir(parents=True)
        files = {f"{number}/{_WEIGHTS}": _write_tensors(home / _WEIGHTS, weights),
                 f"{number}/{_OPTIMISER}": _write_tensors(home / _OPTIMISER, optimiser),
                 f"{number}/{_VALUES}": _write(home / _VALUES, json.dumps(values).encode())}
        if not best and current is not None and current.best is not None:
            files |= {name: digest for name, digest in current.files.items() if name == current.best_file}
        record = _Record(number, number if best else current.best if current else None, files)
        _write(home / _RECORD, record.as_text().encode())
        flush_path(home)
        flush_path(home.parent)
        self._record = record
        self.last = self.clock()

    def load(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]] | None:
        """Return weights, optimiser and plain values of the last checkpoint that is not damaged, or None."""
        for record in self._records():
            damaged = self._damaged(record)
            if not damaged:
                self._record, home = record, self._file(str(record.number))
                return load_file(home / _WEIGHTS), load_file(home / _OPTIMISER), json.loads(
                    (home / _VALUES).read_bytes())
            logger("checkpoints").warning("%s: is damaged; the training continues from an earlier checkpoint, or "
                                          "starts again if there is none", damaged)
            shutil.rmtree(self._file(str(record.number)), ignore_errors=True)
        self._record = None
        return None

    def best(self) -> dict[str, Tensor]:
        """Return the best weights; if they are damaged, all checkpoints are removed and an InputError says so."""
        current = self._current()
        assert current is not None and current.best is not None
        file = self._file(current.best_file)
        if sha256_of(file) != current.files[current.best_file]:
            self.clear()
            raise InputError(f"{file}: the best weights are damaged. They were removed; the same command trains again.")
        return load_file(file)

    def clear(self) -> None:
        """Remove all checkpoints, once the final weights are written."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._record = None

    def _file(self, name: str) -> Path:
        return self.folder / self.key / name

    def _current(self) -> "_Record | None":
        """Return the record of the checkpoint that was saved or loaded last, or of the latest in the folder."""
        return self._record or next(iter(self._records()), None)

    def _records(self) -> list["_Record"]:
        """Return the records of the checkpoints, the latest first."""
        homes = self._file("").iterdir() if self._file("").exists() else ()
        records = [record for home in homes if (record := _Record.read(home)) is not None]
        return sorted(records, key=lambda record: -record.number)

    def _damaged(self, record: "_Record") -> Path | None:
        """Return the first damaged file of a checkpoint or of its best weights."""
        files = {self._file(name): digest for name, digest in record.files.items()}
        return next((file for file, digest in files.items() if not file.is_file() or sha256_of(file) != digest), None)

    def _sweep(self, current: "_Record | None") -> None:
        """Remove all files but those of the current checkpoint and its best weights, before another is written."""
        if current is None:
            shutil.rmtree(self._file(""), ignore_errors=True)
            return
        for home in self._file("").iterdir():
            if home.name == str(current.best) and current.best != current.number:
                for part in (_OPTIMISER, _VALUES, _RECORD):
                    (home / part).unlink(missing_ok=True)
            elif home.name != str(current.number):
                shutil.rmtree(home)


@dataclass(frozen=True)
class _Record:
    """The files of a checkpoint."""

    number: int
    best: int | None  # number of the checkpoint with the best weights; None before there are any
    files: dict[str, str]  # SHA-256 by name below the key, with the best weights

    @property
    def best_file(self) -> str:
        return f"{self.best}/{_WEIGHTS}"

    def as_text(self) -> str:
        content = json.dumps(asdict(self), sort_keys=True)
        return f"{content}\n{hashlib.sha256(content.encode()).hexdigest()}\n"

    @classmethod
    def read(cls, home: Path) -> "_Record | None":
        """Return the record in the folder of a checkpoint; None if there is none, or if it is damaged."""
        try:
            content, digest, _ = (home / _RECORD).read_text(encoding="utf-8").split("\n")
        except (OSError, ValueError):
            return None
        intact = hashlib.sha256(content.encode()).hexdigest() == digest
        return cls(**json.loads(content)) if intact else None


def _write(path: Path, content: bytes) -> str:
    """Write a file and return its SHA-256, once the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        flush(file)
    return hashlib.sha256(content).hexdigest()


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write a safetensors file and return its SHA-256, once the disk has it."""
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    flush_path(path)
    return sha256_of(path)
