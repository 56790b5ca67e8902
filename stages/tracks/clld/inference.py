"""Probabilities of classes, in chunks of fixed shape, so that the same texts give the same bytes."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from keycontrast.text.batches import Chunk, encode_texts, fixed_chunks
from models.clld import ClldModel

# Texts of a forward pass.
ROWS = 64


def class_probabilities(model: ClldModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int,
                        batch_size: int, track: Callable[[list[Chunk]], Iterable[Chunk]] = iter) -> np.ndarray:
    """Return the probabilities of the classes (n, N) float64 of each text.

    Args:
        model: in evaluation mode, on its device.
        tokenizer: of the model.
        texts: in any order, the same for the same bytes; an empty one has the class of no words.
        max_length: tokens of a text, special ones included; the rest is cut.
        batch_size: rows of a chunk; part of what decides the last digits.
        track: wraps the list of chunks, to show progress.
    """
    found = np.zeros((len(texts), model.config.n_classes))
    for chunk in track(fixed_chunks(_lengths(tokenizer, texts, max_length), batch_size, max_length)):
        encoded = encode_texts(tokenizer, [texts[row] for row in chunk.rows], chunk.width).to(model.device)
        with torch.inference_mode():
            logits = model(encoded["input_ids"], encoded["attention_mask"].bool())
        found[chunk.items] = logits[:len(chunk.items)].double().softmax(-1).cpu().numpy()
    return found


def _lengths(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int) -> list[int]:
    """Return the tokens that are read of each text."""
    encoded = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"] if len(texts) else []
    return [len(ids) for ids in encoded]
