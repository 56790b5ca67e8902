"""Lists of what stages made under a recipe: what reads all of them depends on these, and not on a folder of others.

The stage ``manifest`` lists the artifacts of a data set; evaluations and probes list their own.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from stages.common.paths import DatasetPaths, manifest_path
from stages.common.tables import SUFFIX, read_metadata, row_count, write_json
from stages.run.process import StageProcess, run_stage


def write_manifest(process: StageProcess, kind: str, folders: Sequence[Path]) -> None:
    """List the files of ``folders`` with size and SHA-256, and of tables rows and metadata.

    Raises:
        InputError: there are none.
    """
    # Names with a leading dot are files that a killed stage had not finished.
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()
                   and not any(part.startswith(".") for part in path.relative_to(folder).parts))
    if not files:
        raise InputError(f"{folders[0]}: no artifacts there. Make them with `keycontrast run`.")
    write_json(manifest_path(process.params.recipe, kind, process.instance),
               {"name": process.instance, "artifacts": {path.as_posix(): _entry(path) for path in files}})


def _entry(path: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    if path.suffix == SUFFIX:
        entry |= {"rows": row_count(path), "metadata": read_metadata(path)}
    return entry


def main(argv: list[str] | None = None) -> int:
    """Run the stage ``manifest``; see ``--help``."""
    return run_stage("manifest", lambda process: write_manifest(
        process, "data", [DatasetPaths(process.instance).folder]), argv)


if __name__ == "__main__":
    sys.exit(main())
