"""A pass through a pre-trained BERT in fewer operations than the library's, over the library's own weights.

What a GPU does for a few short texts takes less time than launching it. So queries, keys and values of a layer come
from one product, the mask is made once for all layers, and positions are a slice of their table. The model stays a
``BertModel``: what it is loaded from and saved as does not change, and neither do its numbers but for rounding.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertModel
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer

Pair = tuple[Tensor, Tensor]  # weights and biases

_ALIGNED = 16  # rows of a mask begin at multiples of it: attention on a GPU would otherwise copy the mask in each layer


def library_pass(encoder: nn.Module) -> str | None:
    """Return why ``encoder`` needs the library's own pass; None if :func:`bert_states` computes the same."""
    if type(encoder) is not BertModel:
        return f"it is a {type(encoder).__name__}, not a BertModel"
    config = encoder.config
    wanted = {"hidden_act": "gelu", "is_decoder": False, "add_cross_attention": False, "chunk_size_feed_forward": 0,
              "position_embedding_type": "absolute", "_attn_implementation": "sdpa"}
    differing = [name for name, value in wanted.items() if getattr(config, name, value) != value]
    return f"its configuration differs in {', '.join(differing)}" if differing else None


def bert_states(model: BertModel, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
    """Return the last hidden states (B, L, d) of a model for which :func:`library_pass` is None.

    The mask is True or 1 for real tokens (B, L), at least one a row; ``types`` are segments (B, L), None for one.
    """
    bias, hidden = additive_mask(mask.bool(), model.dtype), _embedded(model.embeddings, ids, types)
    layers = [cast(BertLayer, layer) for layer in model.encoder.layer]
    attentions = [layer.attention.self for layer in layers]
    weights = joined_by_layer([(part.query, part.key, part.value) for part in attentions])
    for layer, kept in zip(layers, weights, strict=True):
        hidden = _layer(layer, hidden, bias, kept)
    return hidden


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where ``mask`` (B, S) is True and -inf elsewhere, as attention adds it to its scores (B, 1, 1, S).

    In ``dtype``, or that of products under autocast. It spares each attention the conversion of a boolean mask.
    """
    device, (batch, length) = mask.device, mask.shape
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
    bias = torch.zeros(batch, 1, 1, length + -length % _ALIGNED, dtype=dtype, device=device)[..., :length]
    return bias.masked_fill_(~mask[:, None, None, :], -torch.inf)


def joined(layers: Sequence[nn.Linear]) -> Pair:
    """Return the weights (n, d) and biases (n,) of layers of one input width as those of one layer.

    One product forward and two backward in place of as many for each.
    """
    return torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])


def joined_by_layer(projections: Sequence[Sequence[nn.Linear]]) -> list[Pair | None]:
    """Return :func:`joined` of each layer's projections of itself, all of the same sizes; None without gradients.

    Those that are trained are joined all at once. Frozen layers stay apart, or gradients would pass through them;
    without gradients, joining would cost as much as it spares.
    """
    if not torch.is_grad_enabled():
        return [None] * len(projections)
    trained = [any(part.weight.requires_grad for part in parts) for parts in projections]
    pieces: Iterator[Pair] = iter(())
    if any(trained):
        chosen = [part for parts, wanted in zip(projections, trained, strict=True) if wanted for part in parts]
        weights, biases = (whole.chunk(sum(trained)) for whole in joined(chosen))
        pieces = zip(weights, biases, strict=True)
    return [next(pieces) if wanted else joined(parts) for parts, wanted in zip(projections, trained, strict=True)]


def _embedded(embeddings: BertEmbeddings, ids: Tensor, types: Tensor | None) -> Tensor:
    places = embeddings.position_embeddings.weight[: ids.shape[1]]
    segments = embeddings.token_type_embeddings
    places = places + (segments.weight[0] if types is None else segments(types))
    return embeddings.dropout(embeddings.LayerNorm(embeddings.word_embeddings(ids) + places))


def _layer(layer: BertLayer, hidden: Tensor, bias: Tensor, weights: Pair | None) -> Tensor:
    attention, after = layer.attention.self, layer.attention.output
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
    inner, last = F.gelu(layer.intermediate.dense(hidden)), layer.output
    return last.LayerNorm(last.dropout(last.dense(inner)) + hidden)
