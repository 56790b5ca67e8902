"""What a training begins with where that is not weights drawn anew: another model, or a folder from elsewhere."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages.common.paths import ModelPaths
from stages.common.settings import NOTHING, Params, earlier_model


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


def start_of(row: Any, params: Params, name: str, seed: int) -> Start | None:
    """Return what entry ``init`` of model ``name`` means under ``seed``; None for weights drawn anew.

    Args:
        row: the model's entry in the params.
        params: in force.
        name: of the model that is to be trained.
        seed: that it is trained with.
    """
    if (other := earlier_model(row)) is not None:
        return ModelPaths(other, params.earlier_seed(name, seed))
    return None if row.init == NOTHING else GivenStart(Path(row.init))
