"""Transformer decoder over a memory of encoder states and latent slots, with a key/value cache."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import Cache, DecoderLayer, Visible, memory_keys_values, places
from models.bert import Pair, additive_mask, joined, joined_by_layer
from models.decoding.cache import BeamCache
from models.hcl.config import HclConfig


class Decoder(nn.Module):
    """A stack of decoder layers between embedded tokens and prediction states.

    Width, heads and feed-forward width follow the encoder (METHODS A.7).
    """

    def __init__(self, config: HclConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.positions = nn.Embedding(int(config.encoder["max_position_embeddings"]), width)
        self.input_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(config.decoder["dropout"])
        sizes = width, config.num_attention_heads, int(config.encoder["intermediate_size"]), config.decoder["dropout"]
        self.layers = nn.ModuleList(DecoderLayer(*sizes, number) for number in range(config.num_hidden_layers))
        self.output_norm = nn.LayerNorm(width)
        self.transform = nn.Linear(width, width)
        self.transform_norm = nn.LayerNorm(width)

    def forward(
        self,
        embedded: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        cache: Cache | None = None,
        prefixes: Sequence[tuple[Tensor, Tensor]] | None = None,
    ) -> Tensor:
        """Return the states (B, L, d) from which the next token is predicted.

        Args:
            embedded: token embeddings, with z added if there is one (B, L, d).
            memory: encoder states and further slots (B, S, d).
            memory_mask: True for real slots (B, S), or what :func:`additive_mask` makes of that.
            cache: keys and values of earlier tokens, extended in place. With a :class:`BeamCache` the L tokens are
                the next ones of as many beams, all at one position.
            prefixes: a key and a value (B, d) for each layer, which every token may attend to; never cached.
        """
        positions, causal = self._places(embedded, cache)
        hidden = self.dropout(self.input_norm(embedded + positions))
        mask = memory_mask if memory_mask.dim() == 4 else additive_mask(memory_mask.bool(), embedded.dtype)
        if prefixes is not None and causal is not None:
            causal = F.pad(causal if isinstance(causal, Tensor) else _seen(embedded), (1, 0), value=True)
        of_memory = memory_keys_values(self._stack, memory) if cache is None else [memory] * len(self.layers)
        weights = self._joined() if not isinstance(cache, BeamCache) else cache.once(self._kept)
        for number, layer in enumerate(self.layers):
            prefix = prefixes[number] if prefixes is not None else None
            hidden = layer(hidden, causal, of_memory[number], mask, cache, prefix,
                           weights=weights[number])
        # as BERT's head for masked words: the embedding matrix, shared with the input, wants states of its own kind
        return self.transform_norm(F.gelu(self.transform(self.output_norm(hidden))))

    @property
    def _stack(self) -> list[DecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]

    def _joined(self) -> list[Pair | None]:
        return joined_by_layer([layer.self_attention.projections for layer in self._stack])

    def _kept(self) -> list[Pair | None]:
        return [joined(layer.self_attention.projections) for layer in self._stack]  # once for all tokens

    def _places(self, embedded: Tensor, cache: Cache | None) -> tuple[Tensor, Visible]:
        """Return the embeddings of the tokens' positions, and which keys each token may see."""
        if cache is None:
            return self.positions.weight[: embedded.shape[1]], True
        if isinstance(cache, BeamCache):  # the tokens of all beams stand at one position
            return self.positions.weight[cache.steps], cache.allowed(embedded.shape[1], embedded.device)
        numbers, causal = places(embedded, cache)
        return self.positions(numbers), causal


def _seen(embedded: Tensor) -> Tensor:
    length = embedded.shape[1]
    return torch.ones(length, length, dtype=torch.bool, device=embedded.device).tril()
