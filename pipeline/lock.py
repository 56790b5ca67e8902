"""``dvc.lock`` as it is read."""

from pathlib import Path
from typing import Any

import yaml

from keycontrast.errors import InputError

LOCK = Path("dvc.lock")


class UnreadableLock(InputError):
    """``dvc.lock`` is damaged."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{' '.join(problem.split())}. `git checkout dvc.lock` brings back the last one that was "
                         f"committed, or in a merge `git checkout --ours dvc.lock` one side whole; `keycontrast run` "
                         f"then makes what does not fit. Where git has none, delete the file.")


def read_lock(root: Path = Path()) -> dict[str, Any]:
    """Return the stages of ``dvc.lock`` by name; none if there is no such file."""
    return stages_of((root / LOCK).read_bytes()) if (root / LOCK).exists() else {}


def stages_of(content: bytes) -> dict[str, Any]:
    """Return the stages of a lock by name."""
    try:
        parsed = yaml.load(content, yaml.CSafeLoader)  # noqa: S506 - safe, and ten times as fast as safe_load
    except yaml.YAMLError as error:
        raise UnreadableLock(f"dvc.lock: not valid YAML ({error})") from error
    stages = parsed.get("stages") if isinstance(parsed, dict) else None
    if not isinstance(stages, dict) or not all(isinstance(entry, dict) for entry in stages.values()):
        raise UnreadableLock("dvc.lock: not what DVC writes, which is a mapping with `schema` and `stages`")
    return stages
