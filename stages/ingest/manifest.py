"""List a data set's artifacts with size, hash, rows and provenance.

The report shows all of them, and DVC cannot be told of a folder per data set in a stage that has no data
set of its own: it depends on these lists, which change whenever an artifact does.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stages.common.fingerprint import sha256_of
from stages.common.paths import ARTIFACTS, COMPARISON, MODELS, PREDICTED, PROBES, RUNS, DatasetPaths
from stages.common.tables import read_metadata, row_count, write_json
from stages.run.errors import InputError
from stages.run.process import StageProcess, run_stage

MANIFESTS = ARTIFACTS / "manifests"
# DVC wants every folder that a stage reads, even where the params list nothing that would be in it.
FOLDERS = (COMPARISON, MODELS, PREDICTED, RUNS, PROBES)


def run(folder: Path, files: Iterable[Path]) -> dict[str, Any]:
    """Return size and SHA-256 of every file, and of tables also rows and metadata, by path in ``folder``."""
    return {path.relative_to(folder).as_posix(): _entry(path) for path in sorted(files)}


def _entry(path: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    if path.suffix == ".parquet":
        entry |= {"rows": row_count(path), "metadata": read_metadata(path)}
    return entry


def _work(process: StageProcess) -> None:
    folder = DatasetPaths(process.instance).folder
    # Names with a leading dot are files that a killed stage had not finished.
    files = [path for path in folder.rglob("*") if path.is_file()
             and not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if not files:
        raise InputError(f"{folder}: no artifacts there. Make them with `keycontrast run`.")
    for group in FOLDERS:
        group.mkdir(parents=True, exist_ok=True)
    write_json(MANIFESTS / f"{process.instance}.json", {"dataset": process.instance, "artifacts": run(folder, files)})


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("manifest", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
