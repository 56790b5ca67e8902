"""Data of the comparison of classifiers text by text: every text that any of them has wrong."""

from collections.abc import Sequence
from typing import Any

from stages.results.model import Run
from stages.results.page.embedding import fitting


def mistakes_data(runs: Sequence[Run], budget: int) -> dict[str, Any]:
    """Return what the page embeds of the mistakes of ``runs``, all on the same texts.

    Args:
        runs: classifiers, in the order of the params.
        budget: bytes; of more texts the first ones are kept.

    Returns:
        ``runs``: names; ``items``: [example_id, class, text, per run null where it is right and else [class that it
        says, its probability]]; ``wrong``: texts that any run has wrong; ``apart``: texts that not all say the same
        of; ``total``: texts.
    """
    found: dict[int, list[Any]] = {}
    for place, run in enumerate(runs):
        for row in run.classifier.mistakes.itertuples() if run.classifier is not None else ():
            item = found.setdefault(int(row.example_id), [int(row.example_id), row.label, row.text, [None] * len(runs)])
            item[3][place] = [row.predicted, round(float(row.probability), 3)]
    items = [found[number] for number in sorted(found)]
    total = max((run.metrics["counts"].get("examples", len(items)) for run in runs), default=0)
    apart = sum(len({label if one is None else one[0] for one in said}) > 1 for _, label, _, said in items)
    return {"runs": [run.name for run in runs], "items": fitting(items, budget, list), "wrong": len(items),
            "apart": apart, "total": total}
