"""Read raw rows, de-duplicate texts, build training items and split them without leakage."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.schemas import SPLITS
from stages.artifacts.tables import Provenance, table_writer, write_json
from stages.ingestion.captions import caption_items
from stages.ingestion.company import Settled, settled
from stages.ingestion.items import NO_TEXT, Items
from stages.ingestion.labelled import labelled_counts, labelled_examples
from stages.ingestion.leaks import leak_lines, leak_report
from stages.ingestion.pairs import Taken, check_share, take_rows
from stages.ingestion.readers import RawRow, needed_columns, read_rows
from stages.ingestion.retrieval import retrieve
from stages.ingestion.rowlog import KEPT
from stages.ingestion.splits import sample_items, split_groups, split_items
from stages.ingestion.tables import example_batches, labelled_batches, text_batches, text_numbers, used_texts
from stages.ingestion.triples import (
    PAPER_TRIPLES,
    given_items,
    labelled_items,
    nearest_rule,
    paraphrase_items,
)
from stages.params.data import Dataset, Ingest
from stages.runtime.errors import InputError, nearest
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.seeds import generator


@dataclass(frozen=True)
class Ingested:
    """What the stage makes; good as long as the scratch folder stands.

    Attributes:
        examples: schema of the examples: ``examples``, or ``labelled_examples``.
        counts: the stage's metrics.
        pieces: makes the pieces of a table, by its file: ``examples``, ``texts``, ``rejected``.
    """

    examples: str
    counts: dict[str, Any]
    pieces: Mapping[str, Callable[[], Iterable[Any]]]


def run(rows: Iterable[RawRow], dataset: Dataset, params: Ingest, seed: int, scratch: Path) -> Ingested:
    """Turn raw rows into examples (METHODS A.1).

    Texts and rows lie on disk; memory holds some tens of bytes per distinct text and per item. Retrieved
    negatives are the exception: they need the texts of a split and their words.

    Args:
        rows: those of one file one after another, numbers rising.
        dataset: names the structure, columns and language.
        params: rules, shares and limits.
        seed: the project's seed.
        scratch: an empty folder; it is needed until the pieces of the result have been written.

    Raises:
        InputError: too many rows are unusable, or they give no examples under ``params``.
    """
    _check_source(dataset, params)
    taken = take_rows(rows, dataset, scratch)
    check_share(taken, params.max_rejected)
    if taken.structure == "labelled":
        return _labelled(taken, dataset, params, seed)
    return _contrasted(settled(taken, params.split_by), dataset, params, seed)


def _contrasted(found: Settled, dataset: Dataset, params: Ingest, seed: int) -> Ingested:
    """Make items of source, target and negative."""
    counts = _counts(found, params)
    items = _items(found, params, seed)
    found.taken.texts.close()
    if not len(items):
        raise InputError(_no_items(dataset, params, len(found.taken.pairs)))
    split, of_group = _split(items, found, params, seed)
    homes = _homes(items, split, of_group, found, params, seed) if params.neg_source == "retrieved" else None
    limits = {"train": params.max_train, "validation": params.max_validation, "test": params.max_test}
    kept = sample_items(split, limits, seed)
    items, split = items.at(kept), split[kept]
    if homes is not None:
        items, split = _with_negatives(items, split, homes, found)
    _check_filled(split)
    group = found.group
    used = used_texts(items, len(group))
    counts |= {
        "texts": {"distinct": len(group), "used": int(np.count_nonzero(used))},
        "examples": _by_split(split), "leak": leak_report(items, split, group)}
    return Ingested("examples", counts, {
        "examples": lambda: example_batches(items, split, group, text_numbers(used), params.neg_source),
        "texts": lambda: text_batches(found.taken.texts, used, dataset.language),
        "rejected": lambda: _rejected(found.taken, found.company.of_takeable)})


def _labelled(taken: Taken, dataset: Dataset, params: Ingest, seed: int) -> Ingested:
    """Make items of text and class."""
    kept, split = labelled_examples(taken, params, seed)
    texts, label = taken.first[kept], taken.label[kept]
    used = np.zeros(taken.n_texts, dtype=bool)
    used[texts] = True
    counts = {"rows": _row_counts(taken), "texts": {"distinct": taken.n_texts, "used": len(texts)},
              "examples": _by_split(split), **labelled_counts(taken, kept, split)}
    return Ingested("labelled_examples", counts, {
        "examples": lambda: labelled_batches(texts, label, taken.labels, split, text_numbers(used)),
        "texts": lambda: text_batches(taken.texts, used, dataset.language),
        "rejected": lambda: _rejected(taken, lambda records: np.full(len(records), KEPT))})


def _rejected(taken: Taken, later: Callable[[np.ndarray], np.ndarray]) -> Iterator[Mapping[str, Any]]:
    return taken.log.rejected(taken.verdicts, taken.takeable, later, taken.labels)


def _check_source(dataset: Dataset, params: Ingest) -> None:
    structure = dataset.structure
    if params.neg_source == "given" and structure in ("pairs", "captions"):
        instead = "retrieved or none" if structure == "captions" else "labelled, retrieved or none"
        raise InputError(f"ingest.neg_source is given, but the data set has layout {dataset.layout}. Set neg_source to "
                         f"{instead}, or give triples (layout: triples, columns.negative).")
    if params.neg_source == "labelled" and structure == "captions":
        raise InputError(f"ingest.neg_source is labelled, but layout {dataset.layout} has no pairs that are labelled "
                         f"as non-paraphrases. Set neg_source to retrieved or none.")


def _no_items(dataset: Dataset, params: Ingest, taken: int) -> str:
    message = f"no example could be made from {taken} usable rows (ingest.neg_source: {params.neg_source}). "
    if dataset.structure == "captions":
        return message + "No group has two texts; name the column that texts of the same meaning share (columns.group)."
    if params.neg_source == "labelled" and "label" not in needed_columns(dataset) and dataset.structure == "pairs":
        return message + "Name the label column (columns.label), or set ingest.neg_source to retrieved."
    if params.neg_source == "labelled":
        return message + ("No text has both a paraphrase and a non-paraphrase; give more data, or set "
                          "ingest.neg_source to retrieved.")
    return message + "Give rows that are paraphrases."


def _items(found: Settled, params: Ingest, seed: int) -> Items:
    taken = found.taken
    if found.captions is not None:
        rank = np.zeros(len(found.captions.bounds) - 1, dtype=np.int8)
        rank[taken.second] = taken.rank
        return caption_items(found.captions, rank, taken.texts, params.caption_source, seed)
    if found.partners is None or params.neg_source == "given":  # only captions have no partners
        return given_items(taken)
    if params.neg_source == "labelled":
        return labelled_items(found.partners, taken.texts, params.qqp_rule, params.neg_pick, seed)
    return paraphrase_items(found.partners)


def _split(items: Items, found: Settled, params: Ingest, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the split of each item and, if components are kept together, of each component."""
    if params.split_by == "pair":
        return split_items(items.rank, found.taken.published, params.validation, params.test, seed), None
    group = found.group
    of_group = split_groups(group[items.source], int(group.max()) + 1, params.validation, params.test, seed,
                            found.highest)
    return of_group[group[items.source]], of_group


