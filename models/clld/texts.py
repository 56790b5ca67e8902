"""Texts with their classes: tokenised once, padded in batches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class LabelledTexts:
    """The texts of a split.

    Attributes:
        ids: tokens of each text, special ones included, cut to a length.
        labels: class of each (n,) int64.
        pad: id of padding.
    """

    ids: Sequence[np.ndarray]
    labels: np.ndarray
    pad: int = 0

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], labels: Sequence[int],
           max_length: int) -> "LabelledTexts":
        """Tokenise ``texts``.

        Args:
            tokenizer: of the encoder.
            texts: any strings, an empty one too.
            labels: class of each, 0 .. N - 1.
            max_length: tokens of a text, special ones included; the rest is cut.

        Raises:
            ValueError: not one label per text, or a tokenizer without padding.
        """
        if len(texts) != len(labels):
            raise ValueError(f"LabelledTexts: {len(labels)} labels for {len(texts)} texts")
        if tokenizer.pad_token_id is None:
            raise ValueError("LabelledTexts: the tokenizer has no padding token; set tokenizer.pad_token")
        encoded = tokenizer(list(texts), truncation=True, max_length=max_length, return_attention_mask=False,
                            return_token_type_ids=False)["input_ids"] if len(texts) else []
        ids = [np.asarray(row, dtype=np.int64) for row in encoded]
        return cls(ids, np.asarray(labels, dtype=np.int64), int(tokenizer.pad_token_id))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each text (n,)."""
        return np.array([len(row) for row in self.ids], dtype=np.int64)

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return ``input_ids`` and ``attention_mask`` (B, L), padded to the longest, and ``labels`` (B,)."""
        rows = [torch.from_numpy(self.ids[item]) for item in items]
        lengths = torch.tensor([len(row) for row in rows])
        ids = pad_sequence(rows, batch_first=True, padding_value=self.pad)
        mask = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.from_numpy(self.labels[list(items)])}
