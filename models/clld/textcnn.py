"""TextCNN (Kim 2014): convolutions over word embeddings, the maximum over time of each filter."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PAD, UNKNOWN = 0, 1


class TextCnn(nn.Module):
    """Encoder of texts as (B, filters of all widths) features.

    A filter of width w reads every run of w words of a text, ReLU and the maximum over runs give its feature; a text
    of fewer than w words is continued by zero vectors to one run. Padding has no part in any feature.

    Args:
        vocabulary: ids, padding (0) and the unknown word (1) among them.
        embedding: width of a word's embedding.
        widths: words that filters span.
        filters: of each width.
        embedding_dropout: so that two views of a text differ (CLLD needs them to; METHODS D.4, ours). The dropout of
            the original, on the features, belongs to the classifier.
    """

    def __init__(self, vocabulary: int, embedding: int = 300, widths: Sequence[int] = (3, 4, 5), filters: int = 100,
                 embedding_dropout: float = 0.1) -> None:
        super().__init__()
        self.widths, self.filters = tuple(widths), filters
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=PAD)
        self.dropout = nn.Dropout(embedding_dropout)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedding, filters, width) for width in self.widths)

    @property
    def features(self) -> int:
        """Width of the result."""
        return self.filters * len(self.widths)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the features (B, features) of word ids (B, L), padded at the right.

        Args:
            input_ids: words.
            attention_mask: True or 1 for words (B, L).
        """
        lengths = attention_mask.sum(1)  # (B,)
        ids = input_ids.masked_fill(attention_mask == 0, PAD)
        ids = F.pad(ids, (0, max(0, max(self.widths) - ids.shape[1])), value=PAD)
        words = self.dropout(self.embedding(ids)).transpose(1, 2)  # (B, embedding, L), zeros at padding
        return torch.cat([self._strongest(convolution(words), lengths, width)
                          for convolution, width in zip(self.convolutions, self.widths, strict=True)], dim=-1)

    def _strongest(self, scores: Tensor, lengths: Tensor, width: int) -> Tensor:
        """Maximum over the runs that begin within a text (B, filters) of filter scores (B, filters, runs)."""
        runs = (lengths - width + 1).clamp(min=1)  # (B,)
        beyond = torch.arange(scores.shape[-1], device=scores.device) >= runs.unsqueeze(1)  # (B, runs)
        # ReLU is never below 0, so a run that does not count may stand as 0
        return F.relu(scores).masked_fill(beyond.unsqueeze(1), 0.0).amax(-1)
