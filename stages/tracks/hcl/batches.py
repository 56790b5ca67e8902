"""HCL items as padded tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from models.common.encoders import special_ids
from stages.common.layouts import TURN

# Which end of a text that is too long survives: dialogues keep their last turn.
Keep = Literal["first", "last"]


@dataclass(frozen=True)
class Pieces:
    """Texts as word-piece ids without special tokens, cut at a limit."""

    ids: list[list[int]]

    def __getitem__(self, items: Sequence[int]) -> list[list[int]]:
        """Return the ids of ``items``."""
        return [self.ids[item] for item in items]


def word_pieces(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], limit: int, keep: Keep = "first") -> Pieces:
    """Return the first or the last ``limit`` word pieces of each text, special tokens not counted."""
    if not len(texts):
        return Pieces([])
    rows = tokenizer(list(texts), add_special_tokens=False, truncation=keep == "first", max_length=limit,
                     verbose=False)["input_ids"]
    return Pieces([row[-limit:] for row in rows] if keep == "last" else rows)


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Return ids (B, L) int64 and mask (B, L) bool of ``rows``; L is the longest row, at least 1."""
    length = max(1, *map(len, rows)) if rows else 1
    ids = torch.full((len(rows), length), pad, dtype=torch.int64)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    mask = torch.arange(length)[None, :] < lengths[:, None]
    ids[mask] = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.int64)
    return ids, mask


@dataclass(frozen=True)
class Marks:
    """Tokens that are no part of a text.

    Attributes:
        before, after: what stands around a text that is encoded.
        start: what the decoder reads first.
        end: what ends an output.
        pad: fills rows.
        banned: never generated.
        turn: what stands between the turns of a dialogue, where its text has `` [SEP] ``.
    """

    before: Sequence[int]
    after: Sequence[int]
    start: int
    end: int
    pad: int
    banned: Sequence[int]
    turn: str = f" {TURN} "

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> "Marks":
        """Return those of a BERT tokenizer: [CLS] opens and [SEP] closes sources and targets alike."""
        ids = special_ids(tokenizer)
        banned = sorted({ids[role] for role in ("pad", "bos", "unk", "mask")})
        return cls([ids["bos"]], [ids["eos"]], ids["bos"], ids["eos"], ids["pad"], banned)

    def read(self, texts: Sequence[str]) -> list[str]:
        """Return texts with this tokenizer's mark between turns."""
        return [text.replace(f" {TURN} ", self.turn) for text in texts]

    def around(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return ids (B, L) and mask (B, L) of texts that are encoded."""
        return padded([[*self.before, *row, *self.after] for row in rows], self.pad)


class TripleBatches:
    """Batches of triples for one split.

    Attributes:
        has_negative: items with a negative (n,).

    Args:
        items: rows of ``joined_items``, all of one split.
        tokenizer: the encoder's tokenizer, or the one that ``marks`` are of.
        max_source: word pieces kept of a source.
        max_target: word pieces kept of a target or negative.
        keep: which end of a source that is longer.
        marks: tokens around texts; None for those of a BERT tokenizer.
    """

    def __init__(self, items: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, max_source: int,
                 max_target: int, keep: Keep = "first", marks: Marks | None = None) -> None:
        self.example_ids = items["example_id"].tolist()
        self.marks = marks or Marks.of(tokenizer)
        self.sources = word_pieces(tokenizer, self.marks.read(items["source"].tolist()), max_source, keep)
        self.targets = word_pieces(tokenizer, items["target"].tolist(), max_target)
        self.has_negative = torch.tensor([len(texts) > 0 for texts in items["negatives"]], dtype=torch.bool)
        negatives = [texts[0] if len(texts) else "" for texts in items["negatives"]]
        self.negatives = word_pieces(tokenizer, negatives, max_target)
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
        chosen, targets = torch.tensor(list(items), dtype=torch.int64), self.targets[items]
        tensors: dict[str, Tensor] = {}
        for name, rows in (("x", self.sources[items]), ("y", targets), ("neg", self.negatives[items])):
            tensors[f"{name}_ids"], tensors[f"{name}_mask"] = self.marks.around(rows)
        tensors["y_in"], tensors["y_in_mask"] = padded([[self.marks.start, *row] for row in targets], self.marks.pad)
        tensors["y_out"], _ = padded([[*row, self.marks.end] for row in targets], self.marks.pad)
        tensors["has_negative"] = self.has_negative[chosen]
        return tensors | {name: nodes[chosen] for name, nodes in self.nodes.items()}
