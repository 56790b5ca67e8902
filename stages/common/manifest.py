"""Lists of the artifacts under a recipe, on which DVC lets the report and the comparison depend."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from stages.common.paths import DatasetPaths, manifest_path
from stages.common.tables import SUFFIX, read_metadata, row_count, write_json
from stages.run.process import StageProcess, run_stage


def write_manifest(process: StageProcess, kind: str, folders: Sequence[Path]) -> None:
    """Write the size and SHA-256 of each file of ``folders``, and the rows and metadata of each table."""
    entries: dict[str, dict[str, Any]] = {}
    # Names with a leading dot are files that a killed stage had not finished.
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()
                       and not any(part.startswith(".") for part in path.relative_to(folder).parts)):
        entries[path.as_posix()] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        if path.suffix == SUFFIX:
            entries[path.as_posix()] |= {"rows": row_count(path), "metadata": read_metadata(path)}
    if not entries:
        raise InputError(f"{folders[0]}: no artifacts there. Make them with `keycontrast run`.")
    write_json(manifest_path(process.params.recipe, kind, process.instance),
               {"name": process.instance, "artifacts": entries})


def main(argv: list[str] | None = None) -> int:
    """Run the stage ``manifest``; see ``--help``."""
    return run_stage("manifest", lambda process: write_manifest(
        process, "data", [DatasetPaths(process.instance).folder]), argv)
