"""Text encoders of the BERT family: loading, pooling and freezing."""

from pathlib import Path
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    BertModel,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer
from transformers.utils import logging

from models.common.transformer import Projection, joined_by_layer, masking

Pooling = Literal["mean", "cls"]

# Both encoder and attention kernel of these are known to the tests. Their pooler (a tanh layer that only
# next-sentence prediction trained) is not loaded.
_FAMILY = ("bert", "albert", "roberta")


def load_encoder(source: str | Path | None, config: PretrainedConfig | None = None, pretrained: bool = True
                 ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """Load an encoder, in evaluation mode and without pooler, and its tokenizer.

    ``source`` is a folder written by ``save_pretrained``, or an id that the library resolves; None builds a model of
    random weights, without tokenizer, from ``config``, which otherwise replaces the source's own. ``pretrained`` False
    takes configuration and tokenizer of ``source``, and random weights.

    Raises:
        ValueError: nothing is given, the model is not of the BERT family, or the source lacks some of its weights.
    """
    if config is None:
        if source is None:
            raise ValueError("load_encoder: give a source to load from, or a configuration to build from")
        config = AutoConfig.from_pretrained(source)
    if config.model_type not in _FAMILY:
        raise ValueError(f"load_encoder: {source or 'the configuration'} is a {config.model_type!r} model, "
                         f"expected one of {', '.join(_FAMILY)}")
    if source is None or not pretrained:
        model = AutoModel.from_config(config, attn_implementation="sdpa", add_pooling_layer=False)
    else:
        verbosity = logging.get_verbosity()
        logging.set_verbosity_error()  # the library warns of pooler and head, which are left out on purpose
        try:
            model, found = AutoModel.from_pretrained(source, config=config, attn_implementation="sdpa",
                                                     add_pooling_layer=False, output_loading_info=True)
        finally:
            logging.set_verbosity(verbosity)
        if missing := sorted(found["missing_keys"]):  # the library would fill them with random numbers
            shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            raise ValueError(f"load_encoder: {source} lacks {len(missing)} weights of a {config.model_type} encoder: "
                             f"{shown}")
    return model.eval(), None if source is None else AutoTokenizer.from_pretrained(source)


def special_ids(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Return the ids of the special tokens by role: ``pad``, ``bos`` ([CLS]), ``eos`` ([SEP]), ``unk``, ``mask``."""
    roles = {"pad": "pad_token_id", "bos": "cls_token_id", "eos": "sep_token_id", "unk": "unk_token_id",
             "mask": "mask_token_id"}
    ids = {role: getattr(tokenizer, name) for role, name in roles.items()}
    missing = [roles[role] for role, number in ids.items() if number is None]
    if missing:
        raise ValueError(f"special_ids: the tokenizer has no {', '.join(missing)}; a BERT tokenizer has them all")
    return {role: int(number) for role, number in ids.items()}


def mean_pool(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (B, d) of hidden states (B, L, d) over real tokens, [CLS] and [SEP] among them; else zeros."""
    weights = mask.to(hidden.dtype).unsqueeze(-1)  # (B, L, 1)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1.0)


def embed(encoder: nn.Module, ids: Tensor, mask: Tensor, pooling: Pooling = "mean") -> Tensor:
    """Return one vector per text (B, d) of tokens (B, L): the mean over real ones, or the state of [CLS]."""
    hidden = encode(encoder, ids, mask)
    return hidden[:, 0] if pooling == "cls" else mean_pool(hidden, mask)


def encode(encoder: nn.Module, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
    """Return the last hidden states (B, L, d): in few operations for BERT, else by the library's own pass."""
    if is_plain_bert(encoder):
        return bert_states(cast(BertModel, encoder), ids, mask, types)
    segments = {} if types is None else {"token_type_ids": types}
    return encoder(input_ids=ids, attention_mask=mask.long(), **segments).last_hidden_state


class FrozenStates:
    """What a wholly frozen encoder has made of batches that it reads again, such as those of every validation.

    Only on a CPU, where a batch can be recognised without waiting for a device, without gradients, and for an encoder
    none of whose parameters is trained. A batch is read anew if ``limit`` bytes of states are kept; either way with the
    same bits.
    """

    def __init__(self, limit: int = 1 << 26) -> None:
        self.limit = limit
        self.forget()

    def forget(self) -> None:
        """Forget all, since the weights are others now."""
        self._kept: dict[tuple[object, ...], Tensor] = {}
        self._size = 0

    def encode(self, encoder: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
        """Return :func:`encode` of a batch, which nobody may write into."""
        trained = encoder.training or any(parameter.requires_grad for parameter in encoder.parameters())
        if trained or torch.is_grad_enabled() or not ids.is_cpu:
            return encode(encoder, ids, mask)
        key = (ids.shape, ids.numpy().tobytes(), mask.numpy().tobytes(), torch.is_autocast_enabled("cpu"))
        if key in self._kept:
            return self._kept[key]
        states = encode(encoder, ids, mask)
        if self._size + states.nbytes <= self.limit:
            self._kept[key] = states
            self._size += states.nbytes
        return states


def freeze_lower_layers(encoder: nn.Module, count: int) -> None:
    """Freeze the embeddings and the lowest ``count`` layers; 0 freezes nothing.

    An encoder of fewer layers, or of one set of weights for all of them (ALBERT), is a ValueError.
    """
    if count == 0:
        return
    layers = getattr(getattr(encoder, "encoder", None), "layer", None)
    if layers is None:
        raise ValueError(f"freeze_lower_layers: {type(encoder).__name__} has no separate layers; set it to 0")
    if count > len(layers):
        raise ValueError(f"freeze_lower_layers: {count} layers to freeze, the encoder has {len(layers)}")
    for part in (encoder.embeddings, *layers[:count]):
        cast(nn.Module, part).requires_grad_(False)


# A pass through a BERT in fewer operations than the library's, over the library's own weights
#
# What a GPU does for a few short texts takes less time than launching it. So queries, keys and values of a layer come
# from one product, the mask is made once for all layers, and positions are a slice of their table. The model stays a
# BertModel: what it is loaded from and saved as does not change, and neither do its numbers but for rounding.


def is_plain_bert(encoder: nn.Module) -> bool:
    """Return whether :func:`bert_states` computes what ``encoder`` does."""
    wanted = {"hidden_act": "gelu", "is_decoder": False, "add_cross_attention": False, "chunk_size_feed_forward": 0,
              "position_embedding_type": "absolute", "_attn_implementation": "sdpa"}
    return type(encoder) is BertModel and all(getattr(encoder.config, name, value) == value
                                              for name, value in wanted.items())


def bert_states(model: BertModel, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
    """Return the last hidden states (B, L, d) of a model that :func:`is_plain_bert`.

    The mask is True or 1 for real tokens (B, L), at least one a row; ``types`` are segments (B, L), None for one.
    """
    hidden = _embedded(model.embeddings, ids, types)
    bias = masking(mask.bool(), hidden)[:, None, None]
    layers = [cast(BertLayer, layer) for layer in model.encoder.layer]
    attentions = [layer.attention.self for layer in layers]
    weights = joined_by_layer([(part.query, part.key, part.value) for part in attentions])
    for layer, kept in zip(layers, weights, strict=True):
        hidden = _layer(layer, hidden, bias, kept)
    return hidden


def _embedded(embeddings: BertEmbeddings, ids: Tensor, types: Tensor | None) -> Tensor:
    places = embeddings.position_embeddings.weight[: ids.shape[1]]
    segments = embeddings.token_type_embeddings
    places = places + (segments.weight[0] if types is None else segments(types))
    return embeddings.dropout(embeddings.LayerNorm(embeddings.word_embeddings(ids) + places))


def _layer(layer: BertLayer, hidden: Tensor, bias: Tensor, weights: Projection | None) -> Tensor:
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
