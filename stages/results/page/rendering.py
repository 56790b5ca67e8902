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
_VENDOR = Path(__file__).parent / "vendor"      # see vendor.json there
PAGE_FILE = "index.html"
_LIBRARIES = ("graphology.min.js", "sigma.min.js")
_SCRIPTS = ("dom.js", "hints.js", "curves.js", "map.js", "explorer.js", "contents.js")   # each uses those before it


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
    # Our scripts as one, in a scope of their own.
    own = "\n".join(_own(name) for name in _SCRIPTS)
    # A browser that cannot draw the map fails in a script of its own, and the rest goes on.
    drawing = [_vendored(name) for name in _LIBRARIES] if page.data else []
    scripts = [*drawing, f"(() => {{\n\"use strict\";\n{own}}})();\n"]
    return environment.get_template("page.html").render(
        page=page, style=Markup(_own("page.css")), scripts=[Markup(script) for script in scripts],
        policy=_policy(*scripts))


def _vendored(name: str) -> str:
    """Return a library without the comment that names a file which is not here."""
    text = (_VENDOR / name).read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("//# sourceMappingURL"))


def _own(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")      # our own file, no data in it


def _policy(*scripts: str) -> str:
    """Return the Content-Security-Policy: these scripts and no other, nothing from any network.

    Styles are allowed inline because matplotlib writes them as attributes; they can load nothing either.
    """
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
                      for script in scripts)
    return (f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
            f"form-action 'none'")
