"""What a training begins with where that is not weights drawn anew: another model, or a folder from elsewhere."""

from dataclasses import dataclass
from pathlib import Path

from stages.common.paths import ModelPaths
from stages.common.settings import GIVEN, Params


@dataclass(frozen=True)
class GivenStart:
    """A folder that ``keycontrast export FOLDER --model NAME`` has written.

    Attributes:
        folder: relative to the project's.
    """

    folder: Path

    @property
    def name(self) -> str:
        """As cards and metadata have it."""
        return self.folder.as_posix()


Start = ModelPaths | GivenStart


def start_of(named: str | None, params: Params, name: str, seed: int) -> Start | None:
    """Return what ``init_from`` of model ``name`` means under ``seed``; None for null.

    Args:
        named: ``init_from``: a model of the same track, or ``path:`` and a folder.
        params: in force.
        name: of the model that is to be trained.
        seed: that it is trained with.
    """
    if named is None:
        return None
    if named.startswith(GIVEN):
        return GivenStart(Path(named.removeprefix(GIVEN)))
    return ModelPaths(named, params.earlier_seed(name, seed))
