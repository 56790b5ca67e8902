"""A trained classifier, ready for use."""

from dataclasses import dataclass
from pathlib import Path

from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from models.clld import ClldModel
from stages.tracks.clld.lookup import TrainedOn, load_lookup


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
