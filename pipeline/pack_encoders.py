"""Encoders in a pack: which ones its models start from, in half precision, each in a folder of its own."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from models.common.encoders import load_encoder
from pipeline.packed.run import ENCODER, HALF
from stages.common.encoders import ResolvedEncoder, resolve_encoder
from stages.common.settings import Params
from stages.run.errors import InputError
from stages.tracks.registry import track_of_model


@dataclass(frozen=True)
class PackedEncoder:
    """An encoder and its place in a pack.

    Attributes:
        source: as the params name it.
        folder: in the pack.
        found: on this machine.
        pooler: whether a model needs the pooler's weights.
    """

    source: str
    folder: str
    found: ResolvedEncoder
    pooler: bool

    def contents(self) -> dict[str, Any]:
        """Return what `unpack` puts back into what was made with it."""
        return {"source": self.source, "folder": self.folder, "description": self.found.description}

    def members(self) -> dict[str, bytes | Path]:
        """Return configuration and tokenizer of the encoder, and its weights in half precision."""
        encoder, tokenizer = load_encoder(self.found.location, pooler=self.pooler)
        half = {name: tensor.half().contiguous() if tensor.dtype == torch.float32 else tensor
                for name, tensor in encoder.state_dict().items()}
        members: dict[str, bytes | Path] = {f"{self.folder}/{HALF}": save(half, metadata={"format": "pt"})}
        with tempfile.TemporaryDirectory() as name:
            assert tokenizer is not None    # a location always has one
            tokenizer.save_pretrained(name)
            members |= {f"{self.folder}/{path.name}": path.read_bytes() for path in sorted(Path(name).iterdir())}
        # `dtype` would be read as that of the weights on disk.
        config = {**encoder.config.to_dict(), "dtype": "float32"}
        config.pop("_name_or_path", None)
        text = json.dumps(config, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        return {**members, f"{self.folder}/config.json": text.encode()}


def encoders_of(params: Params, models: Sequence[str]) -> dict[str, PackedEncoder]:
    """Return the encoder of each of ``models`` that starts from one; models of one source share it.

    The project's own has the folder ``encoder``, others have ``encoder-2`` and so on.

    Raises:
        InputError: an encoder that is not there, or has no weights.
    """
    sources = {name: source for name in models
               if (source := track_of_model(params, name).encoder(params, name)) is not None}
    others = [source for source in dict.fromkeys(sources.values()) if source != params.encoder.source]
    folders = {params.encoder.source: str(ENCODER)} | {
        source: f"{ENCODER}-{number}" for number, source in enumerate(others, 2)}
    pooled = {source for name, source in sources.items() if track_of_model(params, name).pooled(params, name)}
    packed = {source: PackedEncoder(source, folders[source], _with_weights(source), source in pooled)
              for source in dict.fromkeys(sources.values())}
    return {name: packed[source] for name, source in sources.items()}


def _with_weights(source: str) -> ResolvedEncoder:
    found = resolve_encoder(source)
    if not found.pretrained:
        raise InputError(f"encoder.source: {source} has no weights to pack; name an encoder that has.")
    return found
