"""How fast a training goes: items and tokens per second, and the share of the device's peak that it uses.

Nothing here enters an artifact: durations differ from run to run.
"""

import time
from dataclasses import dataclass, field
from functools import cache
from statistics import median
from typing import Any

import numpy as np
import torch

_RECENT = 500  # steps whose durations are kept, for their median


@dataclass(frozen=True)
class Work:
    """What some items cost: real tokens, and floating-point operations (a multiplication and an addition are two)."""

    tokens: int
    flops: float


@dataclass
class Speed:
    """What the optimiser steps of a training took, added up over the runs that it was resumed in.

    Attributes:
        steps: optimiser steps; those that a kill undid are not among them.
        items: training items.
        tokens: real tokens.
        flops: floating-point operations of the model (see :class:`Seq2SeqCost` for what is counted).
        seconds: of all steps, waiting for data included, validation and checkpoints not.
        recent: seconds of each of the last 500 steps.
        checkpoints: states that were saved.
        checkpoint_seconds: what saving them took; of a state that a training was resumed from, this is not known.
    """

    steps: int = 0
    items: int = 0
    tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    recent: list[float] = field(default_factory=list)
    checkpoints: int = 0
    checkpoint_seconds: float = 0.0

    def add(self, items: int, seconds: float, work: Work | None) -> None:
        """Count one optimiser step."""
        self.steps, self.items, self.seconds = self.steps + 1, self.items + items, self.seconds + seconds
        self.recent = [*self.recent[1 - _RECENT:], seconds]
        if work is not None:
            self.tokens, self.flops = self.tokens + work.tokens, self.flops + work.flops

    def add_checkpoint(self, seconds: float) -> None:
        """Count one saved state."""
        self.checkpoints, self.checkpoint_seconds = self.checkpoints + 1, self.checkpoint_seconds + seconds

    def summary(self, peak: float | None = None) -> dict[str, Any]:
        """Return the figures of a record; rates are over steps and checkpoints together.

        Args:
            peak: floating-point operations per second that the device can do, all processes together
                (:func:`measured_peak`); None leaves out ``mfu``, the share of them that the model uses.
        """
        if not self.steps:
            return {}
        whole = self.seconds + self.checkpoint_seconds
        found: dict[str, Any] = {
            "steps": self.steps, "items_per_second": self.items / whole,
            "seconds_per_step_median": median(self.recent), "checkpoints": self.checkpoints,
            "checkpoint_seconds": self.checkpoint_seconds}
        if self.tokens:
            found |= {"tokens_per_second": self.tokens / whole, "flops_per_step": self.flops / self.steps}
        if self.flops and peak:
            found |= {"peak_flops_per_second": peak, "mfu": self.flops / whole / peak}
        return found


@dataclass(frozen=True)
class Seq2SeqCost:
    """Floating-point operations of training an encoder-decoder on an item: forward and backward matrix products.

    Counted are the projections, the two products of attention and the feed-forward networks of encoder and
    decoder, and the scores over the vocabulary; a product of (a, b) by (b, c) is 2abc. The backward pass takes
    two products for each one forward: one for the inputs, one for the weights. Not counted: embeddings, norms,
    softmax, dropout, latent networks, keyword graph and optimiser, a few percent in all at the usual widths.
    Attention is counted in full, causal or not, as kernels compute it. Of layers and embeddings that are frozen,
    what needs no gradient is left out.

    All lengths are arrays of real tokens, special ones included, and so are the results.

    Attributes:
        width: d.
        feed_forward: inner width of the feed-forward networks.
        encoder_layers: layers of the encoder.
        decoder_layers: layers of the decoder, each with attention to itself and to the memory.
        vocabulary: V.
        frozen_layers: lowest encoder layers that are not trained.
        embeddings_frozen: the word embeddings, which also score the output, are not trained.
        transformed: a map of width d stands between the decoder and the scores.
    """

    width: int
    feed_forward: int
    encoder_layers: int
    decoder_layers: int
    vocabulary: int
    frozen_layers: int = 0
    embeddings_frozen: bool = False
    transformed: bool = True

    def encoder(self, lengths: np.ndarray) -> np.ndarray:
        """Operations of encoding texts of these lengths."""
        passes = self.frozen_layers + 3 * (self.encoder_layers - self.frozen_layers)
        return passes * (self.attention(lengths, lengths) + self._feed_forward(lengths))

    def decoder(self, lengths: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Operations of decoding targets of these lengths with memories of so many slots, scores included."""
        layer = self.attention(lengths, lengths) + self.attention(lengths, memory) + self._feed_forward(lengths)
        head = self._product(lengths, self.width) if self.transformed else 0.0
        return 3 * (self.decoder_layers * layer + head) + self.scores(lengths)

    def scores(self, lengths: np.ndarray) -> np.ndarray:
        """Operations of scoring the vocabulary at so many places."""
        return (2 if self.embeddings_frozen else 3) * self._product(lengths, self.vocabulary)

    def attention(self, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Operations of one attention of so many queries to so many keys, forward alone."""
        own, others = self._product(queries, self.width), self._product(keys, self.width)
        return 2.0 * own + 2.0 * others + 4.0 * self.width * queries * keys

    def _feed_forward(self, lengths: np.ndarray) -> np.ndarray:
        return 2.0 * self._product(lengths, self.feed_forward)

    def _product(self, lengths: np.ndarray, outputs: int) -> np.ndarray:
        """Operations of mapping so many vectors of width d to vectors of width ``outputs``."""
        return 2.0 * self.width * outputs * lengths


def measured_peak(device: str, precision: str = "fp32", seconds: float = 0.3) -> float:
    """Return the floating-point operations per second of a large square matrix product, the best of several.

    It stands for the peak of a device whose nominal peak is not known, with the threads that torch now has, and is
    measured once per process.

    Args:
        device: ``cpu``, ``cuda`` or ``cuda:0``.
        precision: ``fp32`` or ``bf16``.
        seconds: how long to try.
    """
    return _measured_peak(device, precision, seconds, torch.get_num_threads())


@cache
def _measured_peak(device: str, precision: str, seconds: float, _threads: int) -> float:
    size = 1024 if torch.device(device).type == "cpu" else 8192
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    left, right = (torch.ones(size, size, dtype=kind, device=device) for _ in range(2))
    best, ends = float("inf"), time.perf_counter() + seconds
    _product(left, right)
    while best == float("inf") or time.perf_counter() < ends:
        started = time.perf_counter()
        _product(left, right)
        best = min(best, time.perf_counter() - started)
    return 2.0 * size**3 / best


def _product(left: torch.Tensor, right: torch.Tensor) -> None:
    (left @ right)[0, 0].item()  # reading a number waits for the device
