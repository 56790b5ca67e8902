"""From a text's keyword to what conditions the prior: a node of the training graph, or a new one.

A saved model carries the keyword of each node and where it came from, so that it can be used away from the
artifacts that it was trained on.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.errors import InputError
from models.common.encoders import Pooling, load_encoder
from models.hcl.config import HclConfig
from stages.common.encoders import embed_texts, resolve_encoder
from stages.common.model_folder import TRAINED_ON_FILE, load_origin
from stages.tracks.hcl.batches import Keep

KEYWORDS_FILE = "keywords.json"
_CHUNK = 64


@dataclass(frozen=True)
class TrainedOn:
    """Where a model came from, as far as using it depends on that.

    Attributes:
        dataset: name of the data set.
        language: ISO 639-1 code of its texts.
        encoder_source: param ``encoder.source``; frozen, it gives vectors to keywords outside the graph.
        encoder: its description (name, version, sha256).
        pooling: how a text becomes one vector, as in stage ``node_vectors``.
        max_length: word pieces of a text that are embedded, special tokens included.
        max_source: word pieces of an input that are read, special tokens not counted.
        max_target: word pieces of an output that are learnt, likewise.
        keep: which end of a longer input is read.
        keywords: what found the keywords, by name and description, as table ``keywords`` says; a new text's keyword
            is found by the same.
    """

    dataset: str
    language: str
    encoder_source: str
    encoder: Mapping[str, Any]
    pooling: Pooling
    max_length: int
    max_source: int
    max_target: int
    keep: Keep
    keywords: Mapping[str, Any] = field(default_factory=dict)


def notes_of(keywords: list[str], on: TrainedOn) -> dict[str, Any]:
    """Return the notes that go with a model's weights: the keyword of each node, and the model's origin."""
    return {KEYWORDS_FILE: keywords, TRAINED_ON_FILE: asdict(on)}


def load_lookup(folder: Path) -> tuple[list[str], TrainedOn]:
    """Return what :func:`notes_of` was given.

    Raises:
        InputError: there is no model in ``folder``, or one of another version.
    """
    (keywords,), on = load_origin(folder, TrainedOn, (KEYWORDS_FILE,), "HCL", HclConfig)
    return keywords, on


class UnseenKeywords:
    """Initial vectors for keywords that are no node: the frozen embedding of the text alone.

    The encoder is loaded at the first text that needs it.

    Args:
        on: which encoder, and how texts are embedded.
    """

    def __init__(self, on: TrainedOn) -> None:
        self.on = on

    def vectors(self, items: pd.DataFrame) -> Tensor:
        """Return vectors (n, d) for ``items`` (columns ``source``, ``input_node``); zeros where it is a node."""
        unseen = np.flatnonzero(items["input_node"].to_numpy() < 0)
        texts = items["source"].iloc[unseen].tolist()
        return torch.zeros(len(items), self.width).index_copy(0, torch.from_numpy(unseen), self.embedded(texts))

    def embedded(self, texts: list[str]) -> Tensor:
        """Return the frozen embedding of each text (n, d)."""
        found = torch.zeros(len(texts), self.width)
        encoder, tokenizer = self._encoder
        longest = min(int(tokenizer.model_max_length), self.on.max_length)
        for places, vectors in embed_texts(encoder, tokenizer, texts, _CHUNK, longest, self.on.pooling):
            found[places] = torch.from_numpy(vectors)
        return found

    @property
    def width(self) -> int:
        """Width d of the encoder."""
        return int(self._encoder[0].config.hidden_size)

    @cached_property
    def _encoder(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        resolved = resolve_encoder(self.on.encoder_source)
        if resolved.description["sha256"] != self.on.encoder["sha256"]:
            raise InputError(f"encoder.source: {self.on.encoder_source} is no longer the encoder that the model was "
                             f"trained with (sha256 {self.on.encoder['sha256']}). Put that one back, or train again.")
        # Only `scratch` draws anything; stage node_vectors draws the same.
        state = torch.get_rng_state()
        torch.manual_seed(0)
        encoder, tokenizer = load_encoder(resolved.location, pretrained=resolved.pretrained)
        torch.set_rng_state(state)
        if tokenizer is None:
            raise InputError(f"encoder.source: {self.on.encoder_source} has no tokenizer.")
        return encoder, tokenizer
