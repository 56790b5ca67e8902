"""Reading params with every problem at once, and the values that DVC reads by name."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from keycontrast.errors import InputError
from stages.common.paths import PARAMS
from stages.common.settings import declared_places, laid_over, stages_of_dvc, value_at
from stages.common.yaml_files import read_yaml
from stages.params.problems import problem_lines
from stages.params.root import Params

_NAMED = re.compile(r"\$\{([^}]+)\}")
# Characters of a line of a message, which may repeat a long value.
_LONGEST = 1000
Place = tuple[str, ...]


def with_what_dvc_reads(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[Place, Any]]:
    """Return valid params, with the missing values that DVC reads by name filled in, and these values by place.

    A block that is left out becomes ``{}``, since its defaults are code.
    """
    complete = Params.model_validate(content).model_dump(mode="json")
    missing: dict[Place, Any] = {}
    for place in _places(complete):
        if not _has(content, place):
            value = value_at(complete, place)
            missing[place] = {} if isinstance(value, Mapping) and len(place) == 1 else value
    # A value that is filled in as a whole brings its parts.
    missing = {place: value for place, value in missing.items()
               if not any(missing.get(place[:end]) for end in range(1, len(place)))}
    filled = dict(content)
    for place, value in missing.items():
        nested: Any = value
        for part in reversed(place):
            nested = {part: nested}
        filled = laid_over(filled, nested)
    return filled, missing


def _places(content: Mapping[str, Any]) -> Iterator[Place]:
    """Yield the places of the values that ``dvc.yaml`` names, in its order."""
    for name, stage in stages_of_dvc().items():
        body, rows = stage.get("do", stage), stage.get("foreach")
        place = tuple(_NAMED.findall(rows)[0].split(".")) if rows else ()
        if rows:
            yield place
        for key in (value_at(content, place) if rows else [""]):
            for text in _texts(body):
                for first, *inner in (named.split(".") for named in _NAMED.findall(text)):
                    if first == "item" and inner:
                        yield (*place, key, *inner)
                    elif first not in ("key", "item"):
                        yield (first, *inner)
            yield from map(tuple, declared_places(content, name, key))


def _texts(body: Mapping[str, Any]) -> Iterator[str]:
    yield body["cmd"]
    for kind in ("deps", "outs", "metrics", "plots"):
        for entry in body.get(kind, ()):
            yield next(iter(entry)) if isinstance(entry, Mapping) else entry


def _has(tree: Any, place: Place) -> bool:
    for part in place:
        if not isinstance(tree, Mapping) or part not in tree:
            return False
        tree = tree[part]
    return True


def load_params(path: Path = PARAMS, complete: bool = False) -> Params:
    """Return the validated params of a file; with ``complete``, it must have all values that DVC reads by name."""
    if not path.exists():
        raise InputError(f"{path}: not found. Run this in the project's folder, or write the file with "
                         f"`keycontrast use sample`.")
    content = read_yaml(path)
    params = parse_params(content, str(path))
    if complete and (missing := [".".join(place) for place in with_what_dvc_reads(content)[1]]):
        more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
        raise InputError(f"{path}: leaves out {', '.join(missing[:4])}{more}, which DVC reads by name. Move it to "
                         f"recipes/{params.recipe}-mine.yaml; `keycontrast use {params.recipe}-mine` writes the rest.")
    return params


def parse_params(content: Any, place: str) -> Params:
    """Return ``content`` as validated params; the error that lists every problem names its origin ``place``."""
    if not isinstance(content, Mapping):
        raise InputError(f"{place}: must hold names and values, found {type(content).__name__}.")
    try:
        return Params.model_validate(content).resolved()
    except ValidationError as error:
        lines = problem_lines(error, model=Params)
        text = "".join(f"\n  {line[:_LONGEST]}" for line in lines)
        raise InputError(f"{place}: {len(lines)} problem{'s' * (len(lines) > 1)}:{text}") from error
