"""Read raw pairs or triples, de-duplicate texts, build training triples and split them without leakage."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.schemas import SPLITS
from stages.artifacts.tables import Provenance, write_json, write_table
from stages.ingestion.pairs import Taken, check_share, take_rows
from stages.ingestion.readers import RawRow, read_rows
from stages.ingestion.retrieval import retrieve
from stages.ingestion.splits import sample_items, split_groups
from stages.ingestion.triples import (
    Items,
    Relations,
    given_items,
    labelled_items,
    paraphrase_items,
    relations,
)
from stages.params.data import Dataset, Ingest
from stages.runtime.errors import InputError, nearest
from stages.runtime.process import StageProcess, run_stage


@dataclass(frozen=True)
class Ingested:
    """What the stage makes: the tables ``examples``, ``texts`` and ``rejected``, and its counts."""

    examples: pd.DataFrame
    texts: pd.DataFrame
    rejected: pd.DataFrame
    counts: dict[str, Any]


def run(rows: Iterable[RawRow], dataset: Dataset, params: Ingest, seed: int) -> Ingested:
    """Turn raw rows into examples (METHODS A.1).

    Raises:
        InputError: too many rows are unusable, or they give no examples under ``params``.
    """
    _check_source(dataset, params)
    taken = take_rows(rows, dataset)
    check_share(taken, params.max_rejected)
    partners = relations(taken)
    items = _items(taken, partners, params, seed)
    if not len(items):
        raise InputError(_no_items(dataset, params, len(taken.source)))
    group_split = split_groups(partners.group[items.source], int(partners.group.max()) + 1, params.validation,
                               params.test, seed)
    limits = {"train": params.max_train, "validation": params.max_validation, "test": params.max_test}
    items = items.at(sample_items(group_split[partners.group[items.source]], limits, seed))
    if params.neg_source == "retrieved":
        items = _with_negatives(items, taken, partners, group_split[partners.group])
    split = group_split[partners.group[items.source]]
    examples, texts = _tables(items, split, partners, taken, dataset.language, params.neg_source)
    return Ingested(examples, texts, _rejected(taken), _counts(taken, partners, examples, texts, params))


def _check_source(dataset: Dataset, params: Ingest) -> None:
    if params.neg_source == "given" and dataset.layout != "triples":
        raise InputError("ingest.neg_source is given, but the data set has layout pairs. Set neg_source to labelled "
                         "or retrieved, or give triples (layout: triples, columns.negative).")


def _no_items(dataset: Dataset, params: Ingest, taken: int) -> str:
    message = f"no example could be made from {taken} usable rows (ingest.neg_source: {params.neg_source}). "
    if params.neg_source == "labelled" and dataset.layout == "pairs" and dataset.columns.label is None:
        return message + "Name the label column (columns.label), or set ingest.neg_source to retrieved."
    if params.neg_source == "labelled":
        return message + ("No text has both a paraphrase and a non-paraphrase; give more data, or set "
                          "ingest.neg_source to retrieved.")
    return message + "Give rows that are paraphrases."


def _items(taken: Taken, partners: Relations, params: Ingest, seed: int) -> Items:
    if params.neg_source == "given":
        return given_items(taken)
    if params.neg_source == "labelled":
        return labelled_items(partners, taken.texts, seed)
    return paraphrase_items(partners)


def _with_negatives(items: Items, taken: Taken, partners: Relations, text_split: np.ndarray) -> Items:
    """Retrieve the negative of each item from the paired texts of its split; items without one are left out."""
    negative = items.negative.copy()
    paired = partners.paired()
    for which in range(len(SPLITS)):
        mine = np.flatnonzero(text_split[items.source] == which)
        pool = paired[text_split[paired] == which]
        negative[mine] = retrieve(items.source[mine], pool, partners.group, taken.texts.surfaces, taken.texts.keys)
    found = Items(items.source, items.target, negative).at(np.flatnonzero(negative >= 0))
    present = set(text_split[found.source].tolist())
    empty = [name for which, name in enumerate(SPLITS) if which not in present]
    if empty:
        raise InputError(f"no negative can be retrieved for {empty[0]}: all its texts are connected by pairs. "
                         f"Give more data, or other shares in ingest.")
    return found


def _tables(items: Items, split: np.ndarray, partners: Relations, taken: Taken, language: str,
            origin: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return examples and the texts that they use, the latter numbered anew by first appearance."""
    used, inverse = np.unique(np.concatenate([items.source, items.target, items.negative]), return_inverse=True)
    source, target, negative = inverse.reshape(3, -1)
    examples = pd.DataFrame({
        "example_id": np.arange(len(items)), "split": np.array(SPLITS)[split], "source_id": source,
        "target_id": target, "negative_id": negative, "reference_ids": list(target[:, None]),
        "group": partners.group[items.source], "negative_origin": origin})
    texts = pd.DataFrame({"text_id": np.arange(len(used)), "text": [taken.texts.surfaces[n] for n in used],
                          "language": language})
    return examples, texts


