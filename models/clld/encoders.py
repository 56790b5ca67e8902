"""Encoders of CLLD classifiers: what they are built from, how a text becomes one vector, their dropout."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from models.clld.textcnn import TextCnn
from models.common.encoders import embed, load_encoder

# These take add_pooling_layer; others are built as they come.
_WITH_POOLER = ("bert", "albert", "roberta")


def load_text_encoder(source: str | Path, pretrained: bool = True) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load an encoder of the BERT family and its tokenizer.

    Args:
        source: folder or id for ``from_pretrained``.
        pretrained: False takes configuration and tokenizer, and random weights.

    Raises:
        ValueError: as of :func:`models.common.encoders.load_encoder`.
    """
    config = AutoConfig.from_pretrained(source)
    # Two views of a text differ by dropout alone, and the published ALBERT has none. The papers' encoders have 0.1.
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1
    encoder, tokenizer = load_encoder(source, config, pretrained)
    return encoder, cast(PreTrainedTokenizerBase, tokenizer)


def plain_config(config: PretrainedConfig) -> dict[str, Any]:
    """Return an encoder's configuration without what depends on where it was loaded from."""
    values = config.to_dict()
    return {key: value for key, value in values.items() if key not in ("_name_or_path", "transformers_version")}


def build_encoder(values: Mapping[str, Any]) -> PreTrainedModel:
    """Return an encoder of random weights from what :func:`plain_config` returns, without pooler.

    Raises:
        ValueError: it has no model type.
    """
    if "model_type" not in values:
        raise ValueError("ClldConfig: encoder lacks model_type; give the to_dict() of the encoder's configuration")
    config = AutoConfig.for_model(**values)
    extra = {"add_pooling_layer": False} if config.model_type in _WITH_POOLER else {}
    return AutoModel.from_config(config, attn_implementation="sdpa", **extra)


def encode(encoder: nn.Module, input_ids: Tensor, attention_mask: Tensor, pooling: str) -> Tensor:
    """Return one vector per text (B, d).

    Args:
        encoder: an encoder of the library, or a :class:`TextCnn`, which reads no ``pooling``.
        input_ids: tokens (B, L), padded at the right.
        attention_mask: True or 1 for real tokens (B, L).
        pooling: ``cls`` or ``mean``.
    """
    if isinstance(encoder, TextCnn):
        return encoder(input_ids, attention_mask)
    return embed(encoder, input_ids, attention_mask, pooling)  # type: ignore[arg-type]


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
