"""A classifier to train, as the params describe it: from a pre-trained encoder, or TextCNN with words of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from models.clld import ClldConfig, ClldModel, load_text_encoder, plain_config, word_tokenizer
from models.encoders import freeze_lower_layers
from stages.encoders import ResolvedEncoder
from stages.runtime.errors import InputError
from stages.tracks.clld.rows import TEXTCNN, contrast_group, distance_group


@dataclass(frozen=True)
class Built:
    """A model that is not trained yet.

    Attributes:
        model: with random weights, but for those of a pre-trained encoder.
        tokenizer: cuts texts for it.
    """

    model: ClldModel
    tokenizer: PreTrainedTokenizerBase


def build(values: Mapping[str, Any], contrast: str, pairs: Sequence[tuple[int, int]], classes: Sequence[str],
          encoder: ResolvedEncoder | None, training_texts: Sequence[str], seed: int) -> Built:
    """Return a model to train.

    Args:
        values: plain values of the block ``train_clld`` with the model's overrides.
        contrast: of ``models.clld.NAME``.
        pairs: indices of confusable classes, for ``static_tau_pairs``.
        classes: name of each class, by index.
        encoder: to start from; None for TextCNN.
        training_texts: of which TextCNN's vocabulary is made, and no others.
        seed: of the weights; rows of a table that differ in the contrast alone begin with the same.

    Raises:
        InputError: the encoder cannot be had as the params ask for it.
    """
    shared = {"pool": values["pool"], "dropout": values["dropout"], "ce_views": values["ce_views"],
              "contrast": contrast_group(contrast, values["contrast"]),
              "distance": distance_group(contrast, values["distance"], list(pairs))}
    torch.manual_seed(seed)
    if encoder is None:
        sizes = dict(values["textcnn"])
        words = word_tokenizer(training_texts, sizes.pop("min_count"), sizes.pop("vocabulary"))
        config = ClldConfig(TEXTCNN, classes, textcnn={**sizes, "vocabulary": len(words)}, **shared)
        return Built(ClldModel(config), words)
    try:
        loaded, tokenizer = load_text_encoder(encoder.location, values["pool"], values["encoder_dropout"],
                                              encoder.pretrained)
        config = ClldConfig("encoder", classes, plain_config(loaded.config), **shared)
        model = ClldModel.over(config, loaded)
        freeze_lower_layers(model.encoder, values["training"]["freeze_layers"])
    except ValueError as error:
        raise InputError(f"models.clld: the encoder cannot be taken as train_clld asks for it: {error}.") from error
    _check_length(values["max_length"], loaded.config)
    return Built(model, tokenizer)


def clean_tokenizer(built: Built, encoder: ResolvedEncoder | None, max_length: int) -> PreTrainedTokenizerBase:
    """Return the tokenizer as it is to be saved: without the padding and cut that it remembers from its work.

    Args:
        built: the model with the tokenizer that was used.
        encoder: that it started from; None for TextCNN.
        max_length: tokens of a text that the model was taught.
    """
    if encoder is None:
        tokenizer = built.tokenizer
        tokenizer.backend_tokenizer.no_truncation()  # type: ignore[attr-defined]
        tokenizer.backend_tokenizer.no_padding()  # type: ignore[attr-defined]
    else:
        tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    tokenizer.init_kwargs.pop("local_files_only", None)  # says whether this machine has a network
    tokenizer.model_max_length = max_length
    return tokenizer


def _check_length(wanted: int, config: PretrainedConfig) -> None:
    # RoBERTa counts positions from behind its padding id
    taken = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    longest = config.max_position_embeddings - taken
    if wanted > longest:
        raise InputError(f"train_clld.max_length: {wanted} tokens are more than the {longest} that the encoder can "
                         f"read; lower it.")
