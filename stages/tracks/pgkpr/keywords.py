"""Which words of a source are keywords: coins over probabilities, primary words, or a control.

    passes = training_passes(items, "attribution", {"train_scores": "both", "flip": "epoch", ...}, seed=13)
    mask = training_mask(batch["p"], batch["x_lengths"])  # coins of torch's generator
    mask = fixed_mask(row, "xx", seed=13)  # the same for every model, batch and device
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from stages.common.bernoulli import flipped

if TYPE_CHECKING:
    from torch import Tensor

# `random` marks as many words as attribution from the source alone does on average, `none` no word, `all` every one.
Which = Literal["xx", "xy", "psi_xx", "psi_xy", "s_tagger", "textrank", "random", "none", "all"]
# What models without keywords have in the place of these is None.
Rule = Literal["attribution", "psi", "textrank", "random", "none", "all"]
# What a model that was trained by a rule reads where nothing else is said, and what validates it (+X and +S
# share a model, so validation by PSI reads what training did).
USED: dict[Rule, Which] = {"attribution": "xx", "psi": "psi_xx", "textrank": "textrank", "random": "random",
                           "none": "none", "all": "all"}
VALIDATED: dict[Rule, Which] = {**USED, "psi": "psi_xy"}
# Column of table `paraphrase_items` behind each reading; coins are flipped for those of _FLIPPED, and _CONSTANT need
# no column.
COLUMNS: dict[str, str] = {"xx": "score_xx", "xy": "score_xy", "psi_xx": "primary_xx", "psi_xy": "primary_xy",
                           "s_tagger": "primary_s", "textrank": "primary_textrank", "random": "score_xx"}
_FLIPPED = ("xx", "xy", "random")
_CONSTANT = {"none": False, "all": True}
# Rules whose keywords are chosen by coins, so that an epoch may flip them anew.
FLIPPED_RULES = ("attribution", "random")


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


def training_mask(p: "Tensor", lengths: "Tensor", repeat: "Tensor | None" = None) -> "Tensor":
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
    import torch  # here, because the report, which asks for fixed masks alone, has no other use for it

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
            (``psi_xx``, ``psi_xy``) or by the S-Tagger (``s_tagger``); words of the phrases of ``textrank``; or, as
            controls, ``random`` words, whose probability is the mean of the scores xx, ``none`` or ``all``.
        seed: of the coins.
        mark_all: every occurrence of a keyword is one; where coins are flipped alone.
        max_length: words that the model reads; what is behind them is cut after the coins are flipped.

    Returns:
        bool (min(words, max_length),).
    """
    if which in _CONSTANT:
        return np.full(len(row["source_words"][:max_length]), _CONSTANT[which])
    values = np.asarray(row[COLUMNS[which]])
    if which not in _FLIPPED:
        return values.astype(bool)[:max_length]
    if which == "random":
        values = np.full(len(values), values.mean())
    mask = flipped(values, seed, which, row["example_id"]).astype(bool)[:max_length]
    if mark_all:
        first = first_places(row["source_words"][:max_length])
        mask = np.isin(first, first[mask])
    return mask


def fixed_masks(items: pd.DataFrame, which: Which, seed: int, mark_all: bool = False,
                max_length: int | None = None) -> list[np.ndarray]:
    """Return :func:`fixed_mask` of every row of ``items``."""
    read = ["example_id", "source_words", *([COLUMNS[which]] if which in COLUMNS else [])]
    columns = items[read].to_dict("records")
    return [fixed_mask({str(name): value for name, value in row.items()}, which, seed, mark_all, max_length)
            for row in columns]
