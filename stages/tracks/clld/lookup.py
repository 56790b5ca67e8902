"""What a saved classifier carries beside its weights, so that it can be used away from its artifacts."""

from dataclasses import dataclass
from pathlib import Path

from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from models.clld import ClldConfig, ClldModel
from stages.common.model_folder import load_origin


@dataclass(frozen=True)
class TrainedOn:
    """Where a model came from, as far as using it depends on that.

    Attributes:
        dataset: name of the data set.
        contrast: of ``models.clld.NAME``; see :mod:`stages.tracks.clld.rows`.
        encoder: ``textcnn``, or the source of the encoder that it started from, as in the params.
        max_length: tokens of a text that are read.
        texts: training texts of each class, in the order of the classes.
    """

    dataset: str
    contrast: str
    encoder: str
    max_length: int
    texts: dict[str, int]

    @property
    def classes(self) -> list[str]:
        """Name of each class, by index."""
        return list(self.texts)


def load_lookup(folder: Path) -> TrainedOn:
    """Return where the model in ``folder`` came from.

    Raises:
        InputError: there is no model in ``folder``, or one of another version.
    """
    return load_origin(folder, TrainedOn, (), "CLLD", ClldConfig)[1]


@dataclass(frozen=True)
class LoadedClassifier:
    """What the folder of a trained classifier holds.

    Attributes:
        model: in evaluation mode, on its device.
        tokenizer: of the model; TextCNN's own vocabulary too is one.
        on: where the model came from: classes, and how many tokens of a text are read.
    """

    model: ClldModel
    tokenizer: PreTrainedTokenizerBase
    on: TrainedOn


def load_classifier(folder: Path, device: str = "cpu") -> LoadedClassifier:
    """Return the classifier that a training has written into ``folder``.

    Raises:
        InputError: there is no model in ``folder``, or one of another version.
    """
    on = load_lookup(folder)
    model = ClldModel.from_pretrained(folder).eval()
    nn.Module.to(model, device)
    return LoadedClassifier(model, AutoTokenizer.from_pretrained(folder), on)
