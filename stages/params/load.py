"""Reading params: every problem at once, each with its place and the nearest valid name."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from keycontrast.errors import InputError
from stages.common import settings
from stages.common.settings import PARAMS, laid_over
from stages.common.yaml_files import read_yaml
from stages.params.load import Place, left_out
from stages.params.problems import problem_lines
from stages.params.root import Params

_LONGEST = 200   # characters of a value that a message repeats


def load_params(path: Path = PARAMS, whole: bool = False) -> Params:
    """Return the validated params of the project in the working folder.

    Args:
        path: of the file.
        whole: refuse a file that leaves out what DVC reads there by name.

    Raises:
        InputError: the file is missing or broken, or any name or value in it is wrong; all are listed.
    """
    if not path.exists():
        raise InputError(f"{path}: not found. Run this in the project's folder, or write the file with "
                         f"`keycontrast use sample`.")
    content = read_yaml(path)
    params = parse_params(content, str(path))
    if whole and (lacking := [".".join(place) for place in with_what_dvc_reads(content)[1]]):
        more = f" and {len(lacking) - 4} more" if len(lacking) > 4 else ""
        raise InputError(f"{path}: leaves out {', '.join(lacking[:4])}{more}, which DVC reads by name. Move it to "
                         f"recipes/{params.recipe}-mine.yaml; `keycontrast use {params.recipe}-mine` writes the rest.")
    return params


def with_what_dvc_reads(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[Place, Any]]:
    """Return sound params as read with what DVC reads by name and they leave out, and that by itself, by place."""
    missing = left_out(content, Params.model_validate(content).model_dump(mode="json"))
    filled = dict(content)
    for place, value in missing.items():
        nested: Any = value
        for part in reversed(place):
            nested = {part: nested}
        filled = laid_over(filled, nested)
    return filled, missing


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
        text = "\n".join(f"  {line}" for line in lines)
        for value in set(_long_values(content)):
            text = text.replace(value, f"{value[:80]}... ({len(value):,} characters)")
        raise InputError(f"{place}: {count}:\n{text}") from error


def _long_values(content: Any) -> Iterator[str]:
    """Yield names and values of more than 200 characters, which no message repeats."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _long_values(name)
            yield from _long_values(value)
    elif isinstance(content, list):
        for value in content:
            yield from _long_values(value)
    elif isinstance(content, str) and len(content) > _LONGEST:
        yield content


def stage_hash(params: Params, stage: str, key: str = "", seed: int | None = None) -> str:
    """Return the hash of the params that stage instance ``stage@key`` declares; see :mod:`stages.common.settings`."""
    return settings.stage_hash(params.plain(), stage, key, seed)


def stage_values(params: Params, stage: str, key: str = "", seed: int | None = None) -> dict[str, Any]:
    """Return the params that stage instance ``stage@key`` declares, by dotted name."""
    return settings.stage_values(params.plain(), stage, key, seed)
