"""The decoder: how z enters it, its layers over a memory of encoder states and slots, and its scores of words."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.common.decoding import BeamCache, Pair
from models.common.transformer import (
    Cache,
    DecoderLayer,
    DecoderStep,
    Heads,
    Visible,
    joined_by_layer,
    joined_groups,
    masking,
)
from models.hcl.config import HclConfig

# Length of W z at the start, where z is noise, in units of what it is added to.
_ADDED = 0.15


class Decoder(nn.Module):
    """A stack of decoder layers between embedded tokens and prediction states, as wide as the encoder."""

    def __init__(self, config: HclConfig) -> None:
        super().__init__()
        width, heads, dropout = config.hidden_size, config.num_attention_heads, config.decoder.dropout
        self.heads = heads
        self.positions = nn.Embedding(int(config.encoder["max_position_embeddings"]), width)
        self.input_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        inner = int(config.encoder["intermediate_size"])
        self.layers = nn.ModuleList(DecoderLayer(width, heads, inner, dropout, F.gelu)
                                    for _ in range(config.num_hidden_layers))
        self.output_norm = nn.LayerNorm(width)
        self.transform = nn.Linear(width, width)
        self.transform_norm = nn.LayerNorm(width)

    def forward(self, embedded: Tensor, memory: Tensor, memory_mask: Tensor, cache: Cache | None = None,
                inputs: Sequence[Tensor] | None = None) -> Tensor:
        """Return the states (B, L, d) from which the next token is predicted.

        Args:
            embedded: token embeddings, with z added if there is one (B, L, d).
            memory: encoder states and further slots (B, S, d).
            memory_mask: True for real slots (B, S), or that as numbers to add (B, 1, 1, S).
            cache: of earlier tokens, extended in place; with a :class:`BeamCache` the L tokens are of as many beams.
            inputs: what is added to the input of each layer (B, 1, d).
        """
        positions, visible = self._places(embedded, cache)
        hidden = self.dropout(self.input_norm(embedded + positions))
        mask = memory_mask if memory_mask.dim() == 4 else masking(memory_mask.bool(), embedded)[:, None, None]
        heads = Heads(self.heads)
        memories = [memory_keys_values(self._stack, memory, heads, cache)]
        step = DecoderStep(heads, self._projections(cache), visible, memories, [mask], self.dropout, cache)
        for number, layer in enumerate(self.layers):
            hidden = layer(hidden if inputs is None else hidden + inputs[number], step, number)
        # as BERT's head for masked words: the embedding matrix, shared with the input, wants states of its own kind
        return self.transform_norm(F.gelu(self.transform(self.output_norm(hidden))))

    @property
    def _stack(self) -> list[DecoderLayer]:
        return [cast(DecoderLayer, layer) for layer in self.layers]

    def _projections(self, cache: Cache | None) -> Sequence[Pair | None]:
        parts = [layer.self_attention.projections for layer in self._stack]
        if isinstance(cache, BeamCache):
            return cache.once(lambda: joined_groups(parts))  # once for all tokens
        return joined_by_layer(parts)

    def _places(self, embedded: Tensor, cache: Cache | None) -> tuple[Tensor, Visible]:
        """Return the embeddings of the tokens' positions, and which keys each token may see."""
        length, device = embedded.shape[1], embedded.device
        if cache is None:
            return self.positions.weight[:length], True
        if isinstance(cache, BeamCache):  # the tokens of all beams stand at one position
            return self.positions.weight[cache.steps], cache.allowed(length, device)
        past = int(cache.get_seq_length())
        numbers = torch.arange(past, past + length, device=device)
        earlier = torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)
        return self.positions(numbers), None if length == 1 else earlier


