"""Tables of the shares of items, split by split, that trainings report; a track declares them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from stages.common.schemas import SPLITS
from stages.results.model import Model
from stages.results.track import SharesLayout, TrackResults


@dataclass(frozen=True)
class SharesTable:
    """A table of shares.

    Attributes:
        groups: headings, and the splits of the columns below each.
        rows: models, and of each its shares from left to right, the mean over its seeds; None where it has none.
    """

    about: SharesLayout
    groups: list[tuple[str, list[str]]]
    rows: list[tuple[str, list[float | None]]]


def shares_tables(track: TrackResults, models: Sequence[Model], evaluated: Collection[str]) -> list[SharesTable]:
    """Return the tables of a track in which any model has a row.

    Args:
        track: of the models.
        models: in the order of the params, seeds of one row together.
        evaluated: splits that stand beside that of training.
    """
    found = []
    for layout in track.shares:
        splits = [split for split in SPLITS if split == "train" or split in evaluated]
        own = [model for model in models if layout.under in model.metrics and layout.concerns(model.settings)]
        rows = [(name, _means(layout, splits, list(seeds)))
                for name, seeds in groupby(own, lambda model: model.paths.name)]
        groups = [*((heading, splits) for heading in layout.by_split.values()),
                  *((heading, ["train"]) for heading in layout.of_training.values())]
        if rows:
            found.append(SharesTable(layout, groups, rows))
    return found


def _means(layout: SharesLayout, splits: Sequence[str], seeds: Sequence[Model]) -> list[float | None]:
    found = [model.metrics[layout.under] for model in seeds]
    values = [[one.get(split, {}).get(key) for one in found] for key in layout.by_split for split in splits]
    values += [[one.get(key) for one in found] for key in layout.of_training]
    return [None if None in row else sum(row) / len(row) for row in values]
