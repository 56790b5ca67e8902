"""What a stage has finished for one seed of a row, kept beside its outs: DVC removes these before a stage runs.

A row has one stage instance, which works on one seed after another. A seed that was finished under the same key is
taken as it is, so that another seed, or a kill in the midst of one, costs the others nothing.
"""

import json
import os
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from stages.common.fingerprint import sha256_of
from stages.common.tables import write_json
from stages.run.durable import atomic_folder
from stages.run.process import StageProcess

FINISHED = Path(".keycontrast") / "finished"
# Written last: without it nothing counts as finished.
_NOTE = "finished.json"


@dataclass(frozen=True)
class Finished:
    """What is kept of one seed; a later one takes its place. Files are linked where the disk can, else copied.

    Attributes:
        process: of the stage, at work on that seed.
        key: hash of all that decides the bytes: params, the files that are read, code.
        folders: that the stage makes for that seed.
    """

    process: StageProcess
    key: str
    folders: Sequence[Path]

    @property
    def place(self) -> Path:
        """Where it is kept."""
        return FINISHED / self.process.stage / self.process.instance / str(self.process.seed)

    def restore(self) -> bool:
        """Put back what was finished under this key, if it is whole and as it was; tell whether it was."""
        try:
            note = json.loads((self.place / _NOTE).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return False
        if not isinstance(note, dict) or note.get("key") != self.key or not all(
                (path := self.place / name).is_file() and sha256_of(path) == digest
                for name, digest in note["files"].items()):
            return False
        for folder in self.folders:
            with atomic_folder(folder) as temporary:
                _link(self.place / folder, temporary)
        self.process.log.info("%s: seed %s was finished before and is taken as it is", self.process.name,
                              self.process.seed)
        return True

    def keep(self) -> None:
        """Keep what now stands in the folders."""
        shutil.rmtree(self.place, ignore_errors=True)
        for folder in self.folders:
            _link(folder, self.place / folder)
        files = [path for path in sorted(self.place.rglob("*")) if path.is_file()]
        write_json(self.place / _NOTE, {"key": self.key, "files": {
            path.relative_to(self.place).as_posix(): sha256_of(path) for path in files}})


def forget(stage: str, instance: str, seed: int | None = None) -> None:
    """Forget what a stage instance has finished, under one seed or all."""
    place = FINISHED / stage / instance
    shutil.rmtree(place if seed is None else place / str(seed), ignore_errors=True)


def forget_others(root: Path, known: Collection[tuple[str, str, int]]) -> None:
    """Forget whatever is not of one of the ``known`` stages, instances and seeds of the project at ``root``."""
    for place in sorted((root / FINISHED).glob("*/*/*")):
        stage, instance, seed = place.relative_to(root / FINISHED).parts
        if not seed.isdigit() or (stage, instance, int(seed)) not in known:
            shutil.rmtree(place, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    """Make ``target`` hold the files of ``source``, which nobody writes in place."""
    for path in sorted(source.rglob("*")):
        if path.is_file():
            other = target / path.relative_to(source)
            other.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, other)
            except OSError:     # another disk, or one that has no links
                shutil.copy2(path, other)
