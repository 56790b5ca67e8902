"""Classifying new texts with a run of the CLLD track: the class, its probability, and that of every class."""

from collections.abc import Iterable, Iterator
from typing import Any

from stages.artifacts.paths import ModelPaths
from stages.params import Params
from stages.runtime.precision import computing
from stages.runtime.seeds import seed_everything
from stages.tracks.clld.inference import class_probabilities
from stages.tracks.clld.loaded import load_classifier


def classified(params: Params, run: str, batches: Iterable[list[str]]) -> Iterator[dict[str, Any]]:
    """Yield one plain dictionary per text: ``text``, ``label``, ``probability`` and ``probabilities`` by class.

    Of equal probabilities the class that is first in the order of names is the label, as in the artifacts.

    Args:
        params: in force.
        run: a run of the CLLD track.
        batches: texts that are classified together.

    Raises:
        InputError: the model is not trained yet, or is of another version.
    """
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    with computing(params.runtime) as device:
        trained = load_classifier(ModelPaths(params.runs.clld[run].model).weights, device)
    classes = trained.on.classes
    for texts in batches:
        with computing(params.runtime):  # left before each yield, for what the caller computes in between
            found = class_probabilities(trained.model, trained.tokenizer, texts, trained.on.max_length, len(texts))
        for text, row, best in zip(texts, found.tolist(), found.argmax(1).tolist(), strict=True):
            yield {"text": text, "label": classes[best], "probability": row[best],
                   "probabilities": dict(zip(classes, row, strict=True))}
