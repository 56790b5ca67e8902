"""The same inputs under other keywords: what the keyword in the prior does to the output (HCL Table 4)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from keycontrast.errors import InputError, nearest
from keycontrast.text.normal_form import normal_form
from models.hcl.graph import KeywordGraph
from stages.common.schemas import NO_KEYWORD
from stages.common.seeds import generator
from stages.metrics.retention import keyword_retention
from stages.metrics.tokens import basic_tokens
from stages.tracks.hcl.decoding import Paraphraser
from stages.tracks.hcl.probing.measures import mean_interval

CHOICES = ("textrank", "random", "given")


def keyword_choices(sample: pd.DataFrame, training: pd.DataFrame, keywords: Sequence[str], graph: KeywordGraph,
                    given: str | None, seed: int) -> pd.DataFrame:
    """Return the keyword of each item under each choice, columns as :data:`CHOICES`; None where there is none.

    Args:
        sample: rows of table ``items``.
        training: the training items, whose co-occurrences count.
        keywords: of the nodes, by id.
        graph: of the model.
        given: for every item; None takes each item's own, see :func:`frequent_negatives`.
        seed: of the project; the random node depends on it and on the example alone.

    Raises:
        InputError: ``given`` is no node.
    """
    own = sample["keyword"].tolist()
    others = [_another(word, keywords, generator(seed, "probe_hcl", "random", example))
              for word, example in zip(own, sample["example_id"].tolist(), strict=True)]
    if given is not None:
        word = normal_form(given)
        if word not in set(keywords):
            raise InputError(f"probe_hcl.given: {given!r} is no keyword of the training graph; "
                             f"{nearest(word, keywords)}")
        return pd.DataFrame({"textrank": own, "random": others, "given": word}, dtype=object)
    negatives = frequent_negatives(own, training, keywords, graph)
    chosen = [negatives.get(word) or _own_negative(word, negative, keywords)
              for word, negative in zip(own, sample["negative_keyword"].tolist(), strict=True)]
    return pd.DataFrame({"textrank": own, "random": others, "given": chosen}, dtype=object)


def frequent_negatives(wanted: Sequence[str], training: pd.DataFrame, keywords: Sequence[str],
                       graph: KeywordGraph) -> dict[str, str]:
    """Return the most frequent negative neighbour of each of ``wanted`` that has one in ``graph``.

    A negative edge k_y,i -> k-_y,j joins two members of a cluster, the items of one input keyword; how often it
    occurs is counted anew from the items, since a model's graph keeps signs alone. Ties go to the smaller id.
    """
    words = sorted(set(wanted))
    counts = _negative_counts(words, training)
    node = {word: number for number, word in enumerate(keywords)}
    found = {}
    for word in words:
        sources = graph.negative_neighbours(torch.tensor([node.get(word, -1)], device=graph.h0.device))[1].tolist()
        if sources:
            found[word] = keywords[min(sources, key=lambda source: (-counts.get((word, keywords[source]), 0), source))]
    return found


def _negative_counts(words: Sequence[str], training: pd.DataFrame) -> Mapping[tuple[str, str], int]:
    """Return how often each pair of an output keyword and a negative one meets, over clusters and their members."""
    targets = training[training["target_keyword"].isin(words)].groupby(["keyword", "target_keyword"]).size()
    negatives = training.dropna(subset=["negative_keyword"]).groupby(["keyword", "negative_keyword"]).size()
    pairs = targets.rename("one").reset_index().merge(negatives.rename("other").reset_index(), on="keyword")
    sums = (pairs["one"] * pairs["other"]).groupby([pairs["target_keyword"], pairs["negative_keyword"]]).sum()
    return sums.to_dict()


def _another(word: str, keywords: Sequence[str], source: np.random.Generator) -> str | None:
    """Return a node drawn at random, neither ``word`` nor the one that stands for none; None if there is no other."""
    barred = {word, NO_KEYWORD}
    if len(keywords) <= len(barred) and set(keywords) <= barred:
        return None
    while True:
        drawn = keywords[int(source.integers(len(keywords)))]
        if drawn not in barred:
            return drawn


def _own_negative(word: str, negative: str | None, keywords: Sequence[str]) -> str | None:
    return negative if negative in keywords and negative not in (word, NO_KEYWORD) else None


def swapped(paraphraser: Paraphraser, sample: pd.DataFrame, choices: pd.DataFrame, decode: Mapping[str, Any],
            seed: int) -> pd.DataFrame:
    """Return rows of table ``keyword_swap``: the output of each item under each of its keywords, z the prior's mean.

    A model without keyword has one output per item, under choice ``textrank``, and no keyword beside it.

    Args:
        paraphraser: the model.
        sample: rows of table ``items``, by example id.
        choices: from :func:`keyword_choices`, row by row.
        decode: plain values of the block ``generate_hcl``.
        seed: not drawn from, as long as z is the mean.
    """
    uses = paraphraser.uses_keyword
    frames = []
    for choice in CHOICES if uses else CHOICES[:1]:
        there = choices[choice].notna().to_numpy()
        if there.any():
            items = sample[there].assign(keyword=choices[choice][there].to_numpy())
            made = pd.concat(list(paraphraser.rewrite(items, decode, seed)), ignore_index=True)
            frames.append(_rows(made[made["sample"] == 0], choice, items))
    table = pd.concat(frames, ignore_index=True)
    if not uses:
        table["keyword"] = None
    own = table[table["choice"] == "textrank"].set_index("example_id")["prediction"]
    table["same_as_textrank"] = table["prediction"].to_numpy() == own.loc[table["example_id"]].to_numpy()
    table["shows_keyword"] = keyword_retention(table["prediction"].tolist(), _words(table))
    return table.sort_values(["example_id", "choice"], ignore_index=True)


def _rows(made: pd.DataFrame, choice: str, items: pd.DataFrame) -> pd.DataFrame:
    target = items.set_index("example_id")["target"]
    return pd.DataFrame({
        "example_id": made["example_id"].to_numpy(), "choice": choice, "keyword": made["keyword"].to_numpy(),
        "keyword_known": made["keyword_known"].to_numpy(), "source": made["source"].to_numpy(),
        "prediction": made["prediction"].to_numpy(), "reference": target.loc[made["example_id"]].to_numpy()})


def swap_measures(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return for each choice how many items have it, and means over their outputs with intervals over items.

    - ``share_changed``: differ from the output under the input's own keyword.
    - ``edit_distance``: from that output, see :func:`edit_distance`.
    - ``share_shows_keyword``: show the keyword that conditioned them, by word stems, of those that have one; beside it
      ``share_shows_unasked``: of the outputs under the input's own keyword, how many show this one.
    """
    own = table[table["choice"] == "textrank"].set_index("example_id")["prediction"]
    found: dict[str, dict[str, Any]] = {}
    for choice in CHOICES:
        rows = table[table["choice"] == choice]
        before, keywords = own.loc[rows["example_id"]].tolist(), _words(rows)
        values = {"share_changed": (~rows["same_as_textrank"].astype(bool)).to_numpy(),
                  "edit_distance": np.array([edit_distance(*pair) for pair in zip(before, rows["prediction"],
                                                                                  strict=True)]),
                  "share_shows_keyword": _there(rows["shows_keyword"].tolist()),
                  "share_shows_unasked": _there(keyword_retention(before, keywords))}
        found[choice] = {"items": len(rows),
                         **{name: float(value.mean()) if len(value) else None for name, value in values.items()},
                         "intervals": {name: mean_interval(value) for name, value in values.items()}}
    return found


def edit_distance(one: str, other: str) -> float:
    """Return the Levenshtein distance of two texts in basic tokens, over the length of the longer one."""
    first, second = basic_tokens(one), basic_tokens(other)
    row = list(range(len(second) + 1))
    for number, token in enumerate(first, start=1):
        corner, row[0] = row[0], number
        for place, match in enumerate(second, start=1):
            corner, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, corner + (token != match))
    return row[-1] / max(len(first), len(second), 1)


def _words(rows: pd.DataFrame) -> list[str | None]:
    return [word if isinstance(word, str) else None for word in rows["keyword"]]


def _there(shown: list[bool | None]) -> np.ndarray:
    return np.array([bool(one) for one in shown if one is not None], dtype=bool)
