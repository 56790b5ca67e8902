"""DialoGPT: GPT-2 over x and y in one sequence (METHODS B5)."""

from functools import partial

from transformers import AutoConfig, GPT2Config, PretrainedConfig

from models.baselines.dialogpt import DialoGpt
from stages.tracks.hcl.piece_baselines import Making, of_pieces
from stages.tracks.hcl.pretrained import start_of, weighted

FAMILIES = ("gpt2",)


def gpt2_config(making: Making) -> PretrainedConfig:
    """Return the configuration of the model that it begins with, or one of the sizes in the params."""
    if making.start.location is not None:
        return AutoConfig.from_pretrained(making.start.location)
    sizes, marks = making.sizes, making.start.marks
    dropout = {name: sizes["dropout"] for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")}
    return GPT2Config(vocab_size=len(making.start.tokenizer), n_positions=sizes["positions"], n_embd=sizes["width"],
                      n_layer=sizes["layers"], n_head=sizes["heads"], n_inner=sizes["feed_forward"], **dropout,
                      bos_token_id=marks.end, eos_token_id=marks.end, pad_token_id=marks.pad)


def _built(making: Making) -> DialoGpt:
    model: DialoGpt = weighted(DialoGpt, making, gpt2_config(making))
    return model


ARCHITECTURE = of_pieces("dialogpt", "DialoGPT", __name__, _built, partial(start_of, "dialogpt", FAMILIES))
