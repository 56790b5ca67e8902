"""Which words of a source are keywords: coins over probabilities, or primary words (METHODS C.2, C.6).

    passes = training_passes(items, "attribution", {"train_scores": "both", "flip": "epoch", ...}, seed=13)
    mask = training_mask(batch["p"], batch["x_lengths"])  # coins of torch's generator
    mask = fixed_mask(row, "xx", seed=13)  # the same for every model, batch and device
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from stages.keywords.bernoulli import flipped

Which = Literal["xx", "xy", "psi_xx", "psi_xy", "s_tagger"]
# What models without keywords have in the place of "attribution" or "psi" is None.
Rule = Literal["attribution", "psi"]
# Column of table `paraphrase_items` behind each reading; coins are flipped for those of _FLIPPED.
COLUMNS: dict[str, str] = {"xx": "score_xx", "xy": "score_xy", "psi_xx": "primary_xx", "psi_xy": "primary_xy",
                           "s_tagger": "primary_s"}
_FLIPPED = ("xx", "xy")


def training_passes(items: pd.DataFrame, rule: Rule | None, keywords: Mapping[str, Any],
                    seed: int) -> list[list[np.ndarray]]:
    """Return, for each pass of an epoch over ``items``, the probability of every source word of being a keyword.

    By attribution, the first pass has the scores xy and, under ``train_scores: both``, a second one those of xx. Under
    ``flip: offline`` the coins are flipped here, once per row and score from a seed of its own, so the probabilities
    are 0 or 1. By PSI these are primary_xy in one pass, whatever ``train_scores`` says: METHODS C.6 splits by PSI(s,
    t) in training. A model without keywords has one pass, all 0.

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
        rows = [np.asarray(row, dtype=np.float32) for row in items[COLUMNS[which]]]
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


def first_places(words: Sequence[str]) -> np.ndarray:
    """Return, for each of ``words``, the place of its first occurrence, int64."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(word, place) for place, word in enumerate(words)], dtype=np.int64)


def fixed_mask(row: Mapping[str, Any], which: Which, seed: int, mark_all: bool = False,
               max_length: int | None = None) -> np.ndarray:
    """Return which source words of an evaluated pair are keywords.

    The coins for scores are flipped with a seed of the example's own, so they depend neither on other rows nor on the
    model. Primary words need none.

    Args:
        row: of table ``paraphrase_items``, as a mapping by column.
        which: scores from the source alone (``xx``) or with the reference (``xy``); primary words by PSI likewise
            (``psi_xx``, ``psi_xy``) or by the S-Tagger (``s_tagger``).
        seed: of the coins.
        mark_all: every occurrence of a keyword is one; for scores alone.
        max_length: words that the model reads; what is behind them is cut after the coins are flipped.

    Returns:
        bool (min(words, max_length),).
    """
    values = np.asarray(row[COLUMNS[which]])
    if which not in _FLIPPED:
        return values.astype(bool)[:max_length]
    mask = flipped(values, seed, which, row["example_id"]).astype(bool)[:max_length]
    if mark_all:
        first = first_places(row["source_words"][:max_length])
        mask = np.isin(first, first[mask])
    return mask


def fixed_masks(items: pd.DataFrame, which: Which, seed: int, mark_all: bool = False,
                max_length: int | None = None) -> list[np.ndarray]:
    """Return :func:`fixed_mask` of every row of ``items``."""
    columns = items[["example_id", "source_words", COLUMNS[which]]].to_dict("records")
    return [fixed_mask({str(name): value for name, value in row.items()}, which, seed, mark_all, max_length)
            for row in columns]
