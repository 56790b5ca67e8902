"""What a trained baseline of word pieces notes beside its weights, for whoever uses it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stages.common.model_folder import TRAINED_ON_FILE, load_origin
from stages.tracks.hcl.batches import Keep, Marks


@dataclass(frozen=True)
class PieceOrigin:
    """Where a model came from, as far as using it depends on that.

    Attributes:
        architecture: its name in the params, by which its class is found.
        dataset: name of the data set.
        start: what its weights began from, for people.
        marks: fields of :class:`Marks`.
        max_source: word pieces of an input that are read, marks not counted.
        max_target: word pieces of an output that are learnt, likewise.
        keep: which end of a longer input is read.
    """

    architecture: str
    dataset: str
    start: str
    marks: Mapping[str, Any]
    max_source: int
    max_target: int
    keep: Keep

    def notes(self) -> dict[str, Any]:
        """Return the notes that go with the weights."""
        return {TRAINED_ON_FILE: asdict(self)}

    @classmethod
    def load(cls, folder: Path) -> "PieceOrigin":
        """Return what :meth:`notes` was of.

        Raises:
            InputError: there is no model in ``folder``, or one of another version.
        """
        return load_origin(folder, cls, (), "HCL")[1]

    def own_marks(self) -> Marks:
        """Return the tokens around its texts."""
        return Marks(**self.marks)
