"""A trained classifier for other programs: a folder that ``AutoModelForSequenceClassification`` loads."""

import json
from pathlib import Path

import torch
from transformers import AutoTokenizer

from keycontrast.errors import InputError
from models.clld.clld import LabelledTexts
from models.clld.export import load_exported, sequence_classifier
from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.tracks.clld.new_texts import classifier_card, load_classifier
from stages.tracks.clld.tables import LABELLED_ITEMS, TEXTCNN, source_of

_COMPARED = 64  # texts that both models are given once the export is written
_CLOSE = 1e-3   # of logits; what pool: cls costs is below half a unit in the last place of a state


def exported(params: Params, paths: ModelPaths, folder: Path, called: Path) -> str:
    """Write a classifier with its card into ``folder``, compare its logits with the model's; return a description."""
    trained = load_classifier(paths.weights)
    try:
        sequence_classifier(trained.model).save_pretrained(folder)
    except ValueError as error:
        raise InputError(f"{paths.name}: {error}. {_remedy(params, paths)}") from error
    trained.tokenizer.save_pretrained(folder)
    other = load_exported(folder)
    texts = read_frame(paths.items, LABELLED_ITEMS)["text"].tolist()[:_COMPARED]
    tokens = LabelledTexts.of(AutoTokenizer.from_pretrained(folder), texts, [0] * len(texts), trained.on.max_length)
    batch = tokens.batch(range(len(texts)))
    with torch.inference_mode():
        own = trained.model(batch["input_ids"], batch["attention_mask"])
        logits = other(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"].long()).logits
    gap = float((own - logits).abs().max())
    if not gap <= _CLOSE * max(1.0, float(own.abs().max())):
        raise InputError(f"{paths.name}: the logits of the exported model differ by {gap:.2g} from those of the "
                         f"trained one, so nothing was written. With pool: cls this happens to an encoder whose states "
                         f"are far above 27; train it with train_clld.pool: mean.")
    classes = trained.on.classes
    # no class of the library is a mean over tokens: the folder brings one, which runs for those who say so
    trusting = ", trust_remote_code=True" if trained.model.config.pool == "mean" else ""
    (folder / "README.md").write_text(classifier_card(
        paths.name, trained.on, trained.model.config, json.loads(paths.metrics.read_text(encoding="utf-8")),
        "`config.json` holds the settings and the names of the classes" + (
            ", `mean_pooled.py` the class that takes the mean over tokens" if trusting else ""),
        '`pipeline("text-classification", ...)` of transformers, as above',
        f'from transformers import pipeline\n\n'
        f'classify = pipeline("text-classification", model="."{trusting}, truncation=True, top_k=None)\n'
        f'print(classify("a text"))'), encoding="utf-8")
    return (f"{paths.name} as {type(other).__name__}, {len(classes)} classes ({', '.join(classes)})\n"
            f"On {len(texts)} of its texts the logits differ by at most {gap:.1g}. It reads {trained.on.max_length} "
            f"tokens of a text:\n"
            f'  pipeline("text-classification", model="{called}"{trusting}, truncation=True, top_k=None)')


def _remedy(params: Params, paths: ModelPaths) -> str:
    """Return how the model can be used as it is, and which row can be exported."""
    use = (f"Use it as it is: `keycontrast predict {paths.name} TEXT`, or models.clld.clld.ClldModel.from_pretrained"
           f'("{paths.weights}")')
    others = [other for other in sorted(params.models.clld) if source_of(params, other) != TEXTCNN]
    if others:
        return f"{use}. Of this recipe {', '.join(others)} can be exported."
    return (f"{use}; or give the row an encoder, `keycontrast use RECIPE --set "
            f"models.clld.{paths.name}.encoder=bundled`, train it, `keycontrast run train_clld@{paths.name}`, and "
            f"export that.")
