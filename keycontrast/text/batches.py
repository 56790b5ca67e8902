"""Texts in batches whose shape depends on the texts alone, since the bytes of a row may depend on the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase


@dataclass(frozen=True)
class Chunk:
    """Items to be computed together, padded to ``width``.

    ``rows`` repeats the last of ``items`` to one shape per width: a row's bytes may depend on the number of rows.
    """

    items: np.ndarray
    rows: np.ndarray
    width: int


def fixed_chunks(lengths: Sequence[int] | np.ndarray, size: int, widest: int, multiple: int = 16) -> list[Chunk]:
    """Cut items of one width (length rounded up to ``multiple``, at most ``widest``) in chunks of ``size``."""
    padded = np.minimum(widest, -(-np.maximum(np.asarray(lengths, dtype=np.int64), 1) // multiple) * multiple)
    chunks = []
    for width in np.unique(padded).tolist():
        members = np.flatnonzero(padded == width)
        for start in range(0, len(members), size):
            items = members[start:start + size]
            rows = items if len(items) == size else np.append(items, np.repeat(items[-1], size - len(items)))
            chunks.append(Chunk(items, rows, width))
    return chunks


def piece_counts(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str]) -> dict[str, int]:
    """Return how many word pieces each of ``texts`` has, special tokens not counted, before any cut."""
    if not texts:
        return {}
    encoded = tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False,
                        return_token_type_ids=False)["input_ids"]
    return dict(zip(texts, map(len, encoded), strict=True))


def encode_texts(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], width: int) -> "BatchEncoding":
    """Return ``texts`` as (B, ``width``) tensors, cut or padded."""
    return tokenizer(list(texts), truncation=True, max_length=width, padding="max_length", return_tensors="pt")
