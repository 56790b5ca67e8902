"""What training a CLLD classifier costs, text by text, for throughput and MFU.

Counted are the matrix products of the encoder, forward and backward, as :class:`models.training.Seq2SeqCost` counts
them, times the views; classifier, head and contrast are a few per mille.
"""

import numpy as np

from models.clld.config import ClldConfig
from models.training import Seq2SeqCost


def training_flops(config: ClldConfig, lengths: np.ndarray, frozen_layers: int = 0) -> np.ndarray:
    """Return the floating-point operations of a training step on each text (n,).

    Args:
        config: of the model.
        lengths: tokens of each text (n,), special ones included.
        frozen_layers: lowest encoder layers that are not trained.
    """
    if config.architecture == "textcnn":
        sizes = config.textcnn
        each = sum(width * np.maximum(lengths - width + 1, 1) for width in sizes["widths"])
        return config.views * 3 * 2.0 * sizes["embedding"] * sizes["filters"] * each
    values = config.encoder
    inner = values.get("intermediate_size", 4 * values["hidden_size"])
    cost = Seq2SeqCost(values["hidden_size"], inner, values["num_hidden_layers"], 0, 0, frozen_layers)
    return config.views * cost.encoder(lengths)
