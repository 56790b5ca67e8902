"""Encoders as params name them, and embeddings of many texts on any device.

``encoder.source`` is what :mod:`keycontrast.encoders` knows (``bundled``, ``hub:<id>``, ``path:<folder>``), or

- ``characters:<data set>``: what stage ``character_encoder`` makes of a data set that no other one can read; its word
  embeddings are skip-gram vectors, its layers untrained;
- ``scratch``: configuration and tokenizer of the bundled encoder, random weights.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from keycontrast import encoders
from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from keycontrast.text.batches import Chunk, encode_texts, fixed_chunks

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Below the folder of a data set, as `DatasetPaths` has it.
CHARACTERS = Path("artifacts/data") / "character_encoder"


def resolve_encoder(source: str, param: str = "encoder.source") -> ResolvedEncoder:
    """Find the encoder that the param ``encoder.source`` names, and check that its files are there.

    Args:
        source: value of the param.
        param: another one that names a pretrained model likewise, for messages.

    Raises:
        InputError: no such kind of source; files missing or altered; the hub cannot be reached.
    """
    kind, _, rest = source.partition(":")
    if kind == "scratch":
        bundled = encoders.resolve_encoder("bundled")
        return ResolvedEncoder(bundled.location, False, {"name": "scratch (architecture and tokenizer of bundled)",
                                                         "version": None, "sha256": None})
    if kind == "characters" and rest:
        return encoders.folder_encoder(CHARACTERS.parent / rest / CHARACTERS.name, source, param,
                                       f"characters of {rest} (from scratch)")
    if kind not in ("bundled", "path", "hub") or (kind != "bundled" and not rest):
        raise InputError(f"{param}: {source!r} is none of bundled, scratch, hub:<id>, path and characters.")
    return encoders.resolve_encoder(source, param)


# Texts whose pieces are counted together.
_COUNTED = 8192


def embed_texts(encoder: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str],
                batch_size: int, max_length: int, pooling: Literal["mean", "cls"] = "mean",
                track: Callable[[list[Chunk]], Iterable[Chunk]] = iter) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield embeddings of ``texts``, chunk by chunk, as (positions (n,), vectors (n, d) float32).

    Args:
        encoder: in evaluation mode, on its device.
        tokenizer: of the encoder.
        texts: in the order of sorted ids, each once; read a few at a time, they need not lie in memory.
        batch_size: rows of a chunk; part of what decides the bytes.
        max_length: word pieces of a text, special tokens included; the rest is cut.
        pooling: ``mean`` over real tokens, or the state of ``cls``.
        track: wraps the list of chunks, to show progress.
    """
    import torch

    from models.common.transformer import embed

    chunks = fixed_chunks(_lengths(tokenizer, texts), batch_size, max_length)
    for chunk in track(chunks):
        encoded = encode_texts(tokenizer, [texts[row] for row in chunk.rows], chunk.width).to(encoder.device)
        with torch.inference_mode():
            vectors = embed(encoder, encoded["input_ids"], encoded["attention_mask"].bool(), pooling)
        yield chunk.items, vectors.float().cpu().numpy()[:len(chunk.items)]


def _lengths(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str]) -> np.ndarray:
    """Return how many word pieces each text has, special tokens included, before any cut."""
    found = [np.zeros(0, dtype=np.int32)]
    for start in range(0, len(texts), _COUNTED):
        encoded = tokenizer(list(texts[start:start + _COUNTED]), return_attention_mask=False,
                            return_token_type_ids=False)["input_ids"]
        found.append(np.fromiter(map(len, encoded), np.int32, len(encoded)))
    return np.concatenate(found)
