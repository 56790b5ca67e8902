"""Pairs of the PGKPR track as padded tensors, and the coins of training that make keywords of probabilities."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from keycontrast.errors import InputError
from models.common import BOS, EOS, UNK
from stages.common.seeds import flipped
from stages.tracks.pgkpr.items import COLUMNS, FLIPPED_RULES, USED, Rule, Vocabulary, first_places, fixed_masks

_REMEDY = "Run the stage paraphrase_items again."
_ALIGNED = ("source_tags", "score_xx", "score_xy", "primary_xx", "primary_xy", "primary_s",
            "primary_textrank")
# Those that stage paraphrase_items leaves null in all rows where no model reads them.
_PERHAPS_NULL = ("primary_xx", "primary_xy", "primary_s", "primary_textrank")
# Penn tags of function words and of what is no word. A bag of words to predict holds the others.
_FUNCTION_TAGS = frozenset(("CC", "DT", "EX", "IN", "LS", "MD", "PDT", "POS", "PRP", "PRP$", "RP", "SYM", "TO", "UH",
                            "WDT", "WP", "WP$", "WRB"))
_FUNCTION_WORDS = frozenset(("am", "are", "be", "been", "being", "did", "do", "does", "doing", "had", "has", "have",
                             "having", "is", "was", "were", "'m", "'re", "'s", "'ve", "n't", "not"))


class Rows:
    """Rows of numbers of unequal length, cut at a limit, from which batches are padded; ``lengths`` are as cut (n,)."""

    def __init__(self, rows: Sequence[Sequence[float] | np.ndarray], limit: int, kind: torch.dtype) -> None:
        cut = [row[:limit] for row in rows]
        self.lengths = torch.tensor([len(row) for row in cut], dtype=torch.int64)
        width = int(self.lengths.max()) if cut else 0
        # Narrow while they wait; a batch is as wide as its longest row and of the kind that models take.
        held, self.kind = torch.float32 if kind.is_floating_point else torch.int32, kind
        self.values = torch.zeros(len(cut), width, dtype=held)
        flat = list(chain.from_iterable(row.tolist() if isinstance(row, np.ndarray) else row for row in cut))
        self.values[torch.arange(width)[None, :] < self.lengths[:, None]] = torch.tensor(flat, dtype=held)

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, chosen: Tensor) -> Tensor:
        """Return the rows ``chosen`` (B,) padded with 0 to the longest of them, at least 1: (B, L)."""
        width = max(1, int(self.lengths[chosen].max())) if len(chosen) else 1
        values = self.values[chosen, :width].to(self.kind)
        return torch.nn.functional.pad(values, (0, width - values.shape[1]))


class PairBatches:
    """Batches of the pairs of one split, perhaps several times over with other keyword probabilities.

    With N pairs and P passes there are N * P items: item n is pair ``n % N`` in pass ``n // N``.

    Attributes:
        words: number of words of every item's source (``x``) and target (``t``), as cut (N * P,).
        keywords: keyword probability of every item's source words (N * P, L), padded with 0.

    Args:
        items: rows of table ``paraphrase_items``, all of one split.
        vocabulary: of the data set.
        max_length: words kept of a text.
        passes: for each pass, the keyword probability of the source words of each row; see
            ``stages.tracks.pgkpr.items.training_passes``, or masks.
        repeats: give ``repeat``, which ``mark_all`` reads.
        bag: give ``bow_ids``, with at most so many words.

    Raises:
        InputError: a text without words, or columns of a row that are not of one length.
    """

    def __init__(self, items: pd.DataFrame, vocabulary: Vocabulary, max_length: int,
                 passes: Sequence[Sequence[np.ndarray]], repeats: bool = False, bag: int | None = None) -> None:
        _check(items)
        self.pairs = len(items)
        words, tags = vocabulary.words_ids, vocabulary.tag_ids

        def rows(column: Sequence[Sequence[float] | np.ndarray], kind: torch.dtype = torch.int64) -> Rows:
            return Rows(column, max_length, kind)

        self._rows = {"x_ids": rows([words(row) for row in items["source_words"]]),
                      "x_tags": rows([tags(row) for row in items["source_tags"]]),
                      "t_ids": rows([words(row) for row in items["target_words"]]),
                      "t_tags": rows([tags(row) for row in items["target_tags"]])}
        self._p = rows(list(chain.from_iterable(passes)), torch.float32)
        self.keywords = self._p.values
        self._passes = len(passes)
        self.words = {side: np.tile(self._rows[f"{side}_ids"].lengths.numpy(), len(passes)) for side in ("x", "t")}
        self._group = torch.from_numpy(items["group"].to_numpy(dtype=np.int64, copy=True))
        if repeats:
            self._rows["repeat"] = rows([first_places(row) for row in items["source_words"]])
        if bag is not None:
            self._rows["bow_ids"] = Rows(bags(items, vocabulary, max_length, bag), bag, torch.int64)

    def __len__(self) -> int:
        return self.pairs * self._passes

    def groups(self, items: Sequence[int]) -> Tensor:
        """Return ``group`` of ``items`` (B,): equal for texts that mean the same."""
        return self._group[torch.tensor(list(items), dtype=torch.int64) % max(1, self.pairs)]

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the tensors of ``items``: int64, padded at the right with 0; ``p`` is float32.

        ``x_ids``, ``x_tags``, ``p`` (B, L), ``x_lengths`` (B,), ``t_ids``, ``t_tags`` (B, Lt), ``t_lengths`` (B,),
        ``y_in``, ``y_out`` (B, Lt + 1), ``group`` (B,) and, if asked for, ``repeat`` (B, L) and ``bow_ids`` (B, K).
        """
        numbers = torch.tensor(list(items), dtype=torch.int64)
        chosen = numbers % max(1, self.pairs)
        batch = {name: rows.batch(chosen) for name, rows in self._rows.items()}
        batch["p"] = self._p.batch(numbers)
        for side in ("x", "t"):
            batch[f"{side}_lengths"] = self._rows[f"{side}_ids"].lengths[chosen]
        targets, ends = batch["t_ids"], batch["t_lengths"][:, None]  # (B, Lt), (B, 1)
        batch["y_in"] = torch.nn.functional.pad(targets, (1, 0), value=BOS)
        batch["y_out"] = torch.nn.functional.pad(targets, (0, 1)).scatter_(1, ends, EOS)
        return batch | {"group": self._group[chosen]}


