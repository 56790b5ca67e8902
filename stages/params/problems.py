"""What pydantic found wrong, in lines for a person: place, fault, nearest valid name."""

import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from keycontrast.errors import nearest
from stages.ingest.params import KIND_OF_NAME, Ingest
from stages.tracks.clld.params import TrainClld
from stages.tracks.hcl.params import GenerateHcl, TrainHcl
from stages.tracks.pgkpr.params import GeneratePgkpr, TrainPgkpr

# Blocks that data sets, models and runs lay values of their own over.
_LAID_OVER = (Ingest, TrainHcl, GenerateHcl, TrainPgkpr, GeneratePgkpr, TrainClld)
# Characters of a value that a message quotes.
_LONGEST = 80
# Names that were valid once.
_GONE = {"checkpoint_steps": "no longer a setting; take it out. runtime.checkpoint_minutes says how often a training "
                             "is saved.",
         "seed": "now a list; write seeds: [14], or leave it out for the project's.",
         "init_from": "now init: artifacts/models/NAME, or a folder that `keycontrast export` has written.",
         "by_dataset": "gone; one method names the keywords of all data sets of keywords.datasets.",
         "evaluate_hcl": "now called evaluation, because it governs every track; rename the block."}
_GONE_OF_DATASETS = {"side_by_side": "gone; name the data set in side_by_side.datasets.",
                     "keywords": "gone; name the data set in keywords.datasets, or leave it out there."}


def problem_lines(error: ValueError, place: str = "", model: type[BaseModel] | None = None) -> list[str]:
    """Return one line per problem in ``error``: dotted place, what is wrong, nearest valid name."""
    if not isinstance(error, ValidationError):
        return [f"{place}: {error}"]
    model = model or _model_of(error)
    lines = []
    for item in error.errors():
        parts = tuple(part for part in item["loc"] if part not in KIND_OF_NAME)
        where = ".".join([place] * bool(place) + [str(part) for part in parts])
        if item["type"] == "extra_forbidden":
            name = str(parts[-1])
            gone = _GONE | (_GONE_OF_DATASETS if parts[0] == "datasets" else {})
            lines.append(f"{where}: " + (gone.get(name) or
                                         f"unknown name; {nearest(name, _names(model, parts[:-1]))}"))
        elif item["type"] == "missing":
            lines.append(f"{where}: missing.")
        elif item["type"] == "value_error":
            message = str(item["ctx"]["error"])
            lines += message.split("\n") if "\n" in message or not where else [f"{where}: {message}"]
        elif item["type"] == "literal_error":
            names = re.findall(r"'([^']+)'", item["ctx"]["expected"])
            lines.append(f"{where}: no value is called {_shown(item['input'])}; {nearest(str(item['input']), names)}")
        else:
            lines.append(f"{where}: {item['msg']}, found {_shown(item['input'])}.")
    return lines


def _shown(value: Any) -> str:
    """Return a value as a message has it: a seed of forty thousand characters stands there once for each row."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def _model_of(error: ValidationError) -> type[BaseModel] | None:
    """Return the block that was validated, which pydantic names by its class: each track has blocks of its own."""
    return {kind.__name__: kind for kind in _LAID_OVER}.get(error.title)


def _names(model: type[BaseModel] | None, place: tuple[Any, ...]) -> list[str]:
    """Names that are valid at ``place`` inside ``model``; map keys are stepped over."""
    current: Any = model
    for part in place:
        if isinstance(current, type) and issubclass(current, BaseModel) and str(part) in current.model_fields:
            current = current.model_fields[str(part)].annotation
        else:
            current = next(_blocks(current), None)
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


def _blocks(kind: Any) -> Iterator[type[BaseModel]]:
    """Yield the blocks that a list, a mapping or a choice of kinds holds."""
    for part in get_args(kind):
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield part
        else:
            yield from _blocks(part)
