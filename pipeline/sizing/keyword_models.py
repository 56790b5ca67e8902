"""What the models that score keywords cost, and their sizes: pair classifier, word vectors, S-Tagger."""

from typing import Any

from stages.params import Params
from stages.tracks.common import cost
from stages.tracks.common.cost import Cost, Extent, Kind, Work

_CLASSIFIER: dict[Kind, dict[str, Any]] = {
    "few cores": {"max_sources": 1000, "epochs": 2, "batch_size": 32},
    "many cores": {"max_sources": 5000, "epochs": 2, "batch_size": 32}, "GPU": {}, "large GPU": {}}
_S_TAGGER = {"embedding": 64, "hidden": 64, "epochs": 6, "batch_size": 16, "learning_rate": 2e-3}


def _classifier_sizes(params: Params, kind: Kind, extent: Extent) -> dict[str, Any]:
    longest = 3 + 2 * cost.read_length(max(extent.inputs, extent.outputs), cost.PIECES_PER_WORD, kind)
    frozen = cost.frozen_layers(params.encoder.source, kind)
    return {"pair_classifier": {**_CLASSIFIER[kind], "freeze_layers": frozen, "max_length": longest}}


def _classifier_work(params: Params, dataset: str, extent: Extent) -> Work:
    settings = params.pair_classifier
    tokens = min(2 * extent.words * cost.PIECES_PER_WORD + 3, settings.max_length)
    # A source stands with its target, itself and two others.
    items = 4 * min(extent.train, settings.max_sources or extent.train)
    return cost.encoder_work(params.encoder.source, settings, tokens, items)


def _tagger_sizes(params: Params, kind: Kind, extent: Extent) -> dict[str, Any]:
    few = extent.train < cost.FEW_PAIRS
    return {"word_vectors": {"epochs": 40 if few else 10}, **({"s_tagger": _S_TAGGER} if few else {})}


def _tagger_work(params: Params, dataset: str, extent: Extent) -> Work:
    settings = params.s_tagger
    weights = 2 * 4 * settings.hidden * (settings.embedding + settings.hidden * (2 * settings.layers - 1))
    return cost.work_of(6 * extent.words * weights, settings, extent.train, weights,
                        extent.words * cost.KEPT * settings.hidden)


# By the stage that trains them.
COSTS = {
    "pair_classifier": Cost({"few cores": 8.5e10, "many cores": 8.5e10, "GPU": 5e12, "large GPU": 2e13},
                            _classifier_sizes, _classifier_work),
    "s_tagger": Cost({"few cores": 2.5e10, "many cores": 2.5e10, "GPU": 3e12, "large GPU": 1e13}, _tagger_sizes,
                     _tagger_work)}
