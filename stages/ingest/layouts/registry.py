"""All layouts by name.

A new layout is a module here, or an entry in one, and its place in the list below. The params, the readers and the
README's table of layouts go by what it declares. Nothing here imports more than the standard library.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from stages.ingest.layouts import captions, classes, dialogue, newsgroups, nli, pairs, plain, stories
from stages.ingest.layouts.layout import BoundLayout, Layout, bound

_LAYOUTS = (*pairs.LAYOUTS, *nli.LAYOUTS, *captions.LAYOUTS, *stories.LAYOUTS, *dialogue.LAYOUTS, *classes.LAYOUTS,
            *newsgroups.LAYOUTS, *plain.LAYOUTS)
LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in _LAYOUTS}


def layout_of(named: Any) -> BoundLayout:
    """Return the layout that the params of a data set, or of some of its files, name, with the columns of its roles."""
    return bound(LAYOUTS[named.layout], named.columns, named.quoting, named.separator)


def forms_of(dataset: Any) -> list[Any]:
    """Return whatever names a layout of files of ``dataset``: itself, unless all that it names have their own."""
    named = [*dataset.files, *chain.from_iterable(dataset.splits.values())]
    own = [entry for entry in named if not isinstance(entry, str)]
    return own if named and len(own) == len(named) else [dataset, *own]


def roles_of(dataset: Any) -> frozenset[str]:
    """Return the roles that any file of ``dataset`` has a column for."""
    return frozenset(chain.from_iterable(layout_of(form).columns for form in forms_of(dataset)))


def reasons_in_order(dataset: Any) -> Iterable[str]:
    """Yield the categories of reasons for which rows of ``dataset`` are set aside although nothing is wrong."""
    return chain.from_iterable(LAYOUTS[form.layout].set_aside for form in forms_of(dataset))
