"""Transformers with pre-norm layers (Vaswani et al. 2017), and a pass through BERT of few operations.

Projections of several layers are joined into one product, and padding has no rows (:class:`RealTokens`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertModel
from transformers.models.bert.modeling_bert import BertLayer

from models.common.decoding import BeamCache, Pair
from models.common.losses import at_least_float32

Pooling = Literal["mean", "cls"]
Projection = tuple[Tensor, Tensor]  # weight and bias, as F.linear takes them
# Mask of attention: booleans, or numbers that are added to products; True: later tokens are hidden; None: no mask
Visible = Tensor | bool | None
Noise = Sequence[Tensor | None]
_TABLE = 256  # positions in a table at first
ALIGNED = 64  # a vocabulary of a multiple of this size is multiplied faster by matrix units of accelerators


# Real tokens of a padded batch as rows


class RealTokens:
    """Converts between a padded batch (B, L, ...) and a row per token (M, ...), so that padding costs nothing.

    If there is any padding, one last row represents all of it: both directions are gathers, forward and backward, with
    the same bits on every device. No loss may read that row. ``real`` (B, L) is True for tokens; ``index`` (M,) are the
    places of the rows in the flat batch, ascending, then one of padding; ``inverse`` (B L,) is the row of each place.
    """

    def __init__(self, real: Tensor, index: Tensor | None = None, inverse: Tensor | None = None) -> None:
        self.real = real
        if index is None or inverse is None:
            flat = real.flatten()
            places, padding = flat.nonzero().squeeze(-1), (~flat).nonzero().squeeze(-1)
            index, inverse = torch.cat([places, padding[:1]]), torch.where(flat, flat.cumsum(0) - 1, len(places))
        self.index, self.inverse = index, inverse

    @classmethod
    def stacked(cls, parts: Sequence[Self]) -> Self:
        """Return the tokens of several batches of one length as those of one batch, with the rows of the parts."""
        index, inverse, places, rows = [], [], 0, 0
        for part in parts:
            index.append(part.index + places)
            inverse.append(part.inverse + rows)
            places, rows = places + len(part.inverse), rows + len(part.index)
        return cls(torch.cat([part.real for part in parts]), torch.cat(index), torch.cat(inverse))

    def rows(self, padded: Tensor) -> Tensor:
        """Return the rows (M, ...) of ``padded`` (B, L, ...)."""
        return gathered(padded.flatten(0, 1), self.index, self.inverse)

    def padded(self, rows: Tensor) -> Tensor:
        """Return (B, L, ...) with ``rows`` (M, ...) at their places, and the last of them at padding."""
        return gathered(rows, self.inverse, self.index).unflatten(0, self.real.shape)

    @cached_property
    def columns(self) -> Tensor:
        """The position in its text of each row (M,)."""
        return self.index % self.real.shape[1]


def gathered(flat: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
    """Return the rows ``index`` (M,) of ``flat`` (N, ...); gradients are gathered by ``inverse`` (N,).

    This is the gradient if rows with equal places in ``index`` or ``inverse`` have none.
    """
    return _Gathered.apply(flat, index, inverse)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, flat: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        context.save_for_backward(inverse)
        return flat.index_select(0, index)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = context.saved_tensors
        return gradients[0].index_select(0, inverse), None, None


# Attention


class Attention(nn.Module):
    """Multi-head attention of width d, whose projections may be joined with those of other layers."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.output = nn.Linear(width, width), nn.Linear(width, width)

    @property
    def projections(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        """The layers of queries, keys and values."""
        return self.query, self.key, self.value

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, visible: Visible, places: "Heads") -> Tensor:
        """Return the output, in the form of ``places``, for queries, keys and values (B, H, L, d / H)."""
        attended = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=visible if isinstance(visible, Tensor) else None,
            dropout_p=self.dropout if self.training else 0.0, is_causal=visible is True)
        return self.output(places.joined(attended))


def joined_groups(groups: Sequence[Sequence[nn.Module]]) -> list[Projection]:
    """Return each group of linear layers as one layer, in the precision of autocast, from two copies in all."""
    parts = [layer for group in groups for layer in group]
    weight, bias = (torch.cat([layer.get_parameter(name) for layer in parts]) for name in ("weight", "bias"))
    weight, bias = (part.to(precision(part)) for part in (weight, bias))
    sizes = [sum(len(layer.get_parameter("bias")) for layer in group) for group in groups]
    return list(zip(weight.split(sizes), bias.split(sizes), strict=True))


