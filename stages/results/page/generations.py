"""Data of the generations: every run's output for the same items, within a number of bytes."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from stages.results.model import Run
from stages.results.page.embedding import size
from stages.results.page.examples import chosen_examples

ITEMS = 2000            # of one block of results, at most; bytes may allow fewer


def generations_data(runs: Sequence[Run], details: pd.DataFrame | None, budget: int,
                     many: bool = False) -> dict[str, Any]:
    """Return what the page embeds of the outputs of ``runs``, all on the same items.

    Args:
        runs: the runs of one block of results, in its order.
        details: columns example_id, reference_keyword, negative, negative_keyword; None where there are none of them.
        budget: bytes; items beyond it are left out evenly.
        many: a source has several keywords, which are joined by spaces.

    Returns:
        ``runs``: names; ``items``: see :func:`shared_items`; ``total``: evaluated items; with ``many`` also ``many``.
    """
    items = shared_items(runs, details, ITEMS)
    return {"runs": [run.name for run in runs], "items": _within(items, budget),
            "total": max(run.metrics["counts"].get("examples", len(items)) for run in runs),
            **({"many": True} if many else {})}


def shared_items(runs: Sequence[Run], details: pd.DataFrame | None, count: int) -> list[list[Any]]:
    """Return at most ``count`` of the items that all runs have, evenly spread, so that any run shows the same.

    Returns:
        Per item [example_id, keyword, whether it is a node, source, references, reference keyword, negative, negative
        keyword, outputs by run, scores by run].
    """
    rows = {run.name: {row.example_id: row for row in run.predictions.itertuples()} for run in runs}
    more = {} if details is None else {row.example_id: row for row in details.itertuples()}
    shared = sorted(set.intersection(*(set(found) for found in rows.values())))
    return [_item(number, [rows[run.name][number] for run in runs], more.get(number),
                  [run.item_scores.get(number) for run in runs]) for number in chosen_examples(shared, count)]


def _item(number: int, own: Sequence[Any], detail: Any, scores: Sequence[Any]) -> list[Any]:
    # A run without keyword has none in its predictions; another of the same data set knows it.
    first = next((row for row in own if isinstance(row.keyword, str)), own[0])
    keyword = first.keyword if isinstance(first.keyword, str) else None
    beyond = (None, None, None) if detail is None else (
        detail.reference_keyword, detail.negative, detail.negative_keyword)
    return [int(number), keyword, bool(first.keyword_known), first.source, [str(text) for text in first.references],
            *beyond, [row.prediction for row in own], list(scores)]


def _within(items: list[list[Any]], budget: int) -> list[list[Any]]:
    """Return evenly spaced items that take at most ``budget`` bytes together."""
    sizes = [size(item) + 1 for item in items]
    count = len(items)
    while count and sum(sizes[place] for place in chosen_examples(range(len(items)), count)) > budget:
        count = count * 19 // 20
    return [items[place] for place in chosen_examples(range(len(items)), count)]
