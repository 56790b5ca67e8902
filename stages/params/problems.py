"""Errors of pydantic as lines for a person: place, fault, nearest valid name."""

import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from keycontrast.errors import nearest
from stages.ingest.params import KIND_OF_NAME, Ingest
from stages.tracks.clld.params import TrainClld
from stages.tracks.hcl.params import GenerateHcl, TrainHcl
from stages.tracks.pgkpr.params import GeneratePgkpr, TrainPgkpr

# Blocks whose values data sets, models and runs may replace.
_LAID_OVER = (Ingest, TrainHcl, GenerateHcl, TrainPgkpr, GeneratePgkpr, TrainClld)


def problem_lines(error: ValueError, place: str = "", model: type[BaseModel] | None = None) -> list[str]:
    """Return a line per problem in ``error``, below ``place``; ``model`` is the block that was validated."""
    if not isinstance(error, ValidationError):
        return [f"{place}: {error}"]
    # Each track has blocks of its own, so the name that pydantic reports is unique.
    model = model or {block.__name__: block for block in _LAID_OVER}.get(error.title)
    lines = []
    for item in error.errors():
        parts = tuple(part for part in item["loc"] if part not in KIND_OF_NAME)
        where = ".".join([place] * bool(place) + [str(part) for part in parts])
        if item["type"] == "extra_forbidden":
            lines.append(f"{where}: unknown name; {nearest(str(parts[-1]), _names(model, parts[:-1]))}")
        elif item["type"] == "missing":
            lines.append(f"{where}: missing.")
        elif item["type"] == "value_error":
            message = str(item["ctx"]["error"])
            lines += message.split("\n") if "\n" in message or not where else [f"{where}: {message}"]
        elif item["type"] == "literal_error":
            names = re.findall(r"'([^']+)'", item["ctx"]["expected"])
            lines.append(f"{where}: no value is called {item['input']!r}; {nearest(str(item['input']), names)}")
        else:
            lines.append(f"{where}: {item['msg']}, found {item['input']!r}.")
    return lines


def _names(model: type[BaseModel] | None, place: tuple[Any, ...]) -> list[str]:
    """Return the names that are valid at ``place`` inside ``model``; keys of mappings are skipped."""
    current: Any = model
    for part in place:
        if isinstance(current, type) and issubclass(current, BaseModel) and str(part) in current.model_fields:
            current = current.model_fields[str(part)].annotation
        else:
            current = next(_blocks(current), None)
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


def _blocks(kind: Any) -> Iterator[type[BaseModel]]:
    """Yield the blocks inside a list, a mapping or a union."""
    for part in get_args(kind):
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield part
        else:
            yield from _blocks(part)
