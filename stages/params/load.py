"""Reading params: every problem at once, each with its place and the nearest valid name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from stages.params.problems import problem_lines
from stages.params.root import Params
from stages.runtime import settings
from stages.runtime.errors import InputError
from stages.runtime.settings import PARAMS


def load_params(path: Path = PARAMS) -> Params:
    """Return the validated params of the project in the working folder.

    Raises:
        InputError: the file is missing or broken, or any name or value in it is wrong; all are listed.
    """
    if not path.exists():
        raise InputError(f"{path}: not found. Run this in the project's folder, or write the file with "
                         f"`keycontrast use sample`.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    return parse_params(content, str(path))


def parse_params(content: Any, place: str) -> Params:
    """Return ``content`` as validated params; ``place`` names its origin in errors.

    Raises:
        InputError: lists every problem.
    """
    if not isinstance(content, Mapping):
        raise InputError(f"{place}: must hold names and values, found {type(content).__name__}.")
    try:
        return Params.model_validate(content).settled()
    except ValidationError as error:
        lines = problem_lines(error, model=Params)
        count = f"{len(lines)} problem{'s' if len(lines) > 1 else ''}"
        raise InputError(f"{place}: {count}:\n" + "\n".join(f"  {line}" for line in lines)) from error


def stage_hash(params: Params, stage: str, key: str = "", seed: int | None = None) -> str:
    """Return the hash of the params that stage instance ``stage@key`` declares; see :mod:`stages.runtime.settings`."""
    return settings.stage_hash(params.plain(), stage, key, seed)


def stage_values(params: Params, stage: str, key: str = "", seed: int | None = None) -> dict[str, Any]:
    """Return the params that stage instance ``stage@key`` declares, by dotted name."""
    return settings.stage_values(params.plain(), stage, key, seed)