def memory_keys_values(layers: Sequence[DecoderLayer], memory: Tensor, heads: Heads, cache: Cache | None
                       ) -> list[Pair]:
    """Return the keys and values (B, H, S, d / H) of memory (B, S, d) for each layer, from one product or the cache."""
    attentions = [layer.cross_attention for layer in layers]
    if cache is None:
        (weights,) = joined_groups([[part for attention in attentions for part in (attention.key, attention.value)]])
        parts = heads.split(F.linear(memory, *weights), 2 * len(attentions))
        return list(zip(parts[::2], parts[1::2], strict=True))

    def projected(number: int) -> Pair:
        return (heads.split(attentions[number].key(memory), 1)[0], heads.split(attentions[number].value(memory), 1)[0])

    if isinstance(cache, BeamCache):
        return [cache.memory(number, partial(projected, number)) for number in range(len(layers))]
    for number in range(len(layers)):
        if not cache.is_updated.get(number):
            cache.cross_attention_cache.update(*projected(number), number)
            cache.is_updated[number] = True
    kept: list[Any] = cache.cross_attention_cache.layers
    return [(layer.keys, layer.values) for layer in kept]


def padded_words(embeddings: Tensor, multiple: int) -> Tensor:
    """Return embeddings (V, d) with rows of zeros up to a multiple of ``multiple``, for a GPU's products."""
    missing = -len(embeddings) % multiple
    return F.pad(embeddings, (0, 0, 0, missing)) if missing else embeddings


class TiedOutput(nn.Module):
    """Scores over the vocabulary by the input embedding matrix, handed in at each call, with a bias of their own.

    The matrix may have more rows than there are words; these score -inf, and so have no part in any softmax.
    """

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, states: Tensor, embeddings: Tensor) -> Tensor:
        """Score states (..., d) against embeddings (V, d) -> (..., V)."""
        missing = len(embeddings) - len(self.bias)
        bias = F.pad(self.bias, (0, missing), value=-torch.inf) if missing else self.bias
        return F.linear(states, embeddings, bias)


class LatentEntry(nn.Module):
    """Learned maps of z (B, dz) to the places where the decoder reads it.

    ``memory+embed``: a slot beside the encoder's states, [Wm z ; H_x], and We z added to every input embedding.
    ``layers``: Wl z added to the input of each layer. Slot and embedding exist always, so that models may start from
    each other.
    """

    def __init__(self, config: HclConfig) -> None:
        super().__init__()
        size, width = config.latent.size, config.hidden_size
        self.by_layer, self.layers = config.latent.enters == "layers", config.num_hidden_layers
        self.slot = nn.Linear(size, width)  # Wm
        self.embedding = nn.Linear(size, width, bias=False)  # We
        if self.by_layer:
            self.inputs = nn.Linear(size, self.layers * width, bias=False)  # Wl of all layers, one below the other

    @torch.no_grad()
    def hush(self, words: Tensor) -> None:
        """Scale the maps to the word embeddings ``words`` (V, d), given that z is noise of variance 1.

        Else the image of z is several times as long as a word embedding, and the decoder sees no word.
        """
        maps = [(self.embedding, _ADDED * words.std())]
        if self.by_layer:
            maps.append((self.inputs, torch.tensor(_ADDED)))  # states are normalised to 1
        for layer, length in maps:
            layer.weight.mul_(length / (layer.weight.std() * layer.weight.shape[1] ** 0.5))

    def memory_slots(self, z: Tensor) -> list[Tensor]:
        """Return the slots (B, d) that join the memory."""
        return [] if self.by_layer else [self.slot(z)]

    def embedded(self, embedded: Tensor, z: Tensor) -> Tensor:
        """Return input embeddings (B, L, d) with z in them."""
        return embedded if self.by_layer else embedded + self.embedding(z).unsqueeze(1)

    def layer_inputs(self, z: Tensor) -> Sequence[Tensor] | None:
        """Return what is added to the input of each layer (B, 1, d); None where z enters otherwise."""
        return self.inputs(z).unsqueeze(1).chunk(self.layers, dim=-1) if self.by_layer else None
