"""Render the page: one self-contained HTML file, and every plot beside it."""

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stages.results.page.context import Page
from stages.results.page.examples import segments
from stages.results.page.explorer import json_markup
from stages.results.page.labels import percentage

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
    environment.filters |= {"embedded": json_markup, "cut": segments, "percentage": percentage}
    script = f"(() => {{\n\"use strict\";\n{_own('page.js')}}})();\n"
    return environment.get_template("page.html").render(page=page, style=Markup(_own("page.css")),
                                                        script=Markup(script), policy=_policy(script))


def _own(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")      # our own file, no data in it


def _policy(script: str) -> str:
    """Return the Content-Security-Policy: this script and no other, nothing from any network.

    Styles are allowed inline because matplotlib writes them as attributes; they cannot load anything either.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
            f"base-uri 'none'; form-action 'none'")
