"""DialoGPT: GPT-2 over x and y in one sequence."""

from functools import partial

from transformers import AutoConfig, GPT2Config, PretrainedConfig

from keycontrast.errors import InputError
from models.hcl.baselines.dialogpt import DialoGpt
from stages.tracks.hcl.piece_baselines import Making, of_pieces
from stages.tracks.hcl.pretrained import start_of, weighted

FAMILIES = ("gpt2",)


def _gpt2_config(making: Making) -> PretrainedConfig:
    if making.start.location is not None:
        return AutoConfig.from_pretrained(making.start.location)
    sizes, marks = making.sizes, making.start.marks
    dropout = {name: sizes["dropout"] for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")}
    return GPT2Config(vocab_size=len(making.start.tokenizer), n_positions=sizes["positions"], n_embd=sizes["width"],
                      n_layer=sizes["layers"], n_head=sizes["heads"], n_inner=sizes["feed_forward"], **dropout,
                      bos_token_id=marks.end, eos_token_id=marks.end, pad_token_id=marks.pad)


def sequence_config(making: Making) -> PretrainedConfig:
    """Return the configuration of the model that it begins with, or one of the sizes in the params.

    Raises:
        InputError: x and y do not fit its positions.
    """
    config, training = _gpt2_config(making), making.training
    needed = training["max_source"] + training["max_target"] + 2
    if needed > config.n_positions:
        raise InputError(f"train_hcl.{making.architecture}: x and y may have {needed} tokens (max_source, max_target "
                         f"and two ends), and the model has {config.n_positions} positions. Cut texts shorter, or set "
                         f"positions higher where it is from scratch.")
    return config


def _built(making: Making) -> DialoGpt:
    model: DialoGpt = weighted(DialoGpt, making, sequence_config(making))
    return model


ARCHITECTURE = of_pieces("dialogpt", "DialoGPT", __name__, _built, partial(start_of, "dialogpt", FAMILIES))
