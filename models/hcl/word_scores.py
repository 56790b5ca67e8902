"""Scores of words by the matrix that embeds them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def padded_words(embeddings: Tensor, multiple: int) -> Tensor:
    """Return embeddings (V, d) with rows of zeros up to a multiple of ``multiple``, for a GPU's products."""
    missing = -len(embeddings) % multiple
    return F.pad(embeddings, (0, 0, 0, missing)) if missing else embeddings


class TiedOutput(nn.Module):
    """Scores over the vocabulary by the input embedding matrix, with a bias of their own.

    The matrix is handed in at each call, so that it is tied by construction: no key to save, load or tie. It may have
    more rows than there are words; these score -inf, and so have no part in any softmax.
    """

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, states: Tensor, embeddings: Tensor) -> Tensor:
        """Score states (..., d) against embeddings (V, d) -> (..., V)."""
        missing = len(embeddings) - len(self.bias)
        bias = F.pad(self.bias, (0, missing), value=-torch.inf) if missing else self.bias
        return F.linear(states, embeddings, bias)