def _homes(items: Items, split: np.ndarray, of_group: np.ndarray | None, found: Settled, params: Ingest,
           seed: int) -> np.ndarray:
    """Return the splits in which each paired text may be a negative, (n_texts,) one bit per split.

    If components are kept together a text is at home in its component's split. Else it is where the items
    are that use it; texts of no item are drawn by the shares of the splits, or are where they were published.
    """
    if of_group is not None:
        return np.where(found.paired, _bit(of_group[found.group]), np.int8(0))
    homes = np.zeros(len(found.group), dtype=np.int8)
    np.bitwise_or.at(homes, items.source, _bit(split))
    for texts, owner in items.outputs():
        np.bitwise_or.at(homes, texts, _bit(split[owner]))
    if found.taken.published and found.partners is not None:
        for column in found.partners.others.T:
            np.bitwise_or.at(homes, column, _bit(found.partners.other_rank))
    without = np.flatnonzero(found.paired & (homes == 0))
    shares = [1 - params.validation - params.test, params.validation, params.test]
    homes[without] = _bit(generator(seed, "ingest", "homes").choice(len(SPLITS), size=len(without), p=shares))
    return homes


def _bit(split: np.ndarray) -> np.ndarray:
    return np.left_shift(np.int8(1), split.astype(np.int8))


def _with_negatives(items: Items, split: np.ndarray, homes: np.ndarray, found: Settled) -> tuple[Items, np.ndarray]:
    """Retrieve the negative of each item from the texts of its split; items without one are left out."""
    negative = items.negative.copy()
    texts = found.taken.texts
    for which in np.unique(split).tolist():
        mine = np.flatnonzero(split == which)
        at_home = (homes >> which & 1).astype(bool)
        surfaces = [text for batch in texts.batches(at_home, len(homes)) for text in batch]
        negative[mine] = retrieve(items.source[mine], np.flatnonzero(at_home), found.group, surfaces)
    kept = np.flatnonzero(negative != NO_TEXT)
    empty = _empty(split[kept])
    if empty:
        raise InputError(f"no negative can be retrieved for {empty[0]}: all its texts are connected by pairs. "
                         f"Give more data, or other shares in ingest.")
    whole = Items(items.source, items.target, negative, items.rank, items.group, items.captions)
    return whole.at(kept), split[kept]