def joined_by_layer(projections: Sequence[Sequence[nn.Linear]]) -> list[Projection | None]:
    """Return :func:`joined_groups` of each layer's projections; None without gradients, where it saves nothing.

    Frozen layers are joined one by one, because gradients would pass through a copy that they share with others.
    """
    if not torch.is_grad_enabled():
        return [None] * len(projections)
    trained = [any(part.weight.requires_grad for part in parts) for parts in projections]
    together = [parts for parts, is_trained in zip(projections, trained, strict=True) if is_trained]
    joined = iter(joined_groups(together) if together else ())
    return [next(joined) if is_trained else joined_groups([parts])[0]
            for parts, is_trained in zip(projections, trained, strict=True)]


class Heads:
    """Converts vectors, rows (M, d) of ``tokens`` or (B, L, d) without them, to heads of attention, and back."""

    def __init__(self, heads: int, tokens: RealTokens | None = None) -> None:
        self.heads, self.tokens = heads, tokens
        self._cached: dict[int, tuple[Tensor, Tensor]] = {}

    def split(self, vectors: Tensor, parts: int) -> tuple[Tensor, ...]:
        """Return the ``parts`` that are concatenated in vectors (M, parts d), as heads (B, H, L, d / H) each."""
        size = vectors.shape[-1] // (parts * self.heads)
        if self.tokens is None and parts == 1:
            return (vectors.unflatten(-1, (self.heads, size)).transpose(1, 2),)
        if self.tokens is None:
            return tuple(part.transpose(1, 2) for part in vectors.unflatten(-1, (parts, self.heads, size)).unbind(2))
        batch, length = self.tokens.real.shape
        heads = gathered(vectors.view(-1, size), *self._places(parts))
        return heads.view(parts, batch, self.heads, length, size).unbind(0)

    def joined(self, heads: Tensor) -> Tensor:
        """Return the vectors (M, d) of ``heads`` (B, H, L, d / H)."""
        by_token = heads.transpose(1, 2)
        if self.tokens is None:
            return by_token.flatten(2)
        if by_token.is_contiguous():  # the layout of fused kernels
            return self.tokens.rows(by_token.flatten(2))
        into, back = self._places(1)
        return gathered(heads.reshape(-1, heads.shape[-1]), back, into).view(-1, self.heads * heads.shape[-1])

    def _places(self, parts: int) -> tuple[Tensor, Tensor]:
        """Return the place of each head (parts, B, H, L) among rows (M, parts, H), and the inverse."""
        if parts not in self._cached:
            tokens = self.tokens
            assert tokens is not None
            (batch, length), count = tokens.real.shape, parts * self.heads
            device = tokens.index.device
            kinds = torch.arange(count, device=device).view(parts, 1, self.heads, 1)
            into = torch.add(kinds, tokens.inverse.view(batch, 1, length), alpha=count)
            first = torch.arange(0, count * batch * length, length, device=device)  # of every head of every text
            back = self._start.view(-1, 1, 1) + first.view(parts, batch, self.heads)[:, 0]
            self._cached[parts] = into.flatten(), back.flatten()
        return self._cached[parts]

    @cached_property
    def _start(self) -> Tensor:
        """Place of each row (M,) in the first head of its text, among heads (B, H, L)."""
        assert self.tokens is not None
        return torch.add(self.tokens.index * self.heads, self.tokens.columns, alpha=1 - self.heads)


class DecoderStep:
    """The state of one pass that all layers of a decoder share.

    ``projections`` are the joined projections of each layer's self-attention, or None; ``memories`` are keys and values
    by memory and layer, ``biases`` hide their padding; ``noise`` are dropout factors of all additions, or the module.
    """

    def __init__(self, places: Heads, projections: Sequence[Projection | None], visible: Visible,
                 memories: Sequence[Sequence[Pair]], biases: Sequence[Tensor],
                 noise: Sequence[Tensor | None] | nn.Dropout, cache: BeamCache | None = None) -> None:
        self.places, self.projections, self.visible = places, projections, visible
        self.memories, self.biases, self.noise, self.cache = memories, biases, noise, cache

    def own(self, number: int, attention: Attention, normed: Tensor) -> Tensor:
        """Return the output of self-attention of layer ``number``."""
        projection, split = self.projections[number], self.places.split
        if projection is None:
            queries, keys, values = (split(layer(normed), 1)[0] for layer in attention.projections)
        else:
            queries, keys, values = split(F.linear(normed, *projection), 3)
        if self.cache is not None:
            keys, values = self.cache.update(keys, values, number)
        return attention(queries, keys, values, self.visible, self.places)

    def cross(self, number: int, memory: int, attention: Attention, normed: Tensor) -> Tensor:
        """Return the output of attention of layer ``number`` to a memory."""
        (queries,) = self.places.split(attention.query(normed), 1)
        return attention(queries, *self.memories[memory][number], self.biases[memory], self.places)

    def added(self, hidden: Tensor, part: Tensor, place: int) -> Tensor:
        """Return ``hidden`` plus ``part`` under dropout, as addition ``place`` of all layers."""
        if isinstance(self.noise, nn.Dropout):
            return hidden + self.noise(part)
        return added(hidden, part, self.noise[place])


