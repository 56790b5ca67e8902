"""What the pair classifier learns to tell apart (PGKPR section 3), and the card that says so."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from keycontrast.errors import InputError
from models.keywords.pair_classifier import PairPoint, labelled_points, pair_points
from stages.common.seeds import generator

STAGE = "pair_classifier"
# Random negatives of each pair of a split, where the released code draws any.
_RELEASED = {"train": 4, "validation": 2}
_POINTS = {"random2": "Positive are the pairs and each source with itself; negative: each source with two random other "
                      "targets.",
           "released": "Where pairs were labelled, they are positive, and those labelled as different negative. Where "
                       "texts come in\n  groups, the pairs and each source with itself are positive; negative: each "
                       "source with four random other targets,\n  in validation with two."}


def split_points(examples: pd.DataFrame, split: str, seed: int, max_sources: int | None = None,
                 rule: str = "random2") -> list[PairPoint]:
    """Return the points of the distinct (source, target) pairs of ``split``, and of no other split.

    Args:
        examples: table ``examples``.
        split: ``train`` or ``validation``.
        seed: draws the sample and the negatives.
        max_sources: keep a seeded sample of so many pairs.
        rule: ``random2``: two random targets as negatives of each pair. ``released``: the released code's,
            which are the data set's own non-duplicates where pairs were labelled (negatives of origin
            ``labelled``; no source then stands beside itself), and where texts come in groups (several references)
            four random ones, in validation two. The released code draws the former from all rows, later test
            sentences among them; here they are the split's own.

    Raises:
        InputError: the split holds too few pairs to draw a negative from, or nothing that the rule needs.
    """
    mine = examples.loc[examples["split"] == split]
    chosen = mine[["source_id", "target_id"]].drop_duplicates()
    pairs = sorted((int(source), int(target)) for source, target in chosen.itertuples(index=False))
    if max_sources is not None and len(pairs) > max_sources:
        kept = generator(seed, STAGE, "sample", split).choice(len(pairs), max_sources, replace=False)
        pairs = [pairs[position] for position in sorted(kept.tolist())]
    if not pairs:
        raise InputError(f"table examples: the {split} split has no pair. Give ingest.{split} a larger share, or "
                         f"more data.")
    if rule == "released" and (different := _labelled_different(mine, pairs)):
        return labelled_points(pairs, different)
    negatives = _RELEASED[split] if rule == "released" and _grouped(mine, split) else 2
    try:
        return pair_points(pairs, generator(seed, STAGE, "negatives", split), negatives, _references(mine))
    except ValueError as error:
        raise InputError(f"table examples: the {split} split has too few pairs ({len(pairs)}) to draw negatives "
                         f"from: {error}. Give it a larger share (ingest.validation), or more data.") from error


def _labelled_different(examples: pd.DataFrame, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the sources of ``pairs`` with the negatives that were labelled so, each pair once, sorted."""
    sources = {source for source, _ in pairs}
    labelled = examples.loc[examples["negative_origin"] == "labelled", ["source_id", "negative_id"]].drop_duplicates()
    return sorted((int(source), int(negative)) for source, negative in labelled.itertuples(index=False)
                  if source in sources)


def _grouped(examples: pd.DataFrame, split: str) -> bool:
    """Return whether texts come in groups, as captions do; anything else has no released rule."""
    if examples["reference_ids"].map(len).max() < 2:
        raise InputError(f"pair_classifier.stage1_neg: released needs labelled non-duplicates (negative_origin "
                         f"labelled: ingest.neg_source labelled, from a layout with labels) or several references per "
                         f"source (captions), and the {split} split in table examples has neither. Use random2.")
    return True


def _references(examples: pd.DataFrame) -> dict[int, set[int]]:
    """Return the references of each source, which are never its negatives."""
    references: dict[int, set[int]] = {}
    for source, others in examples[["source_id", "reference_ids"]].itertuples(index=False):
        references.setdefault(int(source), set()).update(int(other) for other in others)
    return references


def model_card(dataset: str, encoder: Mapping[str, Any], values: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """Return the README of the saved classifier."""
    settings = "\n".join(f"- {name}: {value}" for name, value in sorted(values.items()))
    return f"""---
library_name: transformers
pipeline_tag: text-classification
---
# Pair classifier of data set {dataset}

Says whether two sentences mean the same (class 1, `paraphrase`) or not (class 0, `different`). It exists for its
gradients: the norm of the gradient of the positive logit by a source word's embedding is the word's keyword score.

- Encoder at the start: {encoder["name"]} (version {encoder["version"]}, sha256 {encoder["sha256"]})
- Training points: {metrics["training_points"]}, of which {metrics["training_negatives"]} negative.
  {_POINTS[values["stage1_neg"]]}
- Validation accuracy {metrics["validation_accuracy"]:.4f}, cross-entropy {metrics["validation_loss"]:.4f} nats, on
  {metrics["validation_points"]} points made likewise, epoch {metrics["best_epoch"]} of {values["epochs"]}

Random negatives are easy: where they are, the accuracy says little about telling a paraphrase from a near miss.

Settings:

{settings}
"""
