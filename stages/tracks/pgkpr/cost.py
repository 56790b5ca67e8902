"""What training a rewriter costs, pair by pair, for throughput and MFU.

Counted are matrix products, forward and backward, as :class:`models.training.Seq2SeqCost` counts them; padding is not.
"""

from collections.abc import Callable

import numpy as np

from models.rewriters.config import RewriterConfig
from models.training import Seq2SeqCost
from stages.tracks.pgkpr.batches import PairBatches


def training_flops(config: RewriterConfig, batches: PairBatches) -> np.ndarray:
    """Return the floating-point operations of training on each item of ``batches`` (n,)."""
    return _COSTS[config.architecture](config, batches)


def _transformer(config: RewriterConfig, batches: PairBatches) -> np.ndarray:
    cost, x, t = _seq2seq(config), batches.words["x"], batches.words["t"]
    return cost.encoder(x) + cost.decoder(t + 1, x)


def _pgkpr(config: RewriterConfig, batches: PairBatches) -> np.ndarray:
    """A pair sequence has 2l + 3 tokens; the contrast reads further ones, unperturbed."""
    cost, d = _seq2seq(config), config.sizes["width"]
    x, t = (2 * batches.words[side] + 3 for side in ("x", "t"))
    flops = cost.encoder(x) + cost.decoder(batches.words["t"] + 1, x)
    if config.reconstruction["weight"] > 0:
        flops = flops + 3 * 2.0 * d * d * x + cost.scores(x)
    if config.contrast["weight"] > 0:
        flops = flops + cost.encoder(t) + (cost.encoder(x) if config.contrast["neg"] == "all" else 0.0)
    return flops


def _ianet(config: RewriterConfig, batches: PairBatches) -> np.ndarray:
    layers, t = config.ianet, batches.words["t"] + 1
    cost = _seq2seq(config, layers["encoder_layers"], layers["decoder_layers"])
    primary, secondary = _collapsed_lengths(batches)
    second_memory = 3 * layers["decoder_layers"] * cost.attention(t, secondary)
    return cost.encoder(primary) + cost.encoder(secondary) + cost.decoder(t, primary) + second_memory


def _collapsed_lengths(batches: PairBatches) -> tuple[np.ndarray, np.ndarray]:
    """Return how long the primary and the secondary sequence of each item are, one token for a run of the others."""
    primary = batches.keywords.numpy() > 0.5  # (n, L)
    real = np.arange(primary.shape[1])[None, :] < batches.words["x"][:, None]
    lengths = []
    for kept in (primary & real, ~primary & real):
        others = real & ~kept
        starts = others & ~np.pad(others, ((0, 0), (1, 0)))[:, :-1]
        lengths.append((kept | starts).sum(axis=1))
    return lengths[0], lengths[1]


def _residual_lstm(config: RewriterConfig, batches: PairBatches) -> np.ndarray:
    sizes, x, t = config.residual_lstm, batches.words["x"], batches.words["t"] + 1
    d = sizes["width"]
    attending = 4.0 * d * t * x + 4.0 * d * d * t if sizes["attention"] else 0.0
    return 3 * (sizes["layers"] * _lstm(d) * (x + t) + attending) + _scores(d, config.vocab_size) * t


def _latent_bow(config: RewriterConfig, batches: PairBatches) -> np.ndarray:
    """Every source word has its softmaxes; a step of decoding looks up memory and source and joins the two."""
    sizes, x, t = config.latent_bow, batches.words["x"], batches.words["t"] + 1
    d = sizes["width"]
    bags = sizes["bags"] * (3 * 2.0 * d * d + _scores(d, config.vocab_size)) * x
    attending = (4.0 * d * (sizes["memory"] + x) + 2 * 2.0 * d * d + 4.0 * d * d) * t
    return 3 * (sizes["layers"] * _lstm(d) * (x + t) + attending) + bags + _scores(d, config.vocab_size) * t


def _seq2seq(config: RewriterConfig, encoder_layers: int | None = None,
             decoder_layers: int | None = None) -> Seq2SeqCost:
    sizes = config.sizes
    return Seq2SeqCost(sizes["width"], sizes["feed_forward"], encoder_layers or sizes["layers"],
                       decoder_layers or sizes["layers"], config.vocab_size, transformed=False)


def _lstm(width: int) -> float:
    """Operations of a layer at one word, forward alone: four gates of input and state."""
    return 2.0 * 4 * width * (2 * width)


def _scores(width: int, vocabulary: int) -> float:
    """Operations of scoring the vocabulary at one place, forward and backward."""
    return 3 * 2.0 * width * vocabulary


_COSTS: dict[str, Callable[[RewriterConfig, PairBatches], np.ndarray]] = {
    "pgkpr": _pgkpr, "transformer": _transformer, "residual_lstm": _residual_lstm, "latent_bow": _latent_bow,
    "ianet": _ianet}
