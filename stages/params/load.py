"""Reading params: every problem at once, each with its place and the nearest valid name."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from stages.runtime.errors import InputError, nearest

if TYPE_CHECKING:
    from stages.params.root import Params

PARAMS_FILE = Path("params.yaml")


def load_params(path: Path = PARAMS_FILE) -> "Params":
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


def parse_params(content: Any, place: str) -> "Params":
    """Return ``content`` as validated params; ``place`` names its origin in errors.

    Raises:
        InputError: lists every problem.
    """
    from stages.params.root import Params

    if not isinstance(content, Mapping):
        raise InputError(f"{place}: must hold names and values, found {type(content).__name__}.")
    try:
        return Params.model_validate(content)
    except ValidationError as error:
        lines = problem_lines(error, model=Params)
        count = f"{len(lines)} problem{'s' if len(lines) > 1 else ''}"
        raise InputError(f"{place}: {count}:\n" + "\n".join(f"  {line}" for line in lines)) from error


def problem_lines(error: ValueError, place: str = "", model: type[BaseModel] | None = None) -> list[str]:
    """Return one line per problem in ``error``: dotted place, what is wrong, nearest valid name."""
    if not isinstance(error, ValidationError):
        return [f"{place}: {error}"]
    model = model or _model_of(error)
    lines = []
    for item in error.errors():
        where = ".".join([place] * bool(place) + [str(part) for part in item["loc"]])
        if item["type"] == "extra_forbidden":
            lines.append(f"{where}: unknown name; {nearest(str(item['loc'][-1]), _names(model, item['loc'][:-1]))}")
        elif item["type"] == "missing":
            lines.append(f"{where}: missing.")
        elif item["type"] == "value_error":
            message = str(item["ctx"]["error"])
            lines += message.split("\n") if "\n" in message or not where else [f"{where}: {message}"]
        else:
            lines.append(f"{where}: {item['msg']}, found {item['input']!r}.")
    return lines


def _model_of(error: ValidationError) -> type[BaseModel] | None:
    from stages.params.hcl import GenerateHcl, TrainHcl

    return {kind.__name__: kind for kind in (TrainHcl, GenerateHcl)}.get(error.title)


def _names(model: type[BaseModel] | None, place: tuple[Any, ...]) -> list[str]:
    """Names that are valid at ``place`` inside ``model``; map keys are stepped over."""
    current: Any = model
    for part in place:
        if isinstance(current, type) and issubclass(current, BaseModel):
            current = current.model_fields[str(part)].annotation
        else:
            current = next((kind for kind in get_args(current)
                            if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []
