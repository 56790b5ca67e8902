"""Stages that process the seeds of a row one after another, and skip finished ones.

Copies of the results of each seed are kept outside the stage's outs, since DVC removes the outs before a stage runs.
"""

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from keycontrast.errors import InputError
from keycontrast.files import atomic_folder, hash_values, sha256_of
from keycontrast.progress import progress
from stages.common.device import computed_in, computing
from stages.common.paths import ModelPaths, RunPaths
from stages.common.seeds import seed_everything
from stages.common.settings import Params, code_of, hash_code, hash_files
from stages.common.tables import Provenance, write_json, write_table
from stages.run.process import StageProcess
from stages.tracks.common.schemas import Table

FINISHED = Path(".keycontrast") / "finished"
_NOTE = "finished.json"     # written last
Progress = Callable[[list[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Finished:
    """The kept results of one seed; a later run replaces them. Files are linked if the disk can, else copied."""

    process: StageProcess       # at work on that seed
    key: str                    # hash of all that decides the bytes: params, the files that are read, code
    folders: Sequence[Path]     # that the stage makes for that seed

    @property
    def place(self) -> Path:
        """The folder of the kept files."""
        return FINISHED / self.process.stage / self.process.instance / str(self.process.seed)

    def restore(self) -> bool:
        """Restore the results kept under this key; return whether they were complete and unchanged."""
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
        self.process.log.info("%s: seed %s was finished before; its results are used", self.process.name,
                              self.process.seed)
        return True

    def keep(self) -> None:
        """Keep the present content of the folders."""
        shutil.rmtree(self.place, ignore_errors=True)
        for folder in self.folders:
            _link(folder, self.place / folder)
        files = [path for path in sorted(self.place.rglob("*")) if path.is_file()]
        write_json(self.place / _NOTE, {"key": self.key, "files": {
            path.relative_to(self.place).as_posix(): sha256_of(path) for path in files}})


def forget(stage: str, instance: str, seed: int | None = None) -> None:
    """Delete the kept results of a stage instance, for one seed or for all."""
    place = FINISHED / stage / instance
    shutil.rmtree(place if seed is None else place / str(seed), ignore_errors=True)


def forget_others(root: Path, known: Collection[tuple[str, str, int]]) -> None:
    """Delete the kept results of all but the ``known`` stages, instances and seeds of the project at ``root``."""
    for place in sorted((root / FINISHED).glob("*/*/*")):
        stage, instance, seed = place.relative_to(root / FINISHED).parts
        if not seed.isdigit() or (stage, instance, int(seed)) not in known:
            shutil.rmtree(place, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=_link_file, dirs_exist_ok=True)


def _link_file(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:     # another disk, or one that has no links
        shutil.copy2(source, target)


def for_each_seed(process: StageProcess, make: Callable[[StageProcess, ModelPaths], None],
                  folders: Callable[[RunPaths], Sequence[Path]],
                  tables: Callable[[RunPaths], Sequence[Path]] = lambda run: (), **further: Any) -> None:
    """Let ``make`` write the ``folders`` of each unfinished seed, from the model, ``tables`` and ``further`` values."""
    import torch  # not at the top: whoever only forgets what is finished does not load it

    name, code = process.instance, hash_code(code_of(process.stage))
    for seed in process.params.run_seeds(name):
        seeded, paths, run = process.under(seed), ModelPaths(process.params.run_model(name), seed), RunPaths(name, seed)
        read = [path for path in (paths.folder, *tables(run)) if path.exists()]
        key = hash_values({**seeded.declared_values, "data": hash_files(read), "code": code, "torch": torch.__version__,
                           **further})
        finished = Finished(seeded, key, folders(run))
        if not finished.restore():
            make(seeded, paths)
            finished.keep()


def generate(process: StageProcess, rewritten: Callable[[Params, str, ModelPaths, str, Progress],
                                                        tuple[list[Table], list[str]]]) -> None:
    """Write the predictions of a run under each seed; ``rewritten`` returns tables and a warning per fall-back."""
    def make(process: StageProcess, paths: ModelPaths) -> None:
        params, name, runtime = process.params, process.instance, process.params.runtime
        seed_everything(params.seed, runtime.threads, runtime.deterministic, runtime.tf32)
        with computing(runtime) as device:
            tables, warnings = rewritten(params, name, paths, device,
                                         lambda chunks: progress(chunks, process.name, unit="chunk"))
        for warning in warnings:
            process.log.warning("%s", warning)
        model = {"name": paths.weights.as_posix(), "sha256": sha256_of(paths.weights / "model.safetensors")}
        for table in tables:
            write_table(RunPaths(name, paths.seed).generated(table.name), table.schema, table.rows, Provenance(
                process.name, process.params_hash, {"model": model}, fallbacks=warnings,
                precision=computed_in(runtime.precision, runtime.tf32)))

    for_each_seed(process, make, lambda run: [run.predictions.parent])


def split_of(items: pd.DataFrame, split: str, table: str) -> pd.DataFrame:
    """Return the rows of ``split`` in ``items``; an empty split is an ``InputError``, which names ``table``."""
    chosen = items[items["split"] == split]
    if chosen.empty:
        raise InputError(f"table {table}: the {split} split is empty. Give more data, or a larger share to that split "
                         f"(ingest.validation, ingest.test).")
    return chosen
