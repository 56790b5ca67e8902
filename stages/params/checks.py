"""What the blocks of a track must have in common, which no block sees by itself, and what is filled in for DVC."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stages.common.settings import GIVEN
from stages.run.errors import nearest

if TYPE_CHECKING:
    from stages.params.root import Params

# Of entry `init_from` of a model.
BEGINNING = ("model whose weights this one starts from, where both have them; path:<folder>: a start that `keycontrast "
             "export FOLDER --model NAME` has written")

@dataclass(frozen=True)
class Earlier:
    """How a model names another one that is trained before.

    Attributes:
        named: entry that names it.
        watched: entry that says what DVC watches for it.
        place: that, ``{model}`` standing for the name.
        nothing: what is watched for a model that names none: a file that always exists.
    """

    named: str
    watched: str
    place: str
    nothing: str


@dataclass(frozen=True)
class TrackChecks:
    """What is looked for in the params of a track; each fault would stop a stage hours after others have run.

    Attributes:
        labelled: its models are of labelled texts, and not of pairs.
        earlier: how a model names one that is trained before.
        track: returns what is wrong with the track as a whole.
        model: likewise with a model, given its name, its entry and its settings.
        run: likewise with a run, given its name, its entry, its decoding and the settings of its model.
    """

    labelled: bool = False
    earlier: Earlier | None = None
    track: Callable[["Params"], list[str]] = lambda params: []
    model: Callable[[str, Any, Any], list[str]] = lambda name, model, settings: []
    run: Callable[[str, Any, Any, Any], list[str]] = lambda name, run, decoding, settings: []


def beginnings(track: str, models: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the models that others of a track start from: unknown, or going in circles.

    Args:
        track: its name.
        models: its models by name, with ``init_from``.
    """
    named = {name: model.init_from for name, model in models.items()
             if model.init_from is not None and not model.init_from.startswith(GIVEN)}
    problems = [f"models.{track}.{name}.init_from: no model {other!r}; {nearest(other, models)}"
                for name, other in named.items() if other not in models]
    for name in models:
        seen: set[str] = set()
        start = named.get(name)
        while start in named and start not in seen:
            seen.add(start)
            start = named[start]
        if name in seen or start == name:
            problems.append(f"models.{track}.{name}.init_from: the model would start from itself, by way of "
                            f"{named[name]}; take one of them out of the circle")
    return problems


def with_watched(track: str, models: Mapping[str, Any], earlier: Earlier | None) -> dict[str, Any]:
    """Return ``models`` of a track as read, with what DVC watches for models that are trained before.

    Raises:
        ValueError: a value that was given is another one.
    """
    filled = dict(models)
    if earlier is None:
        return filled
    for name, model in models.items():
        if not isinstance(model, Mapping):
            return dict(models)
        other = model.get(earlier.named)
        watched = earlier.nothing if other is None else earlier.place.format(model=other)
        if isinstance(other, str) and other.startswith(GIVEN):
            watched = other.removeprefix(GIVEN)
        given = model.get(earlier.watched, watched)
        if given != watched:
            raise ValueError(f"models.{track}.{name}.{earlier.watched}: is {given!r}, and {earlier.named} asks for "
                             f"{watched!r}; write that, or leave it out and `keycontrast use` fills it in")
        filled[name] = {**model, earlier.watched: watched}
    return filled
