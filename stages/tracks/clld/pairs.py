"""Which classes are confusable: as somebody names them, or as a finished model has mistaken them."""

from collections.abc import Sequence

import pandas as pd

from keycontrast.errors import InputError
from models.clld import pairs_within

Pairs = list[tuple[int, int]]
_SHOWN = 12


def named_pairs(groups: Sequence[Sequence[str]], classes: Sequence[str], place: str) -> Pairs:
    """Return the pairs within each group of classes, as indices (a, b) with a < b, sorted.

    Args:
        groups: names, or patterns such as ``comp.*``.
        classes: name of each class, by index.
        place: of the groups in the params, for errors.

    Raises:
        InputError: a name or pattern fits no class, or a group is of one class.
    """
    listed = ", ".join(classes[:_SHOWN]) + (", ..." if len(classes) > _SHOWN else "")
    pairs: set[tuple[int, int]] = set()
    for group in groups:
        try:
            found = pairs_within([group], classes)
        except ValueError as error:
            raise InputError(f"{place}: {error}. The classes are {listed}.") from error
        if not found:
            raise InputError(f"{place}: {list(group)} is one class, and a group needs two. The classes are {listed}.")
        pairs.update(found)
    return sorted(pairs)


def chosen_pairs(table: pd.DataFrame, classes: Sequence[str], model: str) -> Pairs:
    """Return the chosen pairs of table ``confusing_pairs`` as indices, sorted.

    Args:
        table: of a finished model.
        classes: name of each class, by index.
        model: name of that model, for errors.

    Raises:
        InputError: it is a model of other classes, or confuses nothing.
    """
    places = {name: number for number, name in enumerate(classes)}
    chosen = table[table["chosen"]]
    if chosen.empty:
        raise InputError(f"models.clld: model {model!r} confuses no two classes on the validation split, so that there "
                         f"are no pairs to take from it (pairs_of). Name the classes yourself (pairs), or give more of "
                         f"the data to validation (ingest.validation).")
    unknown = [name for name in (*chosen["class"], *chosen["other"]) if name not in places]
    if unknown:
        raise InputError(f"confusing_pairs.parquet of model {model!r}: class {unknown[0]!r} is none of the data set. "
                         f"Train that model again.")
    return sorted((places[a], places[b]) for a, b in zip(chosen["class"], chosen["other"], strict=True))
