"""All layouts by name.

A new layout is a module here, or an entry in one, and its place in the list below. The params, the readers and the
README's table of layouts go by what it declares. Nothing here imports more than the standard library.
"""

from typing import Any

from stages.data.layouts import captions, classes, dialogue, newsgroups, nli, pairs, stories
from stages.data.layouts.layout import BoundLayout, Layout, bound

_LAYOUTS = (*pairs.LAYOUTS, *nli.LAYOUTS, *captions.LAYOUTS, *stories.LAYOUTS, *dialogue.LAYOUTS, *classes.LAYOUTS,
            *newsgroups.LAYOUTS)
LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in _LAYOUTS}


def structure_of(layout: str) -> str:
    """Return what a row is under ``layout``, however its files are laid out: pairs, triples, captions, ..."""
    return LAYOUTS[layout].structure


def layout_of(dataset: Any) -> BoundLayout:
    """Return the layout that the params of ``dataset`` name, with the columns of its roles."""
    return bound(LAYOUTS[dataset.layout], dataset.columns, dataset.quoting)


def needed_columns(dataset: Any) -> dict[str, str]:
    """Return the column that holds each role in use, roles in the order of ``RawRow.content``."""
    return dict(layout_of(dataset).columns)
