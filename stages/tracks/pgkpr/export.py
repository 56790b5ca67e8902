"""A saved rewriter of the PGKPR track: its notes, and its export as a start of others."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from models.pgkpr.pgkpr import RewriterConfig
from models.pgkpr.rewriters import load_rewriter
from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.common.training import TRAINED_ON_FILE, load_origin, save_notes, seal
from stages.tracks.pgkpr.items import Vocabulary

VOCABULARY_FILE = "vocabulary.json"


@dataclass(frozen=True)
class TrainedOn:
    """The origin of a model, as far as its use depends on it."""

    dataset: str
    keywords: str | None   # how they were chosen in training; None for a model that reads none
    mark_all: bool          # every occurrence of a keyword was one
    max_length: int         # words of a text that are read and were taught


def notes_of(vocabulary: Vocabulary, on: TrainedOn) -> dict[str, Any]:
    """Return the notes of a model: its vocabulary and its origin."""
    columns = {"token": vocabulary.tokens, "kind": vocabulary.kinds, "count": vocabulary.counts}
    return {VOCABULARY_FILE: columns, TRAINED_ON_FILE: asdict(on)}


def load_lookup(folder: Path) -> tuple[Vocabulary, TrainedOn]:
    """Return vocabulary and origin of the model in ``folder``."""
    (columns,), on = load_origin(folder, TrainedOn, (VOCABULARY_FILE,), "PGKPR", RewriterConfig)
    return Vocabulary.from_frame(pd.DataFrame(columns).rename_axis("token_id").reset_index()), on


def exported(params: Params, paths: ModelPaths, folder: Path, called: Path) -> str:  # noqa: ARG001 - as all tracks have it
    """Write a model and its vocabulary in half precision, and return its description."""
    vocabulary, on = load_lookup(paths.weights)
    model = load_rewriter(paths.weights)
    nn.Module.to(model, torch.float16)
    model.save_pretrained(folder)
    save_notes(folder, notes_of(vocabulary, on))
    seal(folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    return (f"{paths.name} with its vocabulary, {size / 1e6:.1f} MB in half precision\n"
            f"Rows begin with it by models.pgkpr.NAME.init: {called}")
