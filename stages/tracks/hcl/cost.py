"""What trainings of the HCL track cost, and sizes that fit a machine."""

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from stages.tracks.common import cost
from stages.tracks.common.cost import Cost, Extent, Kind, Work
from stages.tracks.pgkpr.cost import words_work

if TYPE_CHECKING:
    from stages.params import Params

# On one core the sample's HCL trains on 30 items a second (records of recipe `sample`).
BUDGET = cost.Budget({"few cores": 12_000, "many cores": 60_000}, epochs=30, batch=(16, 256))
# The sizes that no data set decides; left out is the paper's.
_SIZES: dict[Kind, dict[str, Any]] = {
    "few cores": {"decoder": {"layers": 2}, "training": {"learning_rate": 1e-3}},
    "many cores": {"decoder": {"layers": 4}, "training": {"learning_rate": 5e-4}}, "GPU": {}, "large GPU": {}}

_GPT2 = SimpleNamespace(layers=12, width=768, feed_forward=3072), 50_257
_T5 = SimpleNamespace(layers=6, width=512, feed_forward=2048), 32_128
# What pretrained models are taken for: the small ones, as the paper does.
_PUBLISHED = {"dialogpt": _GPT2, "simctg": _GPT2, "t5": _T5, "t5_claps": _T5}


def _sizes(params: "Params", kind: Kind, extent: Extent) -> dict[str, Any]:
    inputs, outputs = (cost.read_length(words, cost.PIECES_PER_WORD, kind) for words in (extent.inputs, extent.outputs))
    training = {**_SIZES[kind].get("training", {}), **BUDGET.training(kind, extent),
                "freeze_layers": cost.frozen_layers(params.encoder.source, kind), "max_source": inputs,
                "max_target": outputs}
    return {"train_hcl": {**_SIZES[kind], "training": training}, "generate_hcl": {"max_length": outputs}}


def _passes(own: Any) -> float:
    """Return how often a pair is read, in units of a training pass, for a block that may draw further pairs to it."""
    draws = getattr(own, "sample_k", 0)
    # each draw is read by the model and, forward alone, by its reference
    return 1.0 if not draws else own.pretrain_share + (1 - own.pretrain_share) * (1 + draws) * 4 / 3


def _work(params: "Params", name: str, extent: Extent) -> Work:
    settings = params.model(name)
    training = settings.training
    width, inner, layers, words = cost.shape(params.encoder.source)
    tokens = min(extent.words * cost.PIECES_PER_WORD, training.max_source) + 2
    if settings.architecture != "hcl":  # whose sizes are in a block of its own
        own = getattr(settings, settings.architecture)
        # a model that begins with the encoder is taken for a Transformer of its shape
        sizes = own if hasattr(own, "width") else SimpleNamespace(width=width, feed_forward=inner, layers=layers)
        if getattr(own, "source", None):
            sizes, words = _PUBLISHED[settings.architecture]
        work = words_work(settings.architecture, sizes, sizes, training, tokens, words, extent.train)
        return replace(work, flops=work.flops * _passes(own))
    frozen = min(training.freeze_layers, layers)
    encoder = cost.Stack(width, inner, layers, frozen)
    decoder = cost.Stack(width, inner, settings.decoder.layers, crossed=True)
    flops = encoder.flops(3 * tokens) + decoder.flops(tokens) + (4 if frozen else 6) * width * words * tokens
    kept = 3 * tokens * cost.KEPT * width * layers + tokens * (cost.KEPT * width * settings.decoder.layers + 3 * words)
    return cost.work_of(flops, training, extent.train, encoder.parameters + decoder.parameters + width * words, kept)


COST = Cost({"few cores": 8.5e10, "many cores": 8.5e10, "GPU": 5e12, "large GPU": 2e13}, _sizes, _work)
