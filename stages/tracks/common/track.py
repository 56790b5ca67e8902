"""The description of a track: its names in params and artifacts, its models, its predictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from stages.common.paths import ModelPaths
from stages.common.schemas import TableSchema
from stages.common.settings import Params

if TYPE_CHECKING:
    import pyarrow as pa

    from stages.params import Params as Validated

# Given texts and their tokens, returns scores or marks aligned with the tokens, in the order of text ids.
Marker = Callable[["pa.Table", "pa.Table"], "pa.ChunkedArray"]


class Finding(Protocol):
    """Applies the stages of a data set to new texts."""

    def annotated(self, dataset: str) -> Callable[["pa.Table"], "pa.Table"]:
        """Return a function that gives the tokens of texts (``text_id``, ``text``), in the language of ``dataset``."""

    def keywords(self, dataset: str, device: str) -> Callable[[Sequence[str]], list[tuple[str, str]]]:
        """Return a function that gives the keyword of each text, and the method that found it."""

    def written(self, dataset: str) -> Mapping[str, str]:
        """Return the usual spelling of words that the training texts of ``dataset`` mostly write with capitals."""

    def marks(self, dataset: str, which: str, device: str) -> Marker:
        """Return the function for ``which``, a value of ``generate_pgkpr.keywords``."""


@dataclass(frozen=True)
class Asked:
    """A request for predictions; None selects the run's setting."""

    params: Params
    run: str    # that predicts
    seed: int   # of its model
    keyword: str | None = None  # takes the place of the texts' own
    samples: int | None = None  # further outputs per text, drawn
    n: int | None = None        # best outputs per text; None for the best alone


@dataclass(frozen=True)
class Track:
    """A track."""

    name: str           # in params, artifacts and stages
    title: str          # as people write it
    schemas: Mapping[str, TableSchema]  # of the files predictions and scores
    classifies: bool = False    # runs name classes, scored by the stage that computes them, and write no texts
    # Given params and a model, the source of the pretrained weights that it starts from; None for none.
    encoder: Callable[["Params | Validated", str], str | None] = lambda params, name: None
    predicts_in: str = "generate"   # module with the class NewTexts
    unread: Mapping[str, str] = field(default_factory=dict)     # options of a prediction without meaning here, and why

    @property
    def trained_by(self) -> str:
        """The stage that trains a model."""
        return f"train_{self.name}"

    @property
    def evaluated_by(self) -> str:
        """The stage that scores a run."""
        return f"evaluate_{self.name}"

    @property
    def computed_by(self) -> str:
        """The stage whose output is the result of a run."""
        return self.evaluated_by if self.classifies else f"generate_{self.name}"

    def models(self, params: "Params | Validated") -> Mapping[str, Any]:
        """Return the models of this track by name."""
        return dict(getattr(params.models, self.name))

    def runs(self, params: "Params | Validated") -> Mapping[str, Any]:
        """Return the runs of this track by name."""
        return dict(getattr(params.runs, self.name))

    def predictor(self, asked: Asked, finding: Finding, device: str) -> Any:
        """Return ``NewTexts`` of module ``predicts_in``, whose code is loaded only here.

        Its method ``lines`` returns a plain dictionary for each text of a list of about ``batch_size`` texts.
        """
        folder = ModelPaths(self.runs(asked.params)[asked.run].model, asked.seed).weights
        module = import_module(f"stages.tracks.{self.name}.{self.predicts_in}")
        return module.NewTexts(asked, folder, finding, device)
