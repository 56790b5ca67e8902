"""What baselines that are models of ``transformers`` begin with: pretrained weights, or a small configuration.

``source`` of a block is ``hub:<id>`` or ``path:<folder>``, which bring their tokenizer; null draws a small model of the
same architecture over the encoder's word pieces, where [SEP] is the end token.
"""

from collections.abc import Collection, Mapping
from typing import Any

from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from keycontrast.errors import InputError
from stages.common.encoders import resolve_encoder
from stages.tracks.hcl.architecture import HclRow
from stages.tracks.hcl.batches import Marks
from stages.tracks.hcl.piece_baselines import Making, Start, of_encoder


def start_of(architecture: str, families: Collection[str], row: HclRow, sizes: Mapping[str, Any]) -> Start:
    """Return what a model begins with; its marks are those of a text after which the end token stands.

    Args:
        architecture: name of its block.
        families: kinds of models (``model_type``) that weights may be of.
        row: to be trained.
        sizes: its block, plain.

    Raises:
        InputError: the source is not to be had, of another family, or without weights as safetensors.
    """
    if sizes["source"] is None:
        drawn = of_encoder(row, sizes)
        return Start(drawn.tokenizer, marks_of(drawn.tokenizer), drawn.described)
    param = f"train_hcl.{architecture}.source"
    found = resolve_encoder(sizes["source"], param)
    if not list(found.location.glob("*.safetensors")):
        raise InputError(f"{param}: {sizes['source']} has no weights as safetensors, and others are not read. Save the "
                         f"model again with save_pretrained of transformers, and give that folder (source: path, "
                         f"init: FOLDER).")
    kind = AutoConfig.from_pretrained(found.location).model_type
    if kind not in families:
        raise InputError(f"{param}: {sizes['source']} is a {kind} model; {architecture} takes {' or '.join(families)}.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(found.location)
    except (ImportError, OSError, ValueError) as error:
        raise InputError(f"{param}: {sizes['source']}: its tokenizer cannot be read here ({error}). A folder with its "
                         f"tokenizer.json can.") from error
    said = f"{sizes['source']} (version {found.description['version']}, sha256 {found.description['sha256']})"
    return Start(tokenizer, marks_of(tokenizer), {"start": found.description}, str(found.location), said)


def marks_of(tokenizer: PreTrainedTokenizerBase) -> Marks:
    """Return marks of texts that end with the end token, which is also what the decoder reads first.

    The end token stands between turns of a dialogue too. A BERT tokenizer has no end token but [SEP].

    Raises:
        InputError: the tokenizer has neither.
    """
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id
    if end is None:
        raise InputError("train_hcl: the pretrained tokenizer has no end token (eos_token or sep_token).")
    pad = end if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    turn = str(tokenizer.convert_ids_to_tokens(end))
    return Marks([], [end], end, end, pad, sorted(set(tokenizer.all_special_ids) - {end}), turn)


def weighted(kind: type[Any], making: Making, config: PretrainedConfig) -> Any:
    """Return a model of class ``kind``: with the weights that it begins with, or drawn.

    Raises:
        InputError: these weights lack some that the model has.
    """
    config.mean_target_length = making.mean_target_length
    if making.start.location is None:
        return kind(config)
    model, report = kind.from_pretrained(making.start.location, config=config, use_safetensors=True,
                                         output_loading_info=True)
    if missing := sorted(report["missing_keys"]):
        raise InputError(f"train_hcl.{making.architecture}.source: {making.start.said} lacks {len(missing)} weights, "
                         f"such as {missing[0]}.")
    return model
