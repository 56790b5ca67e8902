"""The results tables: floors first, then runs, the best run of each column marked."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from stages.reporting.gather import RunMaterial
from stages.reporting.labels import number


@dataclass(frozen=True)
class Column:
    """One metric: its key in ``metrics.json``, its heading, and whether more is better (0: neither)."""

    key: str
    label: str
    direction: int = 1
    digits: int = 3


@dataclass(frozen=True)
class ColumnGroup:
    """Columns that belong together under one heading."""

    label: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Cell:
    """A formatted value; ``best`` marks the best run of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One system."""

    name: str
    floor: bool
    cells: list[Cell]


@dataclass(frozen=True)
class ResultTable:
    """A table as the template draws it."""

    title: str
    note: str
    groups: tuple[ColumnGroup, ...]
    rows: list[Row]

    @property
    def columns(self) -> list[Column]:
        """Columns of all groups, from left to right."""
        return [column for group in self.groups for column in group.columns]


@dataclass(frozen=True)
class ResultBlock:
    """Runs that were evaluated on the same examples."""

    dataset: str
    split: str
    counts: dict[str, int]
    settings: dict[str, Any]
    runs: list[str]
    tables: list[ResultTable]


def _orders(prefix: str, name: str) -> tuple[Column, ...]:
    return tuple(Column(f"{prefix}_{order}", f"{name}-{order}") for order in range(1, 5))


MAIN = (
    ColumnGroup("Sentence BLEU, one order each, smoothing 7", _orders("bleu", "BLEU")),
    ColumnGroup("Embedding similarity", (Column("extrema", "Extrema"), Column("average", "Average"),
                                         Column("greedy", "Greedy"))),
    ColumnGroup("Variety", (Column("distinct_1", "Distinct-1"), Column("distinct_2", "Distinct-2"))),
    ColumnGroup("Length", (Column("mean_length", "tokens", 0, 1),)),
)
ORDINARY = (
    ColumnGroup("Corpus BLEU, cumulative, unsmoothed", _orders("corpus_bleu", "BLEU")),
    ColumnGroup("sacreBLEU", (Column("sacrebleu", "0 to 100", digits=2),)),
    ColumnGroup("Rewriting", (Column("source_bleu", "source BLEU-4", -1), Column("ibleu", "iBLEU"))),
)
SMOOTHED = (ColumnGroup("Sentence BLEU, cumulative, smoothing 7", _orders("cumulative_m7", "BLEU")),)
WITHIN = ColumnGroup("Within an item", (Column("intra_distinct_1", "Distinct-1"),
                                        Column("intra_distinct_2", "Distinct-2")))


def result_blocks(runs: Sequence[RunMaterial]) -> list[ResultBlock]:
    """Return the results, runs on the same examples (hence with the same floors) together."""
    def examples(run: RunMaterial) -> tuple[str, str, str]:
        metrics = run.metrics
        return (run.dataset, str(metrics["settings"].get("split", "")),
                json.dumps([metrics["floors"], metrics["counts"].get("examples")], sort_keys=True))

    # Runs keep their order within a block, blocks that of their first run.
    order: dict[tuple[str, str, str], int] = {}
    for run in runs:
        order.setdefault(examples(run), len(order))
    placed = sorted(runs, key=lambda run: order[examples(run)])
    return [_block(key[0], key[1], list(members)) for key, members in groupby(placed, examples)]


def _block(dataset: str, split: str, runs: list[RunMaterial]) -> ResultBlock:
    first = runs[0].metrics
    within = (WITHIN,) if any("intra_distinct_1" in run.metrics["run"] for run in runs) else ()
    tables = [
        _table("As HCL reports them", "BLEU-n here is the mean of sentence BLEU with order n alone and NLTK's "
               "smoothing method 7. It lifts low scores, and identical texts score above 1, up to 4/3: never "
               "compare it with ordinary BLEU.", (*MAIN, *within), runs),
        _table("Ordinary BLEU and rewriting", "Source BLEU compares an output with its own source: lower means "
               "more rewriting. iBLEU weighs BLEU against the references with 0.8 and source BLEU with -0.2.",
               ORDINARY, runs),
        _table("Cumulative sentence BLEU", "The same smoothing as in the first table, with uniform weights on "
               "orders 1 to n.", SMOOTHED, runs),
    ]
    return ResultBlock(dataset, split, first["counts"], first["settings"], [run.name for run in runs], tables)


def _table(title: str, note: str, groups: tuple[ColumnGroup, ...], runs: list[RunMaterial]) -> ResultTable:
    columns = [column for group in groups for column in group.columns]
    best = {column.key: _best(column, [run.metrics["run"] for run in runs]) for column in columns}
    rows = [Row(name, True, [Cell(_text(column, values)) for column in columns])
            for name, values in runs[0].metrics["floors"].items()]
    rows += [Row(run.name, False, [_cell(column, run.metrics["run"], best[column.key]) for column in columns])
             for run in runs]
    return ResultTable(title, note, groups, rows)


def _best(column: Column, runs: list[dict[str, float]]) -> float | None:
    """The best value of a column; None where nothing is better, or there is nothing to be better than."""
    values = [values[column.key] for values in runs if column.key in values]
    if len(values) < 2 or not column.direction or len(set(values)) == 1:
        return None
    return max(values) if column.direction > 0 else min(values)


def _cell(column: Column, values: dict[str, float], best: float | None) -> Cell:
    return Cell(_text(column, values), best is not None and values.get(column.key) == best)


def _text(column: Column, values: dict[str, float]) -> str:
    return number(float(values[column.key]), column.digits) if column.key in values else "–"