class DecoderLayer(nn.Module):
    """Self-attention, attention to the memory and a feed-forward network, each behind a norm."""

    memories = 1
    additions = 3

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float,
                 activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__()
        self.self_attention = Attention(width, heads, dropout)
        self.cross_attention = Attention(width, heads, dropout)
        self.widen = nn.Linear(width, feed_forward)
        self.narrow = nn.Linear(feed_forward, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.activation = activation

    def to_memories(self) -> list[Attention]:
        """Return the attention to each memory."""
        return [self.cross_attention]

    def forward(self, hidden: Tensor, step: DecoderStep, number: int) -> Tensor:
        """Transform hidden, the vectors of ``step``, as layer ``number`` of a stack."""
        first = self.additions * number
        hidden = step.added(hidden, step.own(number, self.self_attention, self.norms[0](hidden)), first)
        hidden = step.added(hidden, step.cross(number, 0, self.cross_attention, self.norms[1](hidden)), first + 1)
        return step.added(hidden, self.narrow(self.activation(self.widen(self.norms[2](hidden)))), first + 2)


def precision(like: Tensor) -> torch.dtype:
    """Return the type in which products with tensors like ``like`` are computed, under autocast too."""
    device = like.device.type
    is_lowered = like.dtype == torch.float32 and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if is_lowered else like.dtype


def masking(real: Tensor, like: Tensor) -> Tensor:
    """Return numbers to add to products with places (..., S): 0 where they are ``real``, minus infinity elsewhere."""
    length = real.shape[-1]
    aligned = F.pad(real, (0, -length % 16))  # otherwise attention on a GPU copies the mask in each layer
    return torch.zeros_like(aligned, dtype=precision(like)).masked_fill_(~aligned, -torch.inf)[..., :length]


def residual_noise(like: Tensor, rate: float, count: int, training: bool) -> Sequence[Tensor | None]:
    """Return the dropout factors of ``count`` tensors like ``like``, drawn at once; None without dropout."""
    if not training or rate == 0:
        return [None] * count
    kept = 1 - rate
    return like.new_empty(count, *like.shape).bernoulli_(kept).div_(kept).unbind(0)


def added(hidden: Tensor, part: Tensor, noise: Tensor | None) -> Tensor:
    """Return ``hidden`` plus ``part`` times the dropout factors ``noise``."""
    return hidden + part if noise is None else torch.addcmul(hidden, part.to(hidden.dtype), noise)


# Encoder and decoder


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return the vectors (L, width) of ``positions`` (L,): sines and cosines in turn, of falling frequency."""
    frequencies = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10000.0) / width))
    angles = positions.unsqueeze(-1) * frequencies  # (L, ceil(width / 2))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :width]


class Embedder(nn.Module):
    """Token embeddings times sqrt(d), plus sinusoidal positions, with dropout."""

    def __init__(self, vocab_size: int, width: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, width)
        self.dropout = nn.Dropout(dropout)
        self._table: Tensor | None = None  # vectors of positions; not saved, because they can be computed

    def forward(self, ids: Tensor, tokens: RealTokens | None = None, position: int | None = None) -> Tensor:
        """Return vectors (B, L, d) of ids (B, L), perhaps all at one ``position``; (M, d) of the rows of ``tokens``."""
        if tokens is not None:
            positions = self._positions(tokens.real.shape[1]).index_select(0, tokens.columns)
        elif position is not None:
            positions = self._positions(position + 1)[position]
        else:
            positions = self._positions(ids.shape[1])[:ids.shape[1]]
        return self.dropout(torch.add(positions, self.words(ids), alpha=math.sqrt(self.words.embedding_dim)))

    def _positions(self, count: int) -> Tensor:
        """Return the vectors of at least ``count`` positions, cached on the device."""
        weight, table = self.words.weight, self._table
        if table is None or len(table) < count or (table.device, table.dtype) != (weight.device, weight.dtype):
            size = max(_TABLE, 1 << (count - 1).bit_length())
            table = sinusoids(torch.arange(size, device=weight.device), weight.shape[1]).to(weight.dtype)
            self._table = table
        return table


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each behind a norm."""

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float,
                 activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.widen = nn.Linear(width, feed_forward)
        self.narrow = nn.Linear(feed_forward, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.activation = activation

    def forward(self, hidden: Tensor, projection: Projection, bias: Tensor, places: Heads, noise: Noise) -> Tensor:
        """Transform hidden (M, d), the rows of ``places``; ``bias`` hides padding, ``noise`` is for both additions."""
        heads = places.split(F.linear(self.norms[0](hidden), *projection), 3)
        hidden = added(hidden, self.attention(*heads, bias, places), noise[0])
        return added(hidden, self.narrow(self.activation(self.widen(self.norms[1](hidden)))), noise[1])


class Encoder(nn.Module):
    """A stack of encoder layers with a final norm, of ``sizes`` as :func:`layer_sizes` reads them, and ``layers``."""

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(*layer_sizes(sizes)) for _ in range(sizes["layers"]))
        self.norm = nn.LayerNorm(sizes["width"])
        self.dropout = sizes["dropout"]

    def forward(self, embedder: Embedder, ids: Tensor, places: Heads, bias: Tensor) -> Tensor:
        """Return the states (M, d) of tokens (M,), the rows of ``places``; ``bias`` (B, 1, 1, S) hides padding."""
        tokens = places.tokens
        assert tokens is not None
        hidden = embedder(ids, tokens)
        noise = residual_noise(hidden, self.dropout, 2 * len(self.layers), self.training)
        projections = joined_groups([cast(EncoderLayer, layer).attention.projections for layer in self.layers])
        for number, (layer, projection) in enumerate(zip(self.layers, projections, strict=True)):
            hidden = layer(hidden, projection, bias, places, noise[2 * number:])
        return self.norm(hidden)


class Decoder(nn.Module):
    """A stack of decoder layers of a ``kind`` over one memory or several, with a final norm; see :class:`Encoder`."""

    def __init__(self, sizes: Mapping[str, Any], kind: type[DecoderLayer] = DecoderLayer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind(*layer_sizes(sizes)) for _ in range(sizes["layers"]))
        self.norm = nn.LayerNorm(sizes["width"])
        self.dropout, self.heads = sizes["dropout"], sizes["heads"]
        self.memories, self.additions = kind.memories, kind.additions

    def project(self, memory: int, states: Tensor, places: Heads) -> list[Tensor]:
        """Return keys and values (B, H, S, d / H) of a memory's states (M, d) for every layer, in turn."""
        attentions: list[Attention] = [layer.to_memories()[memory] for layer in self.layers]  # type: ignore[operator]
        (projection,) = joined_groups([[part for attention in attentions for part in (attention.key, attention.value)]])
        return list(places.split(F.linear(states, *projection), 2 * len(attentions)))

    def forward(self, embedder: Embedder, ids: Tensor, given: Sequence[Tensor], cache: BeamCache | None = None,
                tokens: RealTokens | None = None) -> Tensor:
        """Return the states (B, L, d) from which the next tokens are predicted, or the rows (M, d) of ``tokens``.

        ``ids`` are (B, L), with a cache the next ones of L hypotheses, with ``tokens`` their rows (M,). ``given`` is
        the mask of padding of each memory, then :meth:`project` of each.
        """
        if cache is not None:
            hidden, allowed = embedder(ids, position=cache.steps), cache.allowed(ids.shape[1], ids.device)
            own_bias = None if allowed is None else masking(allowed, hidden)
        else:
            hidden, length = embedder(ids, tokens), (ids if tokens is None else tokens.real).shape[1]
            own_bias = None if length == 1 else hidden.new_full(  # hides later tokens (L, L)
                (length, length + -length % 8), -torch.inf, dtype=precision(hidden)).triu_(1)[:, :length]
        biases, count = given[:self.memories], 2 * len(self.layers)
        flat = [given[self.memories + number * count:][:count] for number in range(self.memories)]
        memories = [list(zip(parts[::2], parts[1::2], strict=True)) for parts in flat]
        noise = residual_noise(hidden, self.dropout, self.additions * len(self.layers), self.training)
        groups = [cast(DecoderLayer, layer).self_attention.projections for layer in self.layers]
        projections = joined_groups(groups) if cache is None else cache.once(lambda: joined_groups(groups))
        step = DecoderStep(Heads(self.heads, tokens), projections, own_bias, memories, biases, noise, cache)
        for number, layer in enumerate(self.layers):
            hidden = layer(hidden, step, number)
        return self.norm(hidden)


def layer_sizes(sizes: Mapping[str, Any]) -> tuple[int, int, int, float, Callable[[Tensor], Tensor]]:
    """Return width, heads, feed-forward width, dropout and activation of a layer from the block ``sizes``."""
    inner = nn.Sequential(nn.ReLU(), nn.Dropout(sizes["dropout"])) if sizes.get("inner_dropout") else F.relu
    return sizes["width"], sizes["heads"], sizes["feed_forward"], sizes["dropout"], inner


def token_nll(output: nn.Linear, states: Tensor, targets: Tensor, ignored: int, reduction: str = "sum") -> Tensor:
    """Return -log p of ``targets`` (M,) by states (M, d), summed, or (M,) with ``reduction`` "none"."""
    weight: Tensor = output.weight
    bias: Tensor = output.bias
    if missing := -output.out_features % ALIGNED:
        weight = torch.cat([weight, weight.new_zeros(missing, weight.shape[1])])
        bias = torch.cat([bias, bias.new_full((missing,), -torch.inf)])
    (logits,) = at_least_float32(F.linear(states, weight, bias))
    return F.cross_entropy(logits, targets, ignore_index=ignored, reduction=reduction)


# Encoders of the BERT family


def mean_pool(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (B, d) of hidden states (B, L, d) over real tokens, [CLS] and [SEP] among them; else zeros."""
    weights = mask.to(hidden.dtype).unsqueeze(-1)  # (B, L, 1)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1.0)


def embed(encoder: nn.Module, ids: Tensor, mask: Tensor, pooling: Pooling = "mean") -> Tensor:
    """Return one vector per text (B, d) of tokens (B, L): the mean over real ones, or the state of [CLS]."""
    hidden = encode(encoder, ids, mask)
    return hidden[:, 0] if pooling == "cls" else mean_pool(hidden, mask)


def encode(encoder: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    """Return the last hidden states (B, L, d): by :func:`bert_states` if possible, else by the library's pass."""
    if is_plain_bert(encoder):
        return bert_states(cast(BertModel, encoder), ids, mask)
    return encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state


# A pass through the library's BERT in fewer operations than its own: for few short texts, a GPU takes longer to launch
# operations than to compute them.


def is_plain_bert(encoder: nn.Module) -> bool:
    """Return whether :func:`bert_states` computes the same as ``encoder``."""
    plain = {"hidden_act": "gelu", "is_decoder": False, "add_cross_attention": False, "chunk_size_feed_forward": 0,
             "position_embedding_type": "absolute", "_attn_implementation": "sdpa"}
    return type(encoder) is BertModel and all(getattr(encoder.config, name, value) == value
                                              for name, value in plain.items())


def bert_states(model: BertModel, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
    """Return the last hidden states (B, L, d) of a model that :func:`is_plain_bert`; ``types`` are segments (B, L)."""
    embeddings = model.embeddings
    segments = embeddings.token_type_embeddings
    places = embeddings.position_embeddings.weight[: ids.shape[1]]
    places = places + (segments.weight[0] if types is None else segments(types))
    hidden = embeddings.dropout(embeddings.LayerNorm(embeddings.word_embeddings(ids) + places))
    bias = masking(mask.bool(), hidden)[:, None, None]
    layers = [cast(BertLayer, layer) for layer in model.encoder.layer]
    attentions = [layer.attention.self for layer in layers]
    joined = joined_by_layer([(part.query, part.key, part.value) for part in attentions])
    for layer, attention, weights in zip(layers, attentions, joined, strict=True):
        after, last = layer.attention.output, layer.output
        heads, width = attention.num_attention_heads, attention.attention_head_size
        if weights is not None:
            parts = F.linear(hidden, *weights).unflatten(-1, (3, heads, width)).unbind(2)
        else:
            parts = tuple(part(hidden).unflatten(-1, (heads, width))
                          for part in (attention.query, attention.key, attention.value))
        query, key, value = (part.transpose(1, 2) for part in parts)  # (B, H, L, d / H) each
        rate = attention.dropout.p if attention.training else 0.0
        states = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=rate)
        hidden = after.LayerNorm(after.dropout(after.dense(states.transpose(1, 2).flatten(2))) + hidden)
        inner = F.gelu(layer.intermediate.dense(hidden))
        hidden = last.LayerNorm(last.dropout(last.dense(inner)) + hidden)
    return hidden