def _check_filled(split: np.ndarray) -> None:
    empty = _empty(split)
    if empty:
        raise InputError(f"no example is left for {empty[0]}: the rows that the data set publishes under this split "
                         f"make none. Correct `splits` or columns.split, set ingest.neg_source to retrieved or none, "
                         f"or set ingest.split_by to pair, which leaves rows where they were published.")


def _empty(split: np.ndarray) -> list[str]:
    return [name for name, count in _by_split(split).items() if not count]


def _by_split(split: np.ndarray) -> dict[str, int]:
    return {name: int(np.count_nonzero(split == which)) for which, name in enumerate(SPLITS)}


def _row_counts(taken: Taken) -> dict[str, Any]:
    reasons = taken.rejections()
    return {"read": taken.log.total, "taken": taken.outcomes[KEPT], "rejected": taken.unusable(),
            "duplicates": reasons.get("duplicate", 0), "not_taken_by_reason": reasons}


def _counts(found: Settled, params: Ingest) -> dict[str, Any]:
    """Return the counts of what was read, and of the triples under every rule and source of negatives."""
    taken, partners = found.taken, found.partners
    sizes = np.bincount(found.group[found.paired])
    counts: dict[str, Any] = {
        "rows": _row_counts(taken), "published_splits": [SPLITS[which] for which in taken.published],
        "components": {"count": int(np.count_nonzero(sizes)), "largest_texts": int(sizes.max(initial=0))},
        "negative_source": params.neg_source, "split_by": params.split_by}
    if partners is None:
        groups = int(np.count_nonzero(np.diff(found.captions.bounds) > 1)) if found.captions else 0
        return counts | {"groups": groups, "caption_source": params.caption_source,
                         "triples_by_negative_source": {"given": 0, "labelled": 0, "retrieved": groups, "none": groups}}
    rules, pairs = partners.rule_counts(), len(partners.duplicates)
    return counts | {
        "pairs": {"paraphrases": pairs, "non_paraphrases": len(partners.others)},
        "triples_by_negative_source": {"given": len(taken.negative), "labelled": rules[params.qqp_rule],
                                       "retrieved": pairs, "none": pairs},
        "labelled_triples_by_rule": rules, "rule": params.qqp_rule, "negative_pick": params.neg_pick,
        "paper_triples": PAPER_TRIPLES, "rule_nearest_to_paper": nearest_rule(rules)}


def summary(counts: dict[str, Any]) -> str:
    """Return the lines that the stage prints: rows, triples under each rule and source, splits, leaks."""
    rows = counts["rows"]
    lines = [f"{rows['read']} rows, {rows['taken']} taken; not taken: {_listed(rows['not_taken_by_reason'])}"]
    if counts.get("published_splits"):
        lines.append(f"published splits kept: {', '.join(counts['published_splits'])}")
    if "classes" in counts:
        lines += [f"{name}: {_listed(found)}" for name, found in counts["classes"].items()]
        return _printed([*lines, f"examples: {_listed(counts['examples'])}; rows left out because their text is "
                                 f"evaluated: {counts['leak']['rows_left_out_for_an_evaluated_split']}"])
    lines.append(f"triples by source of negatives: {_listed(counts['triples_by_negative_source'])}; "
                 f"used: {counts['negative_source']}")
    if "rule" in counts:
        lines.append(f"triples with labelled negatives by rule: {_listed(counts['labelled_triples_by_rule'])}; in "
                     f"force: {counts['rule']}; nearest to the paper's {counts['paper_triples']}: "
                     f"{counts['rule_nearest_to_paper']}")
    lines.append(f"{counts['components']['count']} components, the largest of {counts['components']['largest_texts']} "
                 f"texts; split by {counts['split_by']}; examples: {_listed(counts['examples'])}")
    return _printed(lines + [f"leak into {line}" for line in leak_lines(counts["leak"])])


def _listed(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items()) or "none"


def _printed(lines: list[str]) -> str:
    return "".join(f"ingest: {line}\n" for line in lines)


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash

    params = load_params()
    key = process.instance
    if key not in params.datasets:
        raise InputError(f"no data set is called {key!r}; {nearest(key, params.datasets)}")
    dataset, spool = params.datasets[key], process.scratch / "spool"
    if spool.exists():
        rmtree(spool)  # left by an attempt that was killed
    spool.mkdir()
    try:
        made = run(read_rows(dataset), dataset, params.ingest, params.seed, spool)
        provenance = Provenance(process.name, stage_hash(params, "ingest", key), counts=made.counts)
        paths = DatasetPaths(key)
        for name, pieces in made.pieces.items():
            kind = made.examples if name == "examples" else name
            with table_writer(paths.table(name), kind, provenance) as writer:
                for piece in pieces():
                    writer.write(piece)
        write_json(paths.metrics("ingest"), made.counts)
    finally:
        rmtree(spool)
    sys.stderr.write(summary(made.counts))


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("ingest", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
