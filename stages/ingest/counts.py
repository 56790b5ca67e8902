"""Counts of rows, items, splits and leaks, and the lines that the stage prints."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from stages.common.schemas import ALL_SPLITS, SPLITS
from stages.ingest.deduplicate import UniqueRows
from stages.ingest.items import PAPER_TRIPLES, Items, nearest_rule
from stages.ingest.params import Ingest
from stages.ingest.parsing import SENTENCES
from stages.ingest.sources import Connected, rule_of
from stages.ingest.splits import TEST, TRAIN, VALIDATION, large_components
from stages.ingest.texts import NO_TEXT, TextFile, letter_hashes, text_mask


def by_split(split: np.ndarray) -> dict[str, int]:
    """Return how many items each split has, given the (n_items,) split of each; split graph only if it has any."""
    return {name: count for which, name in enumerate(ALL_SPLITS)
            if (count := int(np.count_nonzero(split == which))) or name in SPLITS}


def row_counts(rows: UniqueRows) -> dict[str, Any]:
    """Return how many rows were read, taken, repeated and rejected, by reason."""
    reasons = rows.tables.rejections()
    return {"read": rows.tables.total, "taken": len(rows), "rejected": rows.tables.unusable(),
            "duplicates": reasons.get("duplicate", 0), "not_taken_by_reason": reasons}


def account(rows: UniqueRows, kept: Iterable[tuple[np.ndarray, str]]) -> dict[str, Any]:
    """Reject the rows that are in no item, and return how many are in one, and how many in none, by reason; ``kept``
    says which (n_rows,) are in an item after each step that leaves some out, and the reason of that step."""
    before, counts = np.ones(len(rows), dtype=bool), {}
    for after, reason in kept:
        dropped = before & ~after
        rows.reject(dropped, reason)
        if dropped.any():
            counts[reason.partition(":")[0]] = int(np.count_nonzero(dropped))
        before &= after
    return {"in_items": int(np.count_nonzero(before)), "in_no_item_by_reason": counts}


def source_counts(related: Connected, params: Ingest) -> dict[str, Any]:
    """Return the counts of the rows, and of the triples under every rule and source of negatives."""
    rows, partners, sizes = related.rows, related.partners, related.sizes
    counts: dict[str, Any] = {
        "rows": row_counts(rows), "published_splits": [ALL_SPLITS[which] for which in rows.published],
        "components": {"count": int(np.count_nonzero(sizes)), "largest_texts": int(sizes.max(initial=0))},
        "negative_source": params.neg_source, "split_by": params.split_by}
    mined = params.neg_source == "mined"

    def triples(items: int, labelled: int = 0, given: int = 0) -> dict[str, dict[str, int]]:
        by_source = {"given": given, "labelled": labelled, "retrieved": items, "none": items}
        return {"triples_by_negative_source": by_source | ({"mined": items} if mined else {})}

    if partners is None:  # only captions have no partners
        assert related.captions is not None
        sizes = np.diff(related.captions.bounds)
        groups = int(np.count_nonzero(sizes > 1))
        items = int(sizes[sizes > 1].sum()) if params.caption_source == "each" else groups
        return counts | {"groups": groups, "caption_source": params.caption_source, **triples(items)}
    rules, good = partners.rule_counts(), int(np.count_nonzero(rows.label == 1))
    if rows.structure == "stories":
        modes = {"ending": good, "next_sentence": (SENTENCES - 1) * good, "lead_to_rest": good}
        return counts | {"stories": good, "roc_mode": params.roc_mode, "items_by_mode": modes,
                         "negatives_by": "mined" if mined else params.roc_neg, **triples(modes[params.roc_mode])}
    if rows.structure == "dialogue":
        with_candidates = int(np.count_nonzero(np.diff(rows.further.bounds)[:good]))
        return counts | {"responses": {"right": good, "wrong": len(rows) - good},
                         "responses_with_candidates": with_candidates,
                         "negatives_by": "mined" if mined else params.douban_neg,
                         **triples(good, rules[rule_of(rows.structure, params)])}
    return counts | {
        "pairs": {"paraphrases": len(partners.duplicates), "non_paraphrases": len(partners.others)},
        "labelled_triples_by_rule": rules, "rule": params.qqp_rule, "negative_pick": params.neg_pick,
        "paper_triples": PAPER_TRIPLES, "rule_nearest_to_paper": nearest_rule(rules),
        **triples(len(partners.duplicates), rules[params.qqp_rule], len(rows.negative))}


def hashed_counts(related: Connected, of_group: np.ndarray, params: Ingest) -> dict[str, Any]:
    """Return how the components fell under ``split_by: hashed``, given the (n_components,) split of each."""
    sizes = related.sizes
    large = large_components(related.drawn_sizes, min(params.validation, params.test))
    return {"components": by_split(of_group[sizes > 0]), "components_too_large_to_be_evaluated": int(large.sum()),
            "texts": {name: int(sizes[of_group == which].sum()) for which, name in enumerate(SPLITS)}}


def labelled_counts(rows: UniqueRows, kept: np.ndarray, split: np.ndarray) -> dict[str, Any]:
    """Return how many texts of each class each split has, and which texts are in more than one place.

    ``kept`` (n,) are the places of the examples in ``rows``, and ``split`` (n,) their splits.
    """
    classes = {name: np.bincount(rows.label[kept[split == which]], minlength=len(rows.labels))
               for which, name in enumerate(SPLITS)}
    named = np.array(rows.labels, dtype=object)
    return {
        "classes": {name: dict(sorted(zip(rows.labels, sizes.tolist(), strict=True)))
                    for name, sizes in classes.items()},
        "classes_without_a_text": {name: sorted(named[sizes == 0]) for name, sizes in classes.items()},
        "leak": {"rows_left_out_for_an_evaluated_split": rows.tables.rejections().get("other split", 0),
                 **_copies(rows.first[kept], rows.label[kept], split, same_letters(rows.texts))}}


def _copies(texts: np.ndarray, label: np.ndarray, split: np.ndarray, letters: np.ndarray) -> dict[str, dict[str, int]]:
    """Count, for each split, the examples whose text is in training, perhaps as another class, or occurs twice.

    ``letters`` (n_texts,) numbers texts by their letters and digits.
    """
    n_texts = len(letters)
    training = split == TRAIN
    trained = np.bincount(texts[training], minlength=n_texts)
    lowest, highest = np.full(n_texts, np.iinfo(np.int64).max), np.full(n_texts, -1)
    np.minimum.at(lowest, texts[training], label[training])
    np.maximum.at(highest, texts[training], label[training])
    elsewhere = trained[texts] > training
    letters_elsewhere = np.bincount(letters[texts[training]], minlength=n_texts)[letters[texts]] > training
    contrary = elsewhere & ((lowest[texts] != label) | (highest[texts] != label))
    return {name: {"items": int(items.sum()), "repeated_within": int(items.sum()) - len(np.unique(texts[items])),
                   "text_also_in_training": int(elsewhere[items].sum()),
                   "text_in_training_as_another_class": int(contrary[items].sum()),
                   "letters_and_digits_also_in_training": int(letters_elsewhere[items].sum())}
            for name, items in ((name, split == which) for which, name in enumerate(SPLITS))}


_SIZES = ("items", "targets", "sources")  # of a split, beside what leaks into it


def summary(counts: dict[str, Any]) -> str:
    """Return the lines that the stage prints; all other counts are in its metrics."""
    rows = counts["rows"]
    lines = [f"{rows['read']} rows, {rows['taken']} taken; not taken: {_listed(rows['not_taken_by_reason'])}; in an "
             f"item: {rows['in_items']}; in none: {_listed(rows['in_no_item_by_reason'])}"]
    if "triples_by_negative_source" in counts:
        lines += triple_lines(counts)
    lines.append(f"examples: {_listed(counts['examples'])}")
    lines += [f"{name}: no text of {', '.join(map(repr, missing))}"
              for name, missing in counts.get("classes_without_a_text", {}).items() if missing]
    lines += [f"leak into {name}: {_listed(leaks) if leaks else 'none'}"
              for name, values in counts.get("leak", {}).items() if name in SPLITS
              for leaks in [{what: number for what, number in values.items() if number and what not in _SIZES}]]
    return "".join(f"ingest: {line}\n" for line in lines)


def triple_lines(counts: dict[str, Any]) -> list[str]:
    """Return how many triples each source of negatives and each rule gives."""
    by_source, used = counts["triples_by_negative_source"], counts["negative_source"]
    lines = [f"triples by source of negatives: {_listed(by_source)}; used: {used}"]
    if "rule" in counts:
        lines.append(f"triples with labelled negatives by rule: {_listed(counts['labelled_triples_by_rule'])}; in "
                     f"force: {counts['rule']}; nearest to the paper's {counts['paper_triples']}: "
                     f"{counts['rule_nearest_to_paper']}")
    return lines + few_labelled(counts)


def few_labelled(counts: dict[str, Any]) -> list[str]:
    """Return a hint if labelled negatives give less than half of the triples that retrieved ones give."""
    by_source = counts["triples_by_negative_source"]
    if counts["negative_source"] != "labelled" or 2 * by_source["labelled"] >= by_source["retrieved"]:
        return []
    return [f"few texts have both a paraphrase and a non-paraphrase: ingest.neg_source: retrieved gives "
            f"{by_source['retrieved']} triples, labelled {by_source['labelled']}"]


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {number}" for name, number in values.items()) or "none"


def same_letters(texts: TextFile) -> np.ndarray:
    """Return for each text a number that texts of the same letters and digits share, (n_texts,)."""
    return np.unique(letter_hashes(texts), return_inverse=True)[1].astype(np.int32)


def leak_report(items: Items, split: np.ndarray, group: np.ndarray, letters: np.ndarray) -> dict[str, Any]:
    """Count the texts of validation and test that training items use too, each text once.

    Targets are all references of an item. ``split`` is (n_items,), ``group`` (n_texts,) the component of each text,
    ``letters`` the result of :func:`same_letters`.
    """
    n_texts, training = len(group), split == TRAIN
    texts, owner = items.outputs
    negatives = items.negative[training]
    outputs = [text_mask(n_texts, texts[split[owner] == which]) for which in range(len(SPLITS))]
    as_input = text_mask(n_texts, items.source[training])
    as_negative = text_mask(n_texts, negatives[negatives != NO_TEXT])
    seen = as_input | outputs[TRAIN] | as_negative
    leaky = _with_seen(items, seen)
    leaky_letters = _with_seen(items, text_mask(n_texts, letters[seen])[letters])
    splits = np.zeros(n_texts, dtype=np.int8)
    for which in range(len(SPLITS)):
        splits[group[items.source[split == which]]] |= 1 << which
    shared = (splits & (splits - 1)) != 0
    report: dict[str, Any] = {}
    for which in (VALIDATION, TEST):
        of_split, targets = split == which, outputs[which]
        sources = text_mask(n_texts, items.source[of_split])
        total, with_leak = int(of_split.sum()), int((leaky & of_split).sum())
        report[SPLITS[which]] = {
            "items": total, "targets": int(targets.sum()), "sources": int(sources.sum()),
            "targets_as_training_inputs": int((targets & as_input).sum()),
            "targets_as_training_targets": int((targets & outputs[TRAIN]).sum()),
            "targets_as_training_negatives": int((targets & as_negative).sum()),
            "sources_in_training": int((sources & seen).sum()),
            "items_with_a_leak": with_leak, "share_with_a_leak": round(with_leak / total, 6) if total else 0.0,
            "items_with_a_leak_by_letters_and_digits": int((leaky_letters & of_split).sum()),
            "items_of_a_component_in_two_splits": int((of_split & shared[group[items.source]]).sum())}
    return report


def _with_seen(items: Items, seen: np.ndarray) -> np.ndarray:
    """Return which items have a source or reference among the texts that are ``seen`` (n_texts,), (n_items,) bool."""
    mask = seen[items.source]
    texts, owner = items.outputs
    mask[owner[seen[texts]]] = True
    return mask
