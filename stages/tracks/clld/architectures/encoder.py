"""A pre-trained text encoder with a classifier on top (CLLD eq. 1, 2)."""

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from models.clld import ClldConfig, ClldModel, load_text_encoder, plain_config
from stages.common.encoders import resolve_encoder
from stages.tracks.clld.architecture import Built, ClassifierArchitecture


def _resolved(source: str, place: str) -> ResolvedEncoder:
    """Return the encoder that ``source`` names.

    Raises:
        InputError: as of :func:`stages.common.encoders.resolve_encoder`, naming ``place``.
    """
    try:
        return resolve_encoder(source)
    except InputError as error:
        raise InputError(str(error).replace("encoder.source", place, 1)) from error


def _built(values: Mapping[str, Any], shared: Mapping[str, Any], classes: Sequence[str],
           encoder: ResolvedEncoder | None, training_texts: Sequence[str]) -> Built:
    assert encoder is not None  # from _resolved
    try:
        loaded, tokenizer = load_text_encoder(encoder.location, encoder.pretrained)
        config = ClldConfig("encoder", classes, plain_config(loaded.config), **shared)
        model = ClldModel.over(config, loaded)
    except ValueError as error:
        raise InputError(f"models.clld: the encoder cannot be taken as train_clld asks for it: {error}.") from error
    _check_length(values["max_length"], loaded.config)
    return Built(model, tokenizer)


def _clean(tokenizer: PreTrainedTokenizerBase, encoder: ResolvedEncoder | None) -> PreTrainedTokenizerBase:
    assert encoder is not None
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(encoder.location)
    return found


def _check_length(wanted: int, config: PretrainedConfig) -> None:
    # RoBERTa counts positions from behind its padding id
    taken = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    longest = config.max_position_embeddings - taken
    if wanted > longest:
        raise InputError(f"train_clld.max_length: {wanted} tokens are more than the {longest} that the encoder can "
                         f"read; lower it.")


ARCHITECTURE = ClassifierArchitecture(
    "encoder", "pre-trained encoder", __name__,
    {"learning_rate": 2e-5, "optimiser": "adamw", "weight_decay": 0.1, "schedule": "linear", "warmup": 0.1},
    _resolved, _built, _clean)
