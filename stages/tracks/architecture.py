"""What a track knows of a kind of model; each lies in a file of its own in the track's room ``architectures``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from stages.tracks.training import Training

Row = TypeVar("Row")


@dataclass(frozen=True)
class Architecture(Generic[Row]):
    """A kind of model.

    Attributes:
        name: as the params have it.
        title: as tables and cards have it.
        prepared: returns the training of a row of the results table.
    """

    name: str
    title: str
    prepared: Callable[[Row], Training[Any]]
