"""Text encoders of the BERT family: loading, special tokens and freezing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from torch import nn
from transformers.utils import logging

# Types that are tested. Their pooler, a tanh layer that only next-sentence prediction trained, is not loaded.
_FAMILY = ("bert", "albert", "roberta")


def load_encoder(source: str | Path, config: transformers.PretrainedConfig | None = None, pretrained: bool = True
                 ) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """Load an encoder with fp32 weights, in evaluation mode and without pooler, and its tokenizer.

    ``source`` is a folder written by ``save_pretrained``, or an id of the library; for ``pretrained`` False, weights
    are random. ``config`` replaces the source's own.
    """
    config = config or transformers.AutoConfig.from_pretrained(source)
    if config.model_type not in _FAMILY:
        raise ValueError(f"load_encoder: {source} is a {config.model_type!r} model, "
                         f"expected one of {', '.join(_FAMILY)}")
    options: dict[str, Any] = {"attn_implementation": "sdpa", "add_pooling_layer": False, "dtype": torch.float32}
    if not pretrained:
        model = transformers.AutoModel.from_config(config, **options)
    else:
        verbosity = logging.get_verbosity()
        logging.set_verbosity_error()  # the library warns about pooler and head, which are left out on purpose
        try:
            model, report = transformers.AutoModel.from_pretrained(
                source, config=config, output_loading_info=True, **options)
        finally:
            logging.set_verbosity(verbosity)
        if missing := sorted(report["missing_keys"]):  # the library would fill them with random numbers
            shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            raise ValueError(f"load_encoder: {source} lacks {len(missing)} weights of a {config.model_type} encoder: "
                             f"{shown}")
    return model.eval(), transformers.AutoTokenizer.from_pretrained(source)


def portable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an encoder without the path and the version that it was made with."""
    return {name: value for name, value in config.items() if name not in ("_name_or_path", "transformers_version")}


def special_ids(tokenizer: transformers.PreTrainedTokenizerBase) -> dict[str, int]:
    """Return the ids of the special tokens by role: ``pad``, ``bos`` ([CLS]), ``eos`` ([SEP]), ``unk``, ``mask``."""
    roles = {"pad": "pad_token_id", "bos": "cls_token_id", "eos": "sep_token_id", "unk": "unk_token_id",
             "mask": "mask_token_id"}
    ids = {role: getattr(tokenizer, name) for role, name in roles.items()}
    if missing := [roles[role] for role, number in ids.items() if number is None]:
        raise ValueError(f"special_ids: the tokenizer has no {', '.join(missing)}; a BERT tokenizer has them all")
    return {role: int(number) for role, number in ids.items()}


def freeze_lower_layers(encoder: nn.Module, count: int) -> None:
    """Freeze the embeddings and the lowest ``count`` layers; 0 freezes nothing, and too many are a ValueError."""
    if count == 0:
        return
    layers = getattr(getattr(encoder, "encoder", None), "layer", None)
    if layers is None:
        raise ValueError(f"freeze_lower_layers: {type(encoder).__name__} has no separate layers; set it to 0")
    if count > len(layers):
        raise ValueError(f"freeze_lower_layers: {count} layers to freeze, the encoder has {len(layers)}")
    for part in (encoder.embeddings, *layers[:count]):
        cast(nn.Module, part).requires_grad_(False)
