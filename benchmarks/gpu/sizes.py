"""How large models and batches are: the papers', small ones for a processor, and tiny ones for tests."""

from dataclasses import dataclass, field
from typing import Any

TRACKS = ("hcl", "pgkpr", "clld")
PRECISIONS = ("fp32", "bf16")


@dataclass(frozen=True)
class Sizes:
    """Sizes of all three tracks.

    Attributes:
        name: of this set.
        encoder: of the BERT that HCL and CLLD start from, where no encoder is given.
        decoder_layers: of HCL.
        nodes: of HCL's keyword graph.
        rewriter: of PGKPR's Transformer.
        words: of PGKPR's vocabulary.
        longest: tokens of a text that CLLD reads at most.
        batch: items of an optimiser step, and of a forward pass, by track.
        steps: most optimiser steps of a training; fewer where the time does not allow it.
        decoded: texts of a batch that is generated or classified.
        compared: items on which losses, gradients and outputs are compared with the CPU.
    """

    name: str
    encoder: dict[str, Any]
    decoder_layers: int
    nodes: int
    rewriter: dict[str, Any]
    words: int
    longest: int
    batch: dict[str, tuple[int, int]]
    steps: int
    decoded: int
    compared: int

    def __str__(self) -> str:
        bert, rewriter = self.encoder, self.rewriter
        return (f"HCL and CLLD over a BERT of {bert['num_hidden_layers']} layers {bert['hidden_size']} wide, HCL's "
                f"decoder of {self.decoder_layers} and graph of {self.nodes:,} keywords; PGKPR of "
                f"{rewriter['layers']}+{rewriter['layers']} layers {rewriter['width']} wide with {self.words:,} words")


def _bert(width: int, layers: int, heads: int, words: int = 30_522) -> dict[str, Any]:
    return {"vocab_size": words, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
            "intermediate_size": 4 * width}


def _rewriter(width: int, layers: int, heads: int) -> dict[str, Any]:
    return {"layers": layers, "heads": heads, "width": width, "feed_forward": 4 * width}


SIZES = {sizes.name: sizes for sizes in (
    Sizes("paper", _bert(768, 12, 12), 6, 8000, _rewriter(512, 6, 8), 8000, 128,
          {"hcl": (256, 64), "pgkpr": (128, 128), "clld": (128, 128)}, 300, 128, 16),
    Sizes("small", _bert(384, 6, 12), 2, 2000, _rewriter(256, 2, 4), 8000, 128,
          {"hcl": (32, 16), "pgkpr": (64, 64), "clld": (32, 32)}, 40, 32, 8),
    Sizes("tiny", _bert(32, 1, 2, 300), 1, 40, _rewriter(16, 1, 2), 60, 16,
          {"hcl": (8, 4), "pgkpr": (8, 8), "clld": (8, 8)}, 8, 4, 4))}


@dataclass(frozen=True)
class Job:
    """What a part is asked for; plain values, so that it reaches another process.

    Attributes:
        track: ``hcl``, ``pgkpr`` or ``clld``.
        precision: ``fp32`` or ``bf16``.
        device: ``cuda`` or ``cpu``.
        sizes: name in :data:`SIZES`.
        encoder: folder of an encoder to start from, as ``save_pretrained`` writes it; None for random weights.
        seconds: that the part should take.
        steps: of a training; None for as many as fit into ``seconds``.
        folder: for checkpoints; removed in the end.
        settings: of the model, beside the defaults of its track.
        more: what the part alone knows.
    """

    track: str
    precision: str
    device: str
    sizes: str = "paper"
    encoder: str | None = None
    seconds: float = 30.0
    steps: int | None = None
    folder: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> Sizes:
        """The sizes by that name."""
        return SIZES[self.sizes]

    @property
    def batch(self) -> tuple[int, int]:
        """Items of an optimiser step, and of a forward pass."""
        return self.size.batch[self.track]
