"""Baselines that are models of transformers, as the library's own classes load them (AutoModel...)."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from keycontrast.errors import InputError
from models.hcl.baselines.auto import load_pieces
from stages.tracks.hcl.pieces import PieceOrigin

_CAUSAL, _TWO = ("AutoModelForCausalLM", AutoModelForCausalLM), ("AutoModelForSeq2SeqLM", AutoModelForSeq2SeqLM)
AUTO: dict[str, tuple[str, Any]] = {"dialogpt": _CAUSAL, "simctg": _CAUSAL, "t5": _TWO, "t5_claps": _TWO}


def export_library_model(weights: Path, folder: Path, called: Path) -> str:
    """Write a model with its tokenizer as the library has it, and return what it is and how it is used.

    Args:
        weights: folder of a trained model of one of the architectures in ``AUTO``.
        folder: to write into.
        called: what that will be called.

    Raises:
        InputError: the model is not trained, or what was written has other weights.
    """
    on = PieceOrigin.load(weights)
    name, auto = AUTO[on.architecture]
    tokenizer = AutoTokenizer.from_pretrained(weights)
    model, told = auto.from_pretrained(weights, output_loading_info=True)
    if hasattr(model.config, "mean_target_length"):  # which only training reads
        del model.config.mean_target_length
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    own, other = (found.state_dict() for found in (load_pieces(weights, on.architecture), auto.from_pretrained(folder)))
    if told["missing_keys"] or told["unexpected_keys"] or not (
            own.keys() == other.keys() and all(torch.equal(value, other[key]) for key, value in own.items())):
        raise InputError(f"{weights}: what {name} loads has other weights, so nothing was written.")
    marks = on.own_marks()
    before, after = (tokenizer.decode(list(ids)) for ids in (marks.before, marks.after))
    return (f"{type(model).__name__}, every weight as in the trained model\n"
            f"It reads {on.max_source} tokens of a text, {before!r} before it and {after!r} after it, and ends with "
            f"{tokenizer.decode([marks.end])!r}:\n"
            f'  {name}.from_pretrained("{called}")')
