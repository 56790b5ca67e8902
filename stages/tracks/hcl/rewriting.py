"""Using a trained model of the HCL track, whatever its architecture."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from models.hcl import HclConfig
from models.rewriters.config import RewriterConfig
from stages.runtime.errors import InputError
from stages.tracks.hcl.decoding import Paraphraser
from stages.tracks.hcl.words import sources_as_words
from stages.tracks.pgkpr import generation


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


class WordRewriter:
    """A rewriter of words, on texts: it draws nothing, so that a text has one output.

    Args:
        folder: of the model.
        device: ``cpu`` or ``cuda``.
    """

    uses_keyword = False
    keywords: Sequence[str] = ()

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self._rewriter = generation.Paraphraser(folder, device)

    @property
    def dataset(self) -> str:
        """Name of the data set that it was trained on."""
        return self._rewriter.on.dataset

    def rewrite(self, items: pd.DataFrame, decode: Mapping[str, Any], seed: int,
                track: Callable[[list[Any]], Iterable[Any]] = iter) -> Iterator[pd.DataFrame]:
        """Yield rows of table ``predictions``; outputs hold no [unk].

        Raises:
            InputError: another search than beams is asked for, or a text has no words.
        """
        if decode["search"] != "beam":
            raise InputError(f"generate_hcl.search is {decode['search']!r}, and this model "
                             f"({self._rewriter.model.config.architecture}) is decoded by beams alone; set it to beam.")
        rows = sources_as_words(items)
        wordless = rows.loc[[not words for words in rows["source_words"]], "source"]
        if len(wordless):
            raise InputError(f"text {wordless.iloc[0]!r} has no words; leave it out.")
        texts = items.set_index("example_id")["source"]
        rows = rows.assign(mask=[np.zeros(len(words), dtype=bool) for words in rows["source_words"]])
        for chunk in self._rewriter.rewrite(rows, {**decode, "unknown": "ban"}, track):
            yield chunk.assign(source=texts.loc[chunk["example_id"]].to_numpy(), keyword_known=False)


_KINDS: dict[str, Callable[[Path, str], ItemRewriter]] = {HclConfig.model_type: Paraphraser,
                                                          RewriterConfig.model_type: WordRewriter}


def load_item_rewriter(folder: Path, device: str = "cpu") -> ItemRewriter:
    """Return the model in ``folder``, which its configuration says the kind of.

    Raises:
        InputError: there is no model, or what it needs beside its folder is not to be had.
    """
    config = folder / "config.json"
    if not config.exists():
        raise InputError(f"{folder}: no trained HCL model (config.json is missing). Train it with `keycontrast run`.")
    return _KINDS[json.loads(config.read_text(encoding="utf-8"))["model_type"]](folder, device)
