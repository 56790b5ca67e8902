"""What the stage counts, and the lines that it prints of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stages.common.schemas import SPLITS
from stages.ingest.deduplication.taken_rows import CONTINUATIONS, Taken
from stages.ingest.items.items import NO_TEXT, Items
from stages.ingest.items.labelled import labelled_lines
from stages.ingest.items.partners import PAPER_TRIPLES, nearest_rule
from stages.ingest.layouts.stories import SENTENCES
from stages.ingest.negatives.sources import rule_of
from stages.ingest.splitting.by_hash import large_components
from stages.ingest.splitting.exclusions import Connected
from stages.ingest.splitting.leaks import leak_lines

if TYPE_CHECKING:
    from stages.ingest.params import Ingest

# HCL, section 4.1: stories of ROCStories; dialogues of Douban, training, validation and test together.
PAPER_STORIES, PAPER_DIALOGUES = 98_163, 218_039 + 2 * 10_000


def by_split(split: np.ndarray) -> dict[str, int]:
    """Return how many items each split has, given the (n_items,) split of each."""
    return {name: int(np.count_nonzero(split == which)) for which, name in enumerate(SPLITS)}


def row_counts(taken: Taken) -> dict[str, Any]:
    """Return how many rows were read, taken, repeated and refused, and why."""
    reasons = taken.rows.rejections()
    return {"read": taken.rows.total, "taken": len(taken), "rejected": taken.rows.unusable(),
            "duplicates": reasons.get("duplicate", 0), "not_taken_by_reason": reasons}


def source_counts(found: Connected, params: "Ingest") -> dict[str, Any]:
    """Return the counts of what was read, and of the triples under every rule and source of negatives.

    Mined negatives, of which there are as many as retrieved ones, are counted where they are asked for.
    """
    counts = _source_counts(found, params)
    if params.neg_source == "mined":
        triples = counts["triples_by_negative_source"]
        triples["mined"] = triples["retrieved"]
    return counts


def _source_counts(found: Connected, params: "Ingest") -> dict[str, Any]:
    taken, partners, sizes = found.taken, found.partners, found.sizes
    counts: dict[str, Any] = {
        "rows": row_counts(taken), "published_splits": [SPLITS[which] for which in taken.published],
        "components": {"count": int(np.count_nonzero(sizes)), "largest_texts": int(sizes.max(initial=0))},
        "negative_source": params.neg_source, "split_by": params.split_by}
    if partners is None:
        sizes = np.diff(found.captions.bounds) if found.captions else np.empty(0, dtype=np.int64)
        groups = int(np.count_nonzero(sizes > 1))
        items = int(sizes[sizes > 1].sum()) if params.caption_source == "each" else groups
        return counts | {"groups": groups, "caption_source": params.caption_source,
                         "triples_by_negative_source": {"given": 0, "labelled": 0, "retrieved": items, "none": items}}
    rules, pairs = partners.rule_counts(), len(partners.duplicates)
    if taken.structure in CONTINUATIONS:
        return counts | _continuation_counts(found, rules[rule_of(taken.structure, params)], params)
    return counts | {
        "pairs": {"paraphrases": pairs, "non_paraphrases": len(partners.others)},
        "triples_by_negative_source": {"given": len(taken.negative), "labelled": rules[params.qqp_rule],
                                       "retrieved": pairs, "none": pairs},
        "labelled_triples_by_rule": rules, "rule": params.qqp_rule, "negative_pick": params.neg_pick,
        "paper_triples": PAPER_TRIPLES, "rule_nearest_to_paper": nearest_rule(rules)}


def _continuation_counts(found: Connected, labelled: int, params: "Ingest") -> dict[str, Any]:
    """Return the counts of stories or of dialogues."""
    taken = found.taken
    good = int(np.count_nonzero(taken.label == 1))
    if taken.structure == "stories":
        modes = {"ending": good, "next_sentence": (SENTENCES - 1) * good, "lead_to_rest": good}
        return {"stories": good, "paper_stories": PAPER_STORIES, "roc_mode": params.roc_mode, "items_by_mode": modes,
                "triples_by_negative_source": {"given": 0, "labelled": 0, "retrieved": modes[params.roc_mode],
                                               "none": modes[params.roc_mode]},
                "negatives_by": "mined" if params.neg_source == "mined" else params.roc_neg}
    with_candidates = int(np.count_nonzero(np.diff(taken.further.bounds)[:good]))
    return {"responses": {"right": good, "wrong": len(taken.label) - good}, "paper_dialogues": PAPER_DIALOGUES,
            "responses_with_candidates": with_candidates,
            "triples_by_negative_source": {"given": 0, "labelled": labelled, "retrieved": good, "none": good},
            "negatives_by": "mined" if params.neg_source == "mined" else params.douban_neg}


def negative_counts(items: Items, asked: int) -> dict[str, Any]:
    """Return how many items have each number of negatives, where more than one is ``asked`` for."""
    numbers = np.zeros(len(items), dtype=np.int64)
    for negative in items.negatives():
        numbers += negative != NO_TEXT
    return {"asked": asked, "items": {str(number): int(count) for number, count in enumerate(np.bincount(numbers))
                                      if count}}


def hashed_counts(found: Connected, of_group: np.ndarray, params: "Ingest") -> dict[str, Any]:
    """Return how the components fell under ``split_by: hashed``.

    Args:
        found: what was read.
        of_group: (n_components,) split of each.
        params: the shares.
    """
    sizes = found.sizes
    large = large_components(sizes, min(params.validation, params.test))
    return {"components": by_split(of_group[sizes > 0]), "components_too_large_to_be_evaluated": int(large.sum()),
            "texts": {name: int(sizes[of_group == which].sum()) for which, name in enumerate(SPLITS)}}


def summary(counts: dict[str, Any]) -> str:
    """Return the lines that the stage prints: rows, triples under each rule and source, splits, leaks."""
    rows = counts["rows"]
    lines = [f"{rows['read']} rows, {rows['taken']} taken; not taken: {_listed(rows['not_taken_by_reason'])}"]
    if counts.get("published_splits"):
        lines.append(f"published splits kept: {', '.join(counts['published_splits'])}")
    if "classes" in counts:
        lines += [f"{name}: {_listed(found)}" for name, found in counts["classes"].items()]
        return _printed([*lines, f"examples: {_listed(counts['examples'])}", *labelled_lines(counts)])
    if "triples_by_negative_source" not in counts:
        return _printed([*lines, f"texts: {_listed(counts['examples'])}"])
    lines.append(f"triples by source of negatives: {_listed(counts['triples_by_negative_source'])}; "
                 f"used: {counts['negative_source']}")
    if "rule" in counts:
        lines.append(f"triples with labelled negatives by rule: {_listed(counts['labelled_triples_by_rule'])}; in "
                     f"force: {counts['rule']}; nearest to the paper's {counts['paper_triples']}: "
                     f"{counts['rule_nearest_to_paper']}")
    if "stories" in counts:
        lines.append(f"{counts['stories']} stories (the paper has {counts['paper_stories']}); items by roc_mode: "
                     f"{_listed(counts['items_by_mode'])}; in force: {counts['roc_mode']}")
    if "responses" in counts:
        lines.append(f"responses: {_listed(counts['responses'])} (the paper has {counts['paper_dialogues']} right "
                     f"ones); with scored candidates: {counts['responses_with_candidates']}")
    if "training_items_left_out_without_a_negative" in counts:
        lines.append(f"negatives by {counts['negatives_by']}; training items left out because they have none: "
                     f"{counts['training_items_left_out_without_a_negative']}; evaluated ones without: "
                     f"{counts['evaluated_items_without_a_negative']}")
    if "negatives_per_item" in counts:
        lines.append(f"items by number of negatives: {_listed(counts['negatives_per_item']['items'])}; "
                     f"{counts['negatives_per_item']['asked']} were asked for")
    lines += [f"{name}: an untrained encoder finds the output nearer than the negative in "
              f"{100 * found['share']:.1f} % of the items (cosines {found['cosine_of_target']:.2f} and "
              f"{found['cosine_of_negative']:.2f})" for name, found in counts.get("told_apart", {}).items()]
    lines.append(f"{counts['components']['count']} components, the largest of {counts['components']['largest_texts']} "
                 f"texts; split by {counts['split_by']}; examples: {_listed(counts['examples'])}")
    if "hashed" in counts:
        lines.append(f"components by hash: {_listed(counts['hashed']['components'])}; too large to be evaluated: "
                     f"{counts['hashed']['components_too_large_to_be_evaluated']}")
    return _printed(lines + [f"leak into {line}" for line in leak_lines(counts["leak"])])


def _listed(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items()) or "none"


def _printed(lines: list[str]) -> str:
    return "".join(f"ingest: {line}\n" for line in lines)
