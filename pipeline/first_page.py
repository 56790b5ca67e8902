"""A first page: keywords and graph of a data set, as soon as there are any, beside the artifacts that DVC keeps.

It is made with the report's own templates from what is final by then, and may be deleted at any time.
"""

import threading
from dataclasses import replace
from pathlib import Path

from stages.common.paths import ARTIFACTS
from stages.common.settings import read_params
from stages.common.tables import atomic_file
from stages.results.page.context import build
from stages.results.page.material import gather_first
from stages.results.page.rendering import html

FOLDER = ARTIFACTS / "first_page"
_DRAWS = threading.Lock()  # matplotlib's settings are those of the process


def place_of(dataset: str) -> Path:
    """Return where the first page of ``dataset`` lies, or will."""
    return FOLDER / f"{dataset}.html"


def write_first_page(dataset: str) -> Path:
    """Write the page of ``dataset``; the same artifacts give the same bytes, whatever else there is of it.

    Returns:
        Where it is.

    Raises:
        InputError: an artifact cannot be read.
    """
    with _DRAWS:
        page = replace(build(gather_first(read_params(), dataset), examples=0), first=True)
    path = place_of(dataset)
    with atomic_file(path) as temporary:
        temporary.write_text(html(page), encoding="utf-8")
    return path
