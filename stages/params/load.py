"""Reading params: every problem at once, each with its place and the nearest valid name."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stages.common import settings
from stages.common.settings import PARAMS
from stages.common.yaml_files import read_yaml
from stages.params.problems import problem_lines
from stages.params.root import Params
from stages.run.errors import InputError


def load_params(path: Path = PARAMS, whole: bool = False) -> Params:
    """Return the validated params of the project in the working folder.

    Args:
        path: of the file.
        whole: refuse a file that leaves out blocks that have defaults or are filled in, because DVC reads them there.

    Raises:
        InputError: the file is missing or broken, or any name or value in it is wrong; all are listed.
    """
    if not path.exists():
        raise InputError(f"{path}: not found. Run this in the project's folder, or write the file with "
                         f"`keycontrast use sample`.")
    content = read_yaml(path)
    params = parse_params(content, str(path))
    if whole and (lacking := list(_lacking(params.plain(), content))):
        more = f" and {len(lacking) - 4} more" if len(lacking) > 4 else ""
        raise InputError(f"{path}: leaves out {', '.join(lacking[:4])}{more}, and DVC reads all values there. Move it "
                         f"to recipes/{params.recipe}-mine.yaml, and `keycontrast use {params.recipe}-mine` writes it "
                         f"here with every value spelt out.")
    return params


def _lacking(whole: Mapping[str, Any], content: Any) -> Iterator[str]:
    """Yield the places that DVC reads one by one and ``content`` has not: blocks, and values of ``runtime``."""
    yield from (name for name in whole if name not in content)
    given = content.get("runtime")
    yield from (f"runtime.{name}" for name in whole["runtime"] if isinstance(given, Mapping) and name not in given)


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
    """Return the hash of the params that stage instance ``stage@key`` declares; see :mod:`stages.common.settings`."""
    return settings.stage_hash(params.plain(), stage, key, seed)


def stage_values(params: Params, stage: str, key: str = "", seed: int | None = None) -> dict[str, Any]:
    """Return the params that stage instance ``stage@key`` declares, by dotted name."""
    return settings.stage_values(params.plain(), stage, key, seed)
