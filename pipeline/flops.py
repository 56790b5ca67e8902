"""What the trainings of a recipe have to compute, from their sizes: floating-point operations, passes, memory.

Rough, without loading anything: matrix products alone, texts of mean length. ``models.training.throughput`` counts
what a training really does.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.extent import Extent
from stages.params import Params

_PIECES_PER_WORD = 1.3
# Width, inner width, layers, vocabulary of encoders that are known by name; of others, BERT-base's.
_BUNDLED, _BERT = (384, 1536, 6, 30522), (768, 3072, 12, 30522)
# Bytes of a parameter in training (weight, gradient, two averages of Adam, the best so far), and values of a layer
# kept per token for the backward pass, in widths.
_BYTES, _KEPT = 20, 20
_VIEWS = {"none": 1, "supcl_seq": 4}  # of a text under a contrast of CLLD; two under the others


@dataclass(frozen=True)
class Work:
    """What a training computes: floating-point operations, micro-batches, and GiB beside what any process has."""

    flops: float
    passes: int
    gib: float


@dataclass(frozen=True)
class _Stack:
    """A Transformer of so many layers; ``crossed`` ones attend to a memory too."""

    width: int
    inner: int
    layers: int
    frozen: int = 0
    crossed: bool = False

    @property
    def parameters(self) -> int:
        """Weights of all layers."""
        return self.layers * ((8 if self.crossed else 4) * self.width**2 + 2 * self.width * self.inner)

    def flops(self, tokens: float) -> float:
        """Operations of a forward and backward pass; layers that are frozen have no backward pass."""
        passes = 3 * self.layers - 2 * self.frozen
        return 2 * self.parameters / max(1, self.layers) * passes * tokens


def training_work(params: Params, stage: str, key: str, extent: Extent) -> Work:
    """Return what a training, one of ``train_hcl``, ``train_pgkpr``, ``train_clld``, ``pair_classifier`` or
    ``s_tagger``, computes for model or data set ``key``."""
    return {"train_hcl": _hcl, "train_pgkpr": _pgkpr, "train_clld": _clld, "pair_classifier": _classifier,
            "s_tagger": _tagger}[stage](params, key, extent)


def _hcl(params: Params, key: str, extent: Extent) -> Work:
    settings, (width, inner, layers, words) = params.model(key), _shape(params.encoder.source)
    training, frozen = settings.training, min(settings.training.freeze_layers, layers)
    tokens = min(extent.words * _PIECES_PER_WORD, training.max_source) + 2
    encoder = _Stack(width, inner, layers, frozen)
    decoder = _Stack(width, inner, settings.decoder.layers, crossed=True)
    flops = encoder.flops(3 * tokens) + decoder.flops(tokens) + (4 if frozen else 6) * width * words * tokens
    kept = 3 * tokens * _KEPT * width * layers + tokens * (_KEPT * width * settings.decoder.layers + 3 * words)
    return _work(flops, training, extent.train, encoder.parameters + decoder.parameters + width * words, kept)


def _pgkpr(params: Params, key: str, extent: Extent) -> Work:
    settings = params.model(key)
    both = settings.architecture == "pgkpr" and settings.keywords.by == "attribution" and (
        settings.keywords.train_scores == "both")
    tokens, words = min(extent.words + 1, params.paraphrase_items.max_length), params.paraphrase_items.vocabulary
    if settings.architecture in ("residual_lstm", "latent_bow"):
        cells: Any = getattr(settings, settings.architecture)
        width, weights = cells.width, 2 * cells.layers * 8 * cells.width**2
    else:
        sizes, ianet = settings.sizes, settings.architecture == "ianet"
        above, below = ((2 * settings.ianet.encoder_layers, settings.ianet.decoder_layers) if ianet
                        else (sizes.layers, sizes.layers))
        width = sizes.width
        weights = sum(_Stack(width, sizes.feed_forward, count, crossed=crossed).parameters
                      for count, crossed in ((above, False), (below, True)))
    # PGKPR scores the vocabulary at the encoder too, and encodes the target for its contrast.
    twice = 2 if settings.architecture == "pgkpr" else 1
    flops = 6 * tokens * (weights + twice * width * words)
    return _work(flops, settings.training, extent.train * (2 if both else 1), weights + width * words,
                 tokens * (_KEPT * width * 4 + 3 * twice * words))


def _clld(params: Params, key: str, extent: Extent) -> Work:
    settings, source = params.model(key), params.clld_encoder(key)
    views = _VIEWS.get(params.models.clld[key].contrast, 2)
    tokens = min(extent.words * _PIECES_PER_WORD + 2, settings.max_length)
    if source == "textcnn":
        sizes = settings.textcnn
        filters = sizes.embedding * sizes.filters * sum(sizes.widths)
        return _work(6 * tokens * views * filters, settings.training, extent.train,
                     filters + sizes.embedding * (sizes.vocabulary or 30_000), tokens * views * sizes.filters * 3)
    width, inner, layers, words = _shape(source)
    encoder = _Stack(width, inner, layers, min(settings.training.freeze_layers, layers))
    return _work(encoder.flops(tokens * views), settings.training, extent.train, encoder.parameters + width * words,
                 tokens * views * _KEPT * width * layers)


def _classifier(params: Params, key: str, extent: Extent) -> Work:
    settings, (width, inner, layers, words) = params.pair_classifier, _shape(params.encoder.source)
    encoder = _Stack(width, inner, layers, min(settings.freeze_layers, layers))
    tokens = min(2 * extent.words * _PIECES_PER_WORD + 3, settings.max_length)
    # A source stands with its target, itself and two others.
    items = 4 * min(extent.train, settings.max_sources or extent.train)
    return _work(encoder.flops(tokens), settings, items, encoder.parameters + width * words,
                 tokens * _KEPT * width * layers)


def _tagger(params: Params, key: str, extent: Extent) -> Work:
    settings = params.s_tagger
    weights = 2 * 4 * settings.hidden * (settings.embedding + settings.hidden * (2 * settings.layers - 1))
    return _work(6 * extent.words * weights, settings, extent.train, weights, extent.words * _KEPT * settings.hidden)


def _work(flops: float, training: Any, items: int, parameters: float, kept: float) -> Work:
    """Return the work of a training: ``flops`` and ``kept`` values per item, ``parameters`` in all."""
    micro = min(getattr(training, "micro_batch", training.batch_size), training.batch_size)
    return Work(flops * items * training.epochs, -(-items // micro) * training.epochs,
                (_BYTES * parameters + 4 * micro * kept) / 2**30)


def _shape(source: str) -> tuple[int, int, int, int]:
    """Return width, inner width, layers and vocabulary of an encoder."""
    config = Path(source.removeprefix("path:")) / "config.json"
    if source.startswith("path:") and config.exists():
        found = json.loads(config.read_text(encoding="utf-8"))
        return (int(found["hidden_size"]), int(found["intermediate_size"]), int(found["num_hidden_layers"]),
                int(found["vocab_size"]))
    return _BUNDLED if source in ("bundled", "scratch") else _BERT
