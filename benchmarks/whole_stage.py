"""A stage of the pipeline, run whole in a folder of its own; light to import, so that all it needs is counted."""

import json
import os
from importlib import import_module
from pathlib import Path

from stages.runtime.entries import module_of


def run_stage_in(folder: Path, stage: str, instance: str) -> None:
    """Run stage ``stage`` for ``instance`` in this process, with ``folder`` as the project's.

    Raises:
        RuntimeError: the stage failed; its message is on standard error.
    """
    before = Path.cwd()
    os.chdir(folder)
    try:
        if import_module(module_of(stage)).main([instance]) != 0:
            raise RuntimeError(f"stage {stage} failed in {folder}")
    finally:
        os.chdir(before)


def seconds_of(folder: Path, stage: str, instance: str) -> float:
    """Return how long the last run of a stage in ``folder`` took, its imports not counted."""
    return float(json.loads((folder / ".keycontrast" / "records" / f"{stage}@{instance}.json").read_text())["seconds"])
