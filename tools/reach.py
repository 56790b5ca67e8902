"""Measure for how many test items a keyword graph could tell the target's keyword, by split and number of pairs.

    keycontrast use cpu-hcl-qqp --data DIR && keycontrast run keywords@qqp-pairs
    python tools/reach.py qqp-pairs --csv metrics/evidence/reach.csv --svg docs/img/reach.svg

Nothing is trained. All pairs of a data set are split anew, 2,000 items are tested, and the graph (HCL section 3.2.2) is
made of so many training items. An item is *reachable* if its target's keyword differs from its source's, is a positive
neighbour of it, and does not occur in the source, by word stems. Splits: `component`, no text on two sides; `pair`, by
pairs; `both`, by pairs, each of which makes two items, one in either direction. A target is *seen* if a training item
has the text.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.progress import progress
from stages.common.figures import PALETTE, drawing, finished
from stages.common.methods import KEYWORDS
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES, NO_KEYWORD, TEXTS
from stages.common.tables import read_frame
from stages.graph.relations import relate
from stages.graph.triples import NodeTriples
from stages.metrics.tokens import shows_keyword

TESTED, SIZES, DRAWS = 2000, (625, 1250, 2500, 5000, 10_000, 20_000, 40_000, 80_000, 160_000), 5
SPLITS = {"component": "first", "pair": "second", "both": "good"}  # and their colours
_MAX_NBR, _MAX_OUTPUTS = 16, 512  # as in the block `graph`


@dataclass(frozen=True)
class Pairs:
    """Pairs of texts: ids of source and target (n, 2), components (n,), and of each text its node and the text."""

    ids: np.ndarray
    group: np.ndarray
    node: np.ndarray
    text: np.ndarray
    names: pa.StringArray

    @classmethod
    def read(cls, dataset: str) -> "Pairs":
        """Return all pairs of a data set, whatever split they are in."""
        paths = DatasetPaths(dataset)
        examples, texts, keywords = (read_frame(paths.table(schema.name), schema).sort_values(schema.key[0])
                                     for schema in (EXAMPLES, TEXTS, KEYWORDS))
        names, node = np.unique(keywords["keyword"].to_numpy(str), return_inverse=True)
        return cls(examples[["source_id", "target_id"]].to_numpy(np.int64), examples["group"].to_numpy(), node,
                   texts["text"].to_numpy(object), pa.array(names))

    def drawn(self, split: str, draw: int) -> tuple[np.ndarray, np.ndarray]:
        """Return training and test items (m, 2) of a split, in an order drawn at random."""
        random = np.random.default_rng([draw, len(split)])
        if split == "both":
            items = random.permutation(np.concatenate([self.ids, self.ids[:, ::-1]]))
            return items[TESTED:], items[:TESTED]
        if split == "pair":
            items = random.permutation(self.ids)
            return items[TESTED:], items[:TESTED]
        order = random.permutation(int(self.group.max()) + 1)[self.group]  # of components
        size = np.bincount(self.group)[self.group]
        place = np.lexsort((order, size > TESTED / 10))  # a large one is never tested
        ids = self.ids[place]
        last = TESTED
        while last < len(place) and order[place[last]] == order[place[last - 1]]:
            last += 1
        return random.permutation(ids[last:]), ids[:last]

    def measured(self, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
        """Return what the graph of ``train`` can tell of ``test``."""
        none = self.names.index(NO_KEYWORD).as_py()
        source, target = self.node[train].T.astype(np.int32)
        triples = NodeTriples(self.names, np.arange(len(train)), source, target, np.full(len(train), -1, np.int32),
                              np.ones(len(train), dtype=bool), none)
        edges = relate(triples, _MAX_NBR, _MAX_OUTPUTS, link_inputs=True).edges
        known = edges.target.astype(np.int64) * len(self.names) + edges.source
        first, other = self.node[test].T.astype(np.int64)
        told = np.isin(first * len(self.names) + other, known) & (first != other) & (first != none) & (other != none)
        for place in np.flatnonzero(told):
            told[place] = not shows_keyword(self.text[test[place, 0]], self.names[int(other[place])].as_py())
        seen, degree = np.isin(test[:, 1], train), np.bincount(edges.target, minlength=len(self.names))
        return {"items": len(test), "reach": told.mean(), "target_seen": seen.mean(),
                "reach_seen": told[seen].mean() if seen.any() else np.nan,
                "reach_unseen": told[~seen].mean() if not seen.all() else np.nan,
                "neighbours": float(np.median(degree[first[told]])) if told.any() else np.nan}


def rows(pairs: Pairs) -> Iterator[dict[str, object]]:
    """Yield a row for each split, number of training items and draw."""
    for split in SPLITS:
        for draw in progress(range(DRAWS), f"reach: {split}", unit="draw"):
            train, test = pairs.drawn(split, draw)
            if len(train) < min(SIZES):
                raise InputError(f"{len(pairs.ids):,} pairs are too few: {TESTED:,} items are tested, at least "
                                 f"{min(SIZES):,} more must train. Name a larger data set.")
            for size in sorted({min(size, len(train) // 1000 * 1000) for size in SIZES}):
                yield {"split": split, "training_items": size, "draw": draw, **pairs.measured(train[:size], test)}


def plot(table: pd.DataFrame) -> str:
    """Return the reach by number of training items, and for targets that training has seen or not, as SVG."""
    means = table.groupby(["split", "training_items"]).mean(numeric_only=True)
    with drawing(8.4, 3.4) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for split, colour in SPLITS.items():
            line = means.loc[split]
            left.plot(line.index, line["reach"], "o-", color=PALETTE[colour], label=split)
            if split != "component":
                right.plot(line.index, line["reach_seen"], "o-", color=PALETTE[colour], label=f"{split}, target seen")
                right.plot(line.index, line["reach_unseen"], "o--", color=PALETTE[colour], label=f"{split}, not seen")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xticks([1000, 10_000, 100_000], ["1,000", "10,000", "100,000"])
            axes.minorticks_off()
            axes.set_xlabel("training items")
            axes.legend(frameon=False)
        left.set_title("All test items")
        right.set_title("By whether training has the target's text")
        left.set_ylabel("share that is reachable")
        return finished(figure, "reach", "What the keyword graph can tell", "").svg


def main() -> None:
    """Measure, and write table and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--svg", type=Path, required=True)
    arguments = parser.parse_args()
    table = pd.DataFrame(rows(Pairs.read(arguments.dataset)))
    table.to_csv(arguments.csv, index=False, float_format="%.6g")
    arguments.svg.write_text(plot(table), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"reach: {error}")
