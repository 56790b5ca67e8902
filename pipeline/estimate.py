"""How long a run will take and how much disk, by what the same stage instances took here the last time they ran."""

import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from keycontrast.errors import InputError
from pipeline.dag import read_lock
from stages.params import Params
from stages.run.process import RECORDS

_LEAST_DISK_GIB = 0.05  # logs, and the records of Prefect and DVC, beside what the outs took the last time


def duration(seconds: float) -> str:
    """Return ``8.2 s``, ``3 min 05 s`` or ``2 h 04 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def estimate_in_words(stages: Iterable[str], records: Path = RECORDS) -> str:
    """Return the seconds of the last runs of stage instances such as ``ingest@sample``, added up, as a sentence.

    Where one has no record it says how many have none.
    """
    names, seconds = set(stages), list[float]()
    for name in names:
        path = records / f"{name if '@' in name else f'{name}@all'}.json"
        with suppress(FileNotFoundError, json.JSONDecodeError):     # never run here, or killed as it was written
            seconds.append(float(json.loads(path.read_text(encoding="utf-8"))["seconds"]))
    if missing := len(names) - len(seconds):
        return f"No estimate yet: {missing} of {len(names)} stages have no record of a run here."
    if len(names) == 1:
        return f"The last run of this stage took {duration(sum(seconds))}."
    return (f"The last runs of these {len(names)} stages took {duration(sum(seconds))}, added up; stages run in "
            f"parallel.")


def instances(params: Params, dvc: Mapping[str, Any]) -> list[str]:
    """Return the stage instances that ``dvc`` (parsed ``dvc.yaml``) makes of ``params``."""
    values, found = params.model_dump(mode="json"), []
    for stage, entry in dvc["stages"].items():
        keys: Any = values
        for part in str(entry.get("foreach", "")).strip("${}").split("."):
            keys = keys[part] if part else [""]
        found += [f"{stage}@{key}" if key else stage for key in keys]
    return found


def estimate_of_project(params: Params, root: Path = Path()) -> str:
    """Return :func:`estimate_in_words` for every stage instance of ``params``."""
    dvc = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))
    return estimate_in_words(instances(params, dvc), root / RECORDS)


def check_disk(names: Iterable[str]) -> None:
    """Make sure that there is room for what the stages ``names`` made the last time."""
    lock = read_lock()
    last = sum(out.get("size", 0) for name in names for out in lock.get(name, {}).get("outs", []))
    needed, free = _LEAST_DISK_GIB + last / 2**30, shutil.disk_usage(".").free / 2**30
    if free < needed:
        raise InputError(f"{Path.cwd()}: this run needs about {needed:.2f} GiB of disk, and {free:.2f} GiB are free. "
                         f"Free some space, and give the same command again; `dvc gc --workspace` empties DVC's cache "
                         f"of what is not in use.")