def _rejected(taken: Taken) -> pd.DataFrame:
    ordered = sorted(taken.rejected, key=lambda item: (item.row.file, item.row.row))
    return pd.DataFrame({"file": [item.row.file for item in ordered], "row": [item.row.row for item in ordered],
                         "reason": [item.reason for item in ordered], "raw": [item.raw for item in ordered]})


def _counts(taken: Taken, partners: Relations, examples: pd.DataFrame, texts: pd.DataFrame,
            params: Ingest) -> dict[str, Any]:
    paired = partners.group[partners.paired()]
    sizes = np.bincount(paired)
    rules = partners.rule_counts()
    return {
        "rows": {"read": taken.rows, "taken": len(taken.source), "rejected": len(taken.unusable()),
                 "duplicates": len(taken.rejected) - len(taken.unusable()), "not_taken_by_reason": taken.rejections()},
        "pairs": {"paraphrases": len(partners.duplicates), "non_paraphrases": len(partners.others)},
        "triples_by_negative_source": {"labelled": rules["undirected_one"], "retrieved": len(partners.duplicates)},
        "labelled_triples_by_rule": rules,
        "components": {"count": int(np.count_nonzero(sizes)), "largest_texts": int(sizes.max(initial=0))},
        "texts": {"distinct": len(taken.texts.keys), "used": len(texts)},
        "examples": {name: int((examples["split"] == name).sum()) for name in SPLITS},
        "negative_source": params.neg_source, "rule": params.qqp_rule, "split_by": params.split_by,
    }


def summary(counts: dict[str, Any]) -> str:
    """Return the lines that the stage prints: rows, triples under each rule, splits."""
    rows, triples, components = counts["rows"], counts["triples_by_negative_source"], counts["components"]
    rules, reasons, splits = (", ".join(f"{name} {number}" for name, number in part.items()) or "none" for part in (
        counts["labelled_triples_by_rule"], rows["not_taken_by_reason"], counts["examples"]))
    return (f"ingest: {rows['read']} rows, {rows['taken']} taken; not taken: {reasons}\n"
            f"ingest: triples with labelled negatives {triples['labelled']} ({rules}); "
            f"with retrieved negatives {triples['retrieved']}; used: {counts['negative_source']}\n"
            f"ingest: {components['count']} components, the largest of {components['largest_texts']} texts; "
            f"examples: {splits}\n")


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash

    params = load_params()
    key = process.instance
    if key not in params.datasets:
        raise InputError(f"no data set is called {key!r}; {nearest(key, params.datasets)}")
    made = run(read_rows(params.datasets[key]), params.datasets[key], params.ingest, params.seed)
    provenance = Provenance(stage=process.name, params_hash=stage_hash(params, "ingest", key), counts=made.counts)
    paths = DatasetPaths(key)
    for kind in ("examples", "texts", "rejected"):
        write_table(paths.table(kind), kind, getattr(made, kind), provenance)
    write_json(paths.metrics("ingest"), made.counts)
    sys.stderr.write(summary(made.counts))


def main(argv: list[str] | None = None) -> int:
    """Run the stage; see ``--help``."""
    return run_stage("ingest", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
