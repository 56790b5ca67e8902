"""Using a trained model of the HCL track, whatever its architecture."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from keycontrast.errors import InputError
from models.hcl.config import HclConfig
from stages.tracks.hcl.decoding import Paraphraser
from stages.tracks.hcl.piece_rewriter import PieceRewriter


class ItemRewriter(Protocol):
    """A trained model with all that it needs to rewrite texts."""

    @property
    def dataset(self) -> str:
        """Name of the data set that it was trained on."""

    @property
    def uses_keyword(self) -> bool:
        """Whether the keyword of a text has any influence."""

    @property
    def keywords(self) -> Sequence[str]:
        """Keywords of the training graph; none for a model that reads no keywords."""

    def rewrite(self, items: pd.DataFrame, decode: Mapping[str, Any], seed: int,
                track: Callable[[list[Any]], Iterable[Any]] = iter) -> Iterator[pd.DataFrame]:
        """Yield rows of table ``predictions``, a chunk at a time; see :meth:`Paraphraser.rewrite`."""


def load_item_rewriter(folder: Path, device: str = "cpu") -> ItemRewriter:
    """Return the model in ``folder``, which its configuration says the kind of.

    Raises:
        InputError: there is no model, or what it needs beside its folder is not to be had.
    """
    config = folder / "config.json"
    if not config.exists():
        raise InputError(f"{folder}: no trained HCL model (config.json is missing). Train it with `keycontrast run`.")
    own = json.loads(config.read_text(encoding="utf-8"))["model_type"] == HclConfig.model_type
    return Paraphraser(folder, device) if own else PieceRewriter(folder, device)
