"""Texts with their classes: tokenised once, drawn into batches, padded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from models.common.training import epoch_batches


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


Sampler = Literal["shuffled", "class_balanced", "at_least_two"]
SAMPLERS: tuple[Sampler, ...] = ("shuffled", "class_balanced", "at_least_two")


def sampled_batches(labels: np.ndarray, batch_size: int, seed: int, sampler: Sampler = "shuffled",
                    lengths: Sequence[int] | None = None) -> list[list[int]]:
    """Return the batches of one epoch: as many as there are without a sampler, all full but the one cut last.

    A contrast needs two texts of a class in a batch to draw anything together but the two views of a text; and a
    class of five texts among five thousand is hardly ever seen (R52 has such classes).

    - ``shuffled``: every text once.
    - ``class_balanced``: as many draws as there are texts, with replacement, each class as likely as another.
    - ``at_least_two``: every text once at first; then in each batch the classes that have one text there are put into
      pairs by chance (three, if their number is odd), and one class of each stands in for both: its text stays, and
      further texts of its class take the others' places. A class that is alone in this has the largest class of the
      batch for its partner. So no class is alone that has another text (but in batches of nothing but pairs), every
      class keeps its share on average, and a text may be left out of an epoch, or come twice.

    Args:
        labels: class of each text (n,).
        batch_size: texts per batch.
        seed: of this epoch.
        sampler: one of these.
        lengths: of each text; with them, batches are of similar lengths (see
        :func:`models.common.training.epoch_batches`),
            but for the texts that ``at_least_two`` puts in.

    Raises:
        ValueError: an unknown sampler, or not one length per text.
    """
    if sampler == "shuffled":
        return epoch_batches(len(labels), batch_size, seed, lengths)
    random = np.random.default_rng([seed, SAMPLERS.index(sampler)] if sampler in SAMPLERS else None)
    if sampler == "class_balanced":
        drawn = _balanced(labels, random)
        of_drawn = None if lengths is None else np.asarray(lengths)[drawn].tolist()
        return [drawn[batch].tolist() for batch in epoch_batches(len(labels), batch_size, seed, of_drawn)]
    if sampler == "at_least_two":
        members = _members(labels)
        return [_accompanied(np.array(batch), labels, members, random).tolist()
                for batch in epoch_batches(len(labels), batch_size, seed, lengths)]
    raise ValueError(f"sampler is {sampler!r}, expected one of {', '.join(SAMPLERS)}")


def _balanced(labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    _, class_of, counts = np.unique(labels, return_inverse=True, return_counts=True)
    chances = 1.0 / counts[class_of]
    return random.choice(len(labels), len(labels), p=chances / chances.sum())


def _members(labels: np.ndarray) -> dict[int, np.ndarray]:
    return {int(label): np.flatnonzero(labels == label) for label in np.unique(labels)}


def _accompanied(batch: np.ndarray, labels: np.ndarray, members: dict[int, np.ndarray],
                 random: np.random.Generator) -> np.ndarray:
    """Return the batch with texts replaced so that no class stands alone that has another text."""
    found, first, counts = np.unique(labels[batch], return_index=True, return_counts=True)
    alone = [int(place) for label, place, count in zip(found, first, counts, strict=True)
             if count == 1 and len(members[int(label)]) > 1]
    batch, places = batch.copy(), random.permutation(alone)
    if len(places) == 1:  # no other lone class to be paired with
        return _with_the_largest(batch, labels, members, int(places[0]), random)
    groups = [places[start:start + 2] for start in range(0, len(places) - 1, 2)]
    if len(places) % 2 and groups:
        groups[-1] = places[-3:]
    for kept, *others in groups:
        batch[others] = _companions(int(batch[kept]), labels, members, len(others), random)
    return batch


def _with_the_largest(batch: np.ndarray, labels: np.ndarray, members: dict[int, np.ndarray], place: int,
                      random: np.random.Generator) -> np.ndarray:
    """Settle the only lone text with a class of three or more: one of the two gives way, at even odds."""
    found, counts = np.unique(labels[batch], return_counts=True)
    if counts.max() > 2:  # or another class would be left with one
        other = int(random.choice(np.flatnonzero(labels[batch] == found[counts.argmax()])))
        kept, gone = (place, other) if random.random() < 0.5 else (other, place)
        batch[gone] = _companions(int(batch[kept]), labels, members, 1, random)[0]
    return batch


def _companions(item: int, labels: np.ndarray, members: dict[int, np.ndarray], count: int,
                random: np.random.Generator) -> np.ndarray:
    """Return ``count`` other texts of the class of ``item``; with replacement where there are fewer."""
    others = members[int(labels[item])]
    others = others[others != item]
    return random.choice(others, count, replace=len(others) < count)