def bags(items: pd.DataFrame, vocabulary: Vocabulary, max_length: int, most: int) -> list[list[int]]:
    """Return the ids that Latent-BOW learns to predict for each row: content words of all references of its example.

    Content words are those whose Penn tag is no function word's, forms of be, have and do and `not` aside; words
    outside the vocabulary are left out. They are distinct and in order of appearance, the target's first.

    A bag has ``most`` words at most, of the first ``max_length`` of each target.
    """
    columns = ["example_id", "target_words", "target_tags"]
    found: dict[int, dict[int, None]] = {}
    for example, words, tags in items.sort_values(["example_id", "reference"])[columns].itertuples(index=False):
        kept = [word for word, tag in zip(words[:max_length], tags[:max_length], strict=True) if _content(word, tag)]
        found.setdefault(example, {}).update(dict.fromkeys(vocabulary.words_ids(kept)))
    return [[number for number in found[example] if number != UNK][:most] for example in items["example_id"]]


def _content(word: str, tag: str) -> bool:
    return tag not in _FUNCTION_TAGS and word not in _FUNCTION_WORDS and any(sign.isalnum() for sign in word)


def _check(items: pd.DataFrame) -> None:
    """Raise InputError if a text has no words, or if columns beside it are of another length or null."""
    for words, aligned in (("source_words", _ALIGNED), ("target_words", ("target_tags",))):
        lengths = _lengths(items, words)
        for column in (words, *aligned):
            if column in _PERHAPS_NULL and items[column].isna().all():
                continue
            wrong = np.flatnonzero(_lengths(items, column) != lengths if column != words else lengths < 1)
            if len(wrong):
                row = items.iloc[wrong[0]]
                found = "no words" if column == words else f"not one value per word of {words}"
                raise InputError(f"paraphrase_items.parquet: column {column} of example {row['example_id']}, reference "
                                 f"{row['reference']}: {found}. {_REMEDY}")


def _lengths(items: pd.DataFrame, column: str) -> np.ndarray:
    return np.array([-1 if row is None else len(row) for row in items[column]], dtype=np.int64)


def training_passes(items: pd.DataFrame, rule: Rule | None, keywords: Mapping[str, Any],
                    seed: int) -> list[list[np.ndarray]]:
    """Return, for each pass of an epoch over ``items``, the probability of every source word of being a keyword.

    By attribution, the first pass has the scores xy and, under ``train_scores: both``, a second one those of xx. Under
    ``flip: offline`` the coins are flipped here, once per row and score from a seed of its own, so the probabilities
    are 0 or 1. By PSI these are primary_xy in one pass, whatever ``train_scores`` says: IANet splits by PSI(s, t) in
    training. A model without keywords has one pass, all 0.

    The other rules have as many passes as attribution, so that what is compared with it is trained for as many steps:
    ``random`` gives every word of a source the mean of its scores, the same share of words therefore; ``textrank``,
    ``none`` and ``all`` repeat the pass.

    Args:
        items: rows of table ``paraphrase_items``.
        rule: by what the model takes its keywords; None for one that reads none.
        keywords: plain values of the block ``train_pgkpr.keywords``.
        seed: of the coins that are flipped once.

    Returns:
        A list of float32 arrays per pass, each as long as the row's source.
    """
    if rule is None:
        return [[np.zeros(len(words), dtype=np.float32) for words in items["source_words"]]]
    if rule == "psi":
        return [[np.asarray(row, dtype=np.float32) for row in items[COLUMNS["psi_xy"]]]]
    passes = []
    for which in ("xy", "xx") if keywords["train_scores"] == "both" else ("xy",):
        if rule not in FLIPPED_RULES:
            passes.append([mask.astype(np.float32) for mask in fixed_masks(items, USED[rule], seed)])
            continue
        rows = [np.asarray(row, dtype=np.float32) for row in items[COLUMNS[which]]]
        if rule == "random":
            rows = [np.full_like(row, row.mean()) for row in rows]
        if keywords["flip"] == "offline":
            names = zip(items["example_id"], items["reference"], strict=True)
            rows = [flipped(row, seed, "offline", which, *name) for row, name in zip(rows, names, strict=True)]
        passes.append(rows)
    return passes


def training_mask(p: Tensor, lengths: Tensor, repeat: Tensor | None = None) -> Tensor:
    """Flip a coin for every word of a batch: it is a keyword iff U(0, 1) < p.

    The coins come from the global generator of ``p``'s device, which the training loop seeds for every micro-batch.

    Args:
        p: probability of every word (B, L), padded.
        lengths: words of each source (B,).
        repeat: place of the first occurrence of the same word (B, L); then one keyword makes all occurrences of the
            word keywords (``mark_all``).

    Returns:
        True for keywords, False for other words and padding (B, L).
    """
    real = torch.arange(p.shape[1], device=p.device)[None, :] < lengths[:, None]  # (B, L)
    mask = (torch.rand_like(p) < p) & real
    if repeat is None:
        return mask
    same = repeat[:, :, None] == repeat[:, None, :]  # (B, L, L)
    return (same & mask[:, None, :]).any(-1) & real
