"""A trained classifier for other programs: a folder that ``AutoModelForSequenceClassification`` loads."""

from pathlib import Path

import torch
from rich.console import Console
from rich.text import Text
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel

from models.clld import ClldModel, LabelledTexts, export_classifier
from pipeline.cells import printable
from stages.artifacts.paths import ModelPaths
from stages.artifacts.tables import atomic_folder, read_frame
from stages.runtime.errors import InputError
from stages.runtime.settings import Params
from stages.tracks.clld.loaded import LoadedClassifier, load_classifier
from stages.tracks.clld.schemas.trained import LABELLED_ITEMS
from stages.tracks.clld.track import CLLD
from stages.tracks.registry import track_of_model

# Texts of the model that both are given once it is written.
_COMPARED = 64
# Of logits; what pool: cls costs is below half a unit in the last place of a state (models.clld.export).
_CLOSE = 1e-3


def export(params: Params, name: str, folder: Path, console: Console) -> None:
    """Write classifier ``name`` into ``folder``, whole or not at all, and say how near its logits come.

    Args:
        params: in force.
        name: of a model of the CLLD track.
        folder: to be made; one that is there must be empty.
        console: where to print.

    Raises:
        InputError: no such classifier, one that no class of the library can express, a folder with something in it,
            or logits that are not those of the model.
    """
    paths = ModelPaths(_known(params, name))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already. Name a folder that is not, or empty this one.")
    trained = load_classifier(paths.weights)
    with atomic_folder(folder) as unfinished:
        _write(params, name, trained, unfinished)
        gap, texts = _compared(trained, unfinished, paths)
    classes = ", ".join(printable(label) for label in trained.on.classes)
    console.print(Text(f"{folder}: {name} as {_library_class(folder)}, {len(trained.on.classes)} classes ({classes})"),
                  soft_wrap=True)
    console.print(Text(f"On {texts} of its texts the logits differ by at most {gap:.1g}. It reads "
                       f"{trained.on.max_length} tokens of a text:\n"
                       f'  pipeline("text-classification", model="{folder}", truncation=True, top_k=None)'),
                  soft_wrap=True)


def _known(params: Params, name: str) -> str:
    track = track_of_model(params, name)
    if track is not CLLD:
        raise InputError(f"--model: {name} is of the {track.title} track and writes texts; only classifiers of the "
                         f"{CLLD.title} track can be exported. {ModelPaths(name).weights} is in Hugging Face layout as "
                         f"it is.")
    return name


def _write(params: Params, name: str, trained: LoadedClassifier, folder: Path) -> None:
    try:
        export_classifier(trained.model, trained.tokenizer, folder)
    except ValueError as error:
        raise InputError(f"{name}: {_reason(error)} {_remedy(params, name, trained.model)}") from error


def _reason(error: ValueError) -> str:
    """Return what is wrong, without the remedy that is for programmers."""
    return str(error).removeprefix("export: ").partition("; use ClldModel")[0] + "."


def _remedy(params: Params, name: str, model: ClldModel) -> str:
    """Return how it can be used as it is, and which row can be exported, or how to make this one such a row."""
    run = next((run for run, entry in params.runs.clld.items() if entry.model == name), "RUN")
    use = (f"Use it as it is: `keycontrast predict {run} TEXT`, or models.clld.ClldModel.from_pretrained"
           f'("{ModelPaths(name).weights}")')
    others = [other for other in sorted(params.models.clld) if _exportable(params, other)]
    if others:
        return f"{use}. Of this recipe {', '.join(others)} can be exported."
    if model.config.architecture != "textcnn" and model.config.pool == "mean":
        return f"{use}; or train it with train_clld.pool: cls or pooler, and export that."
    return (f"{use}; or give the row an encoder, `keycontrast use {params.recipe} --set "
            f"models.clld.{name}.encoder=bundled`, train it, `keycontrast run train_clld@{name}`, and export that.")


def _exportable(params: Params, name: str) -> bool:
    pool = params.models.clld[name].overrides.get("pool", params.train_clld.pool)
    return CLLD.encoded(params.clld_encoder(name)) and pool != "mean"


def _compared(trained: LoadedClassifier, folder: Path, paths: ModelPaths) -> tuple[float, int]:
    """Return how far the written model's logits are from the trained one's, on so many of its texts.

    Raises:
        InputError: too far.
    """
    texts = read_frame(paths.items, LABELLED_ITEMS)["text"].tolist()[:_COMPARED]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = LabelledTexts.of(tokenizer, texts, [0] * len(texts), trained.on.max_length).batch(range(len(texts)))
    with torch.inference_mode():
        own = trained.model(batch["input_ids"], batch["attention_mask"])
        other = _logits(AutoModelForSequenceClassification.from_pretrained(folder).eval(), batch)
    gap = float((own - other).abs().max())
    if not gap <= _CLOSE * max(1.0, float(own.abs().max())):
        raise InputError(f"{folder.name}: the logits of the exported model differ by {gap:.2g} from those of the "
                         f"trained one, so nothing was written. With pool: cls this happens to an encoder whose states "
                         f"are far above 27; train it with train_clld.pool: pooler.")
    return gap, len(texts)


def _logits(model: PreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"].long()).logits


def _library_class(folder: Path) -> str:
    return type(AutoModelForSequenceClassification.from_pretrained(folder)).__name__
