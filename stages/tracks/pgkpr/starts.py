"""What a rewriter begins with besides weights drawn anew: a trained one of this track, or one that was exported."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from models.pgkpr.pgkpr import Rewriter, init_from
from models.pgkpr.rewriters import load_rewriter
from stages.common.model_folder import save_notes, seal
from stages.tracks.common.starts import GivenStart, Start
from stages.tracks.pgkpr.items import Vocabulary
from stages.tracks.pgkpr.lookup import load_lookup, notes_of

_REMEDY = "Bring the folder back, or change init."


def write_start(weights: Path, folder: Path) -> None:
    """Write the model in ``weights`` and its vocabulary into ``folder``, in half precision.

    Raises:
        InputError: there is no such model.
    """
    vocabulary, on = load_lookup(weights)
    model = load_rewriter(weights)
    nn.Module.to(model, torch.float16)
    model.save_pretrained(folder)
    save_notes(folder, notes_of(vocabulary, on))
    seal(folder)


def begin(model: Rewriter, vocabulary: Vocabulary, start: Start) -> None:
    """Put into ``model`` what the weights of ``start`` have for it; tokens are found by their spelling.

    Raises:
        InputError: it is not trained yet, is not to be had or is damaged, or has nothing for this model.
    """
    other, known = _read(start)
    numbers = {token: number for number, token in enumerate(known.tokens)}
    places = torch.tensor([numbers.get(token, -1) for token in vocabulary.tokens])
    try:
        init_from(model, other, places)
    except ValueError as error:
        raise InputError(f"models.pgkpr: init is {start.name}, and {error}. Give both the same "
                         f"train_pgkpr.sizes and architecture, or write init: data/start/none.") from error


def described(start: Start | None) -> dict[str, Any]:
    """Return the description of what a model starts from, as its metadata have it; nothing for None.

    Raises:
        InputError: it is not trained yet, or is not to be had.
    """
    if start is None:
        return {}
    folder = _folder(start)
    load_lookup(folder)
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise InputError(f"models.pgkpr: init is {start.name}, and {weights} is not there. {_REMEDY}")
    return {"init_from": {"name": start.name, "sha256": sha256_of(weights)}}


def _folder(start: Start) -> Path:
    return start.folder if isinstance(start, GivenStart) else start.weights


def _read(start: Start) -> tuple[Rewriter, Vocabulary]:
    folder = _folder(start)
    vocabulary, _ = load_lookup(folder)
    try:
        return load_rewriter(folder), vocabulary
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{folder}: the start is damaged ({error}). {_REMEDY}") from error
