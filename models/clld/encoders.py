"""Encoders of CLLD classifiers: what they are built from, how a text becomes one vector, their dropout."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from models.clld.textcnn import TextCnn
from models.common.bert import library_pass
from models.common.encoders import embed, load_encoder, pool
from models.common.encoders import encode as encoder_states

_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
# These take add_pooling_layer; others are built as they come.
_WITH_POOLER = ("bert", "albert", "roberta")


def load_text_encoder(source: str | Path, pooling: str = "cls", dropout: float | None = 0.1,
                      pretrained: bool = True) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load an encoder of the BERT family, with its pooler if ``pooling`` asks for it, and its tokenizer.

    Args:
        source: folder or id for ``from_pretrained``.
        pooling: ``cls``, ``pooler`` or ``mean``.
        dropout: of all layers and of attention; two views of a text differ by it alone, and the published ALBERT has
            none. The papers' encoders have 0.1 (METHODS D.4). None keeps the encoder's own.
        pretrained: False takes configuration and tokenizer, and random weights.

    Raises:
        ValueError: as of :func:`models.common.encoders.load_encoder`.
    """
    config = AutoConfig.from_pretrained(source)
    for name in _DROPOUTS if dropout is not None else ():
        setattr(config, name, dropout)
    encoder, tokenizer = load_encoder(source, config, pretrained, pooler=pooling == "pooler")
    return encoder, cast(PreTrainedTokenizerBase, tokenizer)


def plain_config(config: PretrainedConfig) -> dict[str, Any]:
    """Return an encoder's configuration without what depends on where it was loaded from."""
    values = config.to_dict()
    return {key: value for key, value in values.items() if key not in ("_name_or_path", "transformers_version")}


def build_encoder(values: Mapping[str, Any], pooling: str) -> PreTrainedModel:
    """Return an encoder of random weights from its plain configuration.

    Args:
        values: from :func:`plain_config`.
        pooling: ``cls``, ``pooler`` or ``mean``; only the second needs a pooler.

    Raises:
        ValueError: it has no model type.
    """
    if "model_type" not in values:
        raise ValueError("ClldConfig: encoder lacks model_type; give the to_dict() of the encoder's configuration")
    config = AutoConfig.for_model(**values)
    extra = {"add_pooling_layer": pooling == "pooler"} if config.model_type in _WITH_POOLER else {}
    return AutoModel.from_config(config, attn_implementation="sdpa", **extra)


def encode(encoder: nn.Module, input_ids: Tensor, attention_mask: Tensor, pooling: str) -> Tensor:
    """Return one vector per text (B, d).

    Args:
        encoder: an encoder of the library, or a :class:`TextCnn`, which reads no ``pooling``.
        input_ids: tokens (B, L), padded at the right.
        attention_mask: True or 1 for real tokens (B, L).
        pooling: ``cls``, ``pooler`` or ``mean``.

    Raises:
        ValueError: ``pooler``, and the encoder has none.
    """
    if isinstance(encoder, TextCnn):
        return encoder(input_ids, attention_mask)
    if pooling != "pooler":
        return embed(encoder, input_ids, attention_mask, pooling)  # type: ignore[arg-type]
    pooler = getattr(encoder, "pooler", None)
    if pooler is None:
        raise ValueError(f"ClldModel: {type(encoder).__name__} has no pooler; set pool to cls or mean")
    if library_pass(encoder) is None:
        return pooler(encoder_states(encoder, input_ids, attention_mask))
    return encoder(input_ids=input_ids, attention_mask=attention_mask.long()).pooler_output


def encode_with_tokens(encoder: nn.Module, input_ids: Tensor, attention_mask: Tensor,
                       pooling: str) -> tuple[Tensor, Tensor]:
    """Return one vector per text (B, d), as :func:`encode` does, and the states of its tokens (B, L, d).

    Args:
        encoder: an encoder of the library.
        input_ids: tokens (B, L), padded at the right.
        attention_mask: True or 1 for real tokens (B, L).
        pooling: ``cls`` or ``mean``.
    """
    states = encoder_states(encoder, input_ids, attention_mask)
    return pool(states, attention_mask, pooling), states  # type: ignore[arg-type]


@contextmanager
def dropout_rate(module: nn.Module, rate: float) -> Iterator[None]:
    """Give every dropout of ``module`` this rate within the block, and its own again afterwards."""
    own = [(part, part.p) for part in module.modules() if isinstance(part, nn.Dropout)]
    try:
        for part, _ in own:
            part.p = rate
        yield
    finally:
        for part, before in own:
            part.p = before
