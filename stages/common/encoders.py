"""Encoders by their names in params, and embeddings of many texts on any device.

Beside the sources of :mod:`keycontrast.encoders` there are ``characters:<data set>``, made by stage
``character_encoder``, and ``scratch``: configuration and tokenizer of the bundled encoder, random weights.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from keycontrast import encoders
from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from keycontrast.text.batches import Chunk, encode_texts, fixed_chunks
from stages.common.paths import DatasetPaths

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def resolve_encoder(source: str, param: str = "encoder.source") -> ResolvedEncoder:
    """Return the encoder ``source``, the value of ``param``, after a check of its files."""
    kind, _, rest = source.partition(":")
    if kind == "scratch":
        bundled = encoders.resolve_encoder("bundled")
        return ResolvedEncoder(bundled.location, False, {"name": "scratch (architecture and tokenizer of bundled)",
                                                         "version": None, "sha256": None})
    if kind == "characters" and rest:
        return encoders.folder_encoder(DatasetPaths(rest).character_encoder, source, param,
                                       f"characters of {rest} (from scratch)")
    if kind not in ("bundled", "path", "hub") or (kind != "bundled" and not rest):
        raise InputError(f"{param}: {source!r} is none of bundled, scratch, hub:<id>, path and characters.")
    return encoders.resolve_encoder(source, param)


def longest_input(encoder: "PreTrainedModel") -> int:
    """Return how many tokens ``encoder`` can read, special ones included."""
    config = encoder.config
    # RoBERTa counts positions from behind its padding id.
    behind = config.model_type in ("roberta", "xlm-roberta", "camembert")
    return config.max_position_embeddings - (config.pad_token_id + 1 if behind else 0)


# Texts whose word pieces are counted in one call.
_COUNTED = 8192


def embed_texts(encoder: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str],
                batch_size: int, max_length: int, pooling: Literal["mean", "cls"] = "mean",
                track: Callable[[list[Chunk]], Iterable[Chunk]] = iter) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield embeddings of ``texts``, chunk by chunk, as (positions (n,), vectors (n, d) float32).

    Texts are distinct and sorted by id; ``batch_size`` affects the bytes. A text is cut after ``max_length`` word
    pieces, special tokens included. ``pooling`` takes the mean over real tokens, or the state of ``cls``. ``track``
    wraps the chunks, to show progress.
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
    """Return the number of word pieces of each text, special tokens included, before any cut."""
    lengths = [np.zeros(0, dtype=np.int32)]
    for start in range(0, len(texts), _COUNTED):
        encoded = tokenizer(list(texts[start:start + _COUNTED]), return_attention_mask=False,
                            return_token_type_ids=False)["input_ids"]
        lengths.append(np.fromiter(map(len, encoded), np.int32, len(encoded)))
    return np.concatenate(lengths)
