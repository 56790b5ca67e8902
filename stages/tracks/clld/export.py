"""A trained classifier for other programs: a folder that ``AutoModelForSequenceClassification`` loads."""

from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel

from keycontrast.errors import InputError
from models.clld.clld import LabelledTexts
from models.clld.export import load_exported, sequence_classifier
from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.tracks.clld.classifier import LoadedClassifier, load_classifier
from stages.tracks.clld.schemas import LABELLED_ITEMS
from stages.tracks.clld.track import CLLD

# Texts of the model that both are given once it is written.
_COMPARED = 64
# Of logits; what pool: cls costs is below half a unit in the last place of a state (models.clld.export).
_CLOSE = 1e-3


def exported(params: Params, paths: ModelPaths, folder: Path, called: Path) -> str:
    """Write a classifier, and return what it is, how near its logits come, and how it is used.

    Args:
        params: in force.
        paths: of the model.
        folder: to write into.
        called: what that will be called.

    Raises:
        InputError: one that is not trained or that no class of the library can express, or logits that are not those
            of the model.
    """
    trained = load_classifier(paths.weights)
    try:
        sequence_classifier(trained.model).save_pretrained(folder)
    except ValueError as error:
        raise InputError(f"{paths.name}: {error}. {_remedy(params, paths)}") from error
    trained.tokenizer.save_pretrained(folder)
    other = load_exported(folder)
    gap, texts = _compared(trained, other, folder, paths)
    classes = trained.on.classes
    # no class of the library is a mean over tokens: the folder brings one, which runs for those who say so
    trusting = ", trust_remote_code=True" if trained.model.config.pool == "mean" else ""
    return (f"{paths.name} as {type(other).__name__}, {len(classes)} classes ({', '.join(classes)})\n"
            f"On {texts} of its texts the logits differ by at most {gap:.1g}. It reads {trained.on.max_length} tokens "
            f"of a text:\n"
            f'  pipeline("text-classification", model="{called}"{trusting}, truncation=True, top_k=None)')


def _remedy(params: Params, paths: ModelPaths) -> str:
    """Return how it can be used as it is, and which row can be exported, or how to make this one such a row."""
    name = paths.name
    run = next((run for run, entry in CLLD.runs(params).items() if entry.model == name), "RUN")
    use = (f"Use it as it is: `keycontrast predict {run} TEXT`, or models.clld.clld.ClldModel.from_pretrained"
           f'("{paths.weights}")')
    others = [other for other in sorted(CLLD.models(params)) if CLLD.encoder(params, other) is not None]
    if others:
        return f"{use}. Of this recipe {', '.join(others)} can be exported."
    return (f"{use}; or give the row an encoder, `keycontrast use RECIPE --set "
            f"models.clld.{name}.encoder=bundled`, train it, `keycontrast run train_clld@{name}`, and export that.")


def _compared(trained: LoadedClassifier, other: PreTrainedModel, folder: Path, paths: ModelPaths) -> tuple[float, int]:
    """Return how far the written model's logits are from the trained one's, on so many of its texts.

    Raises:
        InputError: too far.
    """
    texts = read_frame(paths.items, LABELLED_ITEMS)["text"].tolist()[:_COMPARED]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = LabelledTexts.of(tokenizer, texts, [0] * len(texts), trained.on.max_length).batch(range(len(texts)))
    with torch.inference_mode():
        own = trained.model(batch["input_ids"], batch["attention_mask"])
        gap = float((own - _logits(other, batch)).abs().max())
    if not gap <= _CLOSE * max(1.0, float(own.abs().max())):
        raise InputError(f"{paths.name}: the logits of the exported model differ by {gap:.2g} from those of the "
                         f"trained one, so nothing was written. With pool: cls this happens to an encoder whose states "
                         f"are far above 27; train it with train_clld.pool: mean.")
    return gap, len(texts)


def _logits(model: PreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"].long()).logits
