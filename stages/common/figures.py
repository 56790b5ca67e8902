"""Matplotlib figures as files and as SVG inside the page, with the same bytes each time."""

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import matplotlib.style
from markupsafe import Markup, escape
from matplotlib.figure import Figure

# Colours in files; on the page each becomes the CSS variable of its name, so that plots follow the reader's light or
# dark setting.
PALETTE = {"ink": "#1b1f24", "muted": "#5b6471", "line": "#dfe3e8", "paper": "#fdfdfc", "first": "#1f6f94",
           "second": "#b4531f", "good": "#2c7a55", "bad": "#ac3b45", "violet": "#7a4fa3", "ochre": "#8a6100",
           "olive": "#56701f", "slate": "#4f6178"}
# Colours of the series of a plot, in this order and then again.
SERIES = ("first", "second", "violet", "good", "ochre", "bad", "olive", "slate")
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "keycontrast", "svg.fonttype": "none", "text.parse_math": False, "font.family": "DejaVu Sans",
    "font.size": 9.0, "text.color": PALETTE["ink"], "axes.labelcolor": PALETTE["muted"],
    "axes.edgecolor": PALETTE["line"], "axes.titlecolor": PALETTE["ink"], "axes.titlesize": 9.5,
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.axisbelow": True, "grid.color": PALETTE["line"], "grid.linewidth": 0.6, "xtick.color": PALETTE["line"],
    "ytick.color": PALETTE["line"], "xtick.labelcolor": PALETTE["muted"], "ytick.labelcolor": PALETTE["muted"],
    "figure.facecolor": PALETTE["paper"], "axes.facecolor": PALETTE["paper"], "legend.frameon": False,
    "legend.fontsize": 8.0, "lines.linewidth": 1.6, "lines.markersize": 3.5,
}


@dataclass(frozen=True)
class Plot:
    """A finished plot."""

    name: str  # stem of its files
    title: str  # heading, with which the text alternative begins
    description: str  # the rest of the text alternative
    svg: str
    notes: Mapping[str, str] = field(default_factory=dict)  # tooltips by the id of a part

    @property
    def width(self) -> int:
        """Width in pixels."""
        return _width(self.svg)

    @property
    def inline(self) -> Markup:
        """The plot as an element of the page, see :func:`inline_svg`."""
        return inline_svg(self.svg, self.name, f"{self.title}: {self.description}", self.notes)


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure of that size in inches, in the page's style and without the user's settings."""
    with matplotlib.style.context(["default", _STYLE]):
        yield Figure(figsize=(width, height), layout="constrained")


def file_name(*parts: str) -> str:
    """Return a file stem or id from names: ``file_name("history", "hcl", "loss") == "history--hcl--loss"``."""
    return "--".join(re.sub(r"[^A-Za-z0-9._-]+", ".", part) for part in parts)


def finished(figure: Figure, name: str, title: str, description: str, notes: Mapping[str, str] | None = None) -> Plot:
    """Return ``figure`` as a plot; to be called inside :func:`drawing`."""
    svg = io.StringIO()
    with warnings.catch_warnings():
        # The font that measures texts may lack a script; an SVG leaves texts to the reader's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Plot(name, title, description, svg.getvalue(), notes or {})


def inline_svg(svg: str, name: str, text: str, notes: Mapping[str, str] | None = None) -> Markup:
    """Return matplotlib's SVG as an element of the page without fixed size, with colours as CSS variables.

    ``name`` becomes the prefix of ids that are referred to; others are removed. ``text`` is the text alternative. The
    parts in ``notes``, tooltips by id, and the legend become ``data-part``, with the tooltip as ``data-hint``.
    """
    body = svg[svg.index("<svg"):]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    for part, note in {"legend": "", **(notes or {})}.items():
        hint = f' data-hint="{escape(note)}"' if note else ""
        body = body.replace(f' id="{part}"', f' data-part="{part}"{hint}')
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', body))
    body = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", body)
    body = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", body)
    for colour, value in PALETTE.items():
        body = body.replace(value, f"var(--{colour})")
    size = f' style="max-width:{width}px"' if (width := _width(svg)) else ""
    opening = f'<svg role="img" aria-label="{escape(text)}"{size}'
    body = re.sub(r'\s(?:width|height)="[\d.]+pt"', "", body.replace("<svg", opening, 1))
    return Markup(body)     # matplotlib's own output and escaped text


def _width(svg: str) -> int:
    viewbox = re.search(r'viewBox="0 0 ([\d.]+) ', svg)  # in points
    return round(float(viewbox[1]) * 4 / 3) if viewbox else 0
