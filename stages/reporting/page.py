"""Render the page: one self-contained HTML file, and every plot beside it."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stages.reporting.context import Page

_TEMPLATES = Path(__file__).parent / "templates"
PAGE_FILE = "index.html"


def rendered(page: Page) -> dict[str, bytes]:
    """Return the files of the report by name: the page, and ``plots/<name>.svg`` and ``.png``."""
    files = {PAGE_FILE: html(page).encode()}
    for plot in page.plots:
        files[f"plots/{plot.name}.svg"] = plot.svg.encode()
        files[f"plots/{plot.name}.png"] = plot.png
    return files


def html(page: Page) -> str:
    """Return the page as HTML; whatever comes from data is escaped."""
    environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    style = Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8"))   # our own file, no data in it
    return environment.get_template("page.html").render(page=page, style=style)
