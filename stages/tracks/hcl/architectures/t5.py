"""T5, which is told its task before x."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from transformers import AutoConfig, T5Config

from models.hcl.baselines.t5 import T5, t5_config
from stages.tracks.hcl.architecture import HclRow
from stages.tracks.hcl.piece_baselines import Making, Start, of_pieces
from stages.tracks.hcl.pretrained import start_of, weighted

FAMILIES = ("t5", "mt5")
# What is asked for, by what a data set's rows are.
_TASKS = {"dialogue": "reply: ", "stories": "continue: "}


def start_t5(architecture: str, row: HclRow, sizes: Mapping[str, Any]) -> Start:
    """Return :func:`start_of` with the task before x; the decoder reads first what the model says, or padding."""
    start = start_of(architecture, FAMILIES, row, sizes)
    before = start.tokenizer(_TASKS.get(row.structure, "paraphrase: "), add_special_tokens=False)["input_ids"]
    first = None if start.location is None else AutoConfig.from_pretrained(start.location).decoder_start_token_id
    marks = replace(start.marks, before=before, start=start.marks.pad if first is None else first)
    return replace(start, marks=marks)


def t5_sized(making: Making) -> T5Config:
    """Return the configuration of the model that it begins with, or one of the sizes in the params."""
    if making.start.location is not None:
        return t5_config(AutoConfig.from_pretrained(making.start.location))
    sizes, marks = making.sizes, making.start.marks
    special: dict[str, Any] = {"pad_token_id": marks.pad, "eos_token_id": marks.end,
                               "decoder_start_token_id": marks.start}
    return T5Config(vocab_size=len(making.start.tokenizer), d_model=sizes["width"], num_layers=sizes["layers"],
                    d_kv=sizes["width"] // sizes["heads"], num_heads=sizes["heads"], d_ff=sizes["feed_forward"],
                    dropout_rate=sizes["dropout"], **special)


def _built(making: Making) -> T5:
    model: T5 = weighted(T5, making, t5_sized(making))
    return model


ARCHITECTURE = of_pieces("t5", "T5", __name__, _built, partial(start_t5, "t5"))
