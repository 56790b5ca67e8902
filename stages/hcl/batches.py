"""HCL items as padded tensors (shapes of METHODS A.0)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Pieces:
    """Texts as word-piece ids without special tokens, cut at a limit."""

    ids: list[list[int]]

    def __getitem__(self, items: Sequence[int]) -> list[list[int]]:
        """Return the ids of ``items``."""
        return [self.ids[item] for item in items]


def word_pieces(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], limit: int) -> Pieces:
    """Return the first ``limit`` word pieces of each text, special tokens not counted."""
    if not len(texts):
        return Pieces([])
    return Pieces(tokenizer(list(texts), add_special_tokens=False, truncation=True, max_length=limit)["input_ids"])


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Return ids (B, L) int64 and mask (B, L) bool of ``rows``; L is the longest row, at least 1."""
    length = max(1, *map(len, rows)) if rows else 1
    ids = torch.full((len(rows), length), pad, dtype=torch.int64)
    for number, row in enumerate(rows):
        ids[number, :len(row)] = torch.tensor(row, dtype=torch.int64)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    return ids, torch.arange(length)[None, :] < lengths[:, None]


class TripleBatches:
    """Batches of triples for one split.

    Args:
        items: rows of ``joined_items``, all of one split.
        tokenizer: the encoder's tokenizer; [CLS] opens and [SEP] closes sources and targets alike.
        max_source: word pieces kept of a source.
        max_target: word pieces kept of a target or negative.
    """

    def __init__(self, items: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, max_source: int,
                 max_target: int) -> None:
        self.example_ids = items["example_id"].tolist()
        self.start, self.end = int(tokenizer.cls_token_id), int(tokenizer.sep_token_id)
        self.pad = int(tokenizer.pad_token_id)
        self.sources = word_pieces(tokenizer, items["source"].tolist(), max_source)
        self.targets = word_pieces(tokenizer, items["target"].tolist(), max_target)
        self.has_negative = torch.from_numpy(items["negative"].notna().to_numpy(dtype=bool, copy=True))
        self.negatives = word_pieces(tokenizer, items["negative"].fillna("").tolist(), max_target)
        self.nodes = {name: torch.from_numpy(items[column].to_numpy(dtype=np.int64, copy=True)) for name, column in (
            ("kx", "input_node"), ("ky", "output_node"), ("kneg", "negative_node"))}

    def __len__(self) -> int:
        return len(self.example_ids)

    @property
    def mean_target_length(self) -> float:
        """Mean number of predicted tokens of a target, its end token included."""
        return float(np.mean([len(row) + 1 for row in self.targets.ids]))

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the tensors of ``items``: ``x_*``, ``y_*``, ``neg_*``, ``has_negative``, ``kx``, ``ky``, ``kneg``."""
        chosen = torch.tensor(list(items), dtype=torch.int64)
        targets = self.targets[items]
        tensors: dict[str, Tensor] = {}
        for name, rows in (("x", self.sources[items]), ("y", targets), ("neg", self.negatives[items])):
            tensors[f"{name}_ids"], tensors[f"{name}_mask"] = padded(
                [[self.start, *row, self.end] for row in rows], self.pad)
        tensors["y_in"], tensors["y_in_mask"] = padded([[self.start, *row] for row in targets], self.pad)
        tensors["y_out"], _ = padded([[*row, self.end] for row in targets], self.pad)
        tensors["has_negative"] = self.has_negative[chosen]
        return tensors | {name: nodes[chosen] for name, nodes in self.nodes.items()}
