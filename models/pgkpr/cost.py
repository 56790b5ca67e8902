"""What training a rewriter costs, pair by pair, for throughput and MFU.

Counted are matrix products, forward and backward, as :class:`models.common.training.Seq2SeqCost` counts them; padding
is not.
"""

from models.common.training import Seq2SeqCost
from models.pgkpr.config import RewriterConfig


def seq2seq_cost(config: RewriterConfig, encoder_layers: int | None = None,
                 decoder_layers: int | None = None) -> Seq2SeqCost:
    """Return the cost of a Transformer of ``config``, whose layers may be others than ``sizes`` has."""
    sizes = config.sizes
    return Seq2SeqCost(sizes["width"], sizes["feed_forward"], encoder_layers or sizes["layers"],
                       decoder_layers or sizes["layers"], config.vocab_size, transformed=False)


def lstm_flops(width: int) -> float:
    """Return the operations of a layer at one word, forward alone: four gates of input and state."""
    return 2.0 * 4 * width * (2 * width)


def score_flops(width: int, vocabulary: int) -> float:
    """Return the operations of scoring the vocabulary at one place, forward and backward."""
    return 3 * 2.0 * width * vocabulary
