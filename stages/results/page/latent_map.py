"""HCL's Figure 3 and Table 4: where inputs, outputs and keywords lie, and what other keywords make of an input."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from stages.results.page.labels import rows_of
from stages.results.page.material import ProbeMaterial

# Kind of point: its name, and its sign on the map.
KINDS = {"input": ("input", "circle"), "positive": ("positive (its target)", "square"),
         "negative": ("negative", "cross"), "output_keyword": ("keyword of the target", "diamond"),
         "impostor_keyword": ("impostor keyword", "triangle")}
_CHOICES = {"textrank": "its own (TextRank)", "random": "random", "given": "given"}
_SHAPES = {"circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "square": "M-3.6 -3.6h7.2v7.2h-7.2z",
           "cross": "M-3.6 -3.6L3.6 3.6M-3.6 3.6L3.6 -3.6", "diamond": "M0 -5L5 0L0 5L-5 0z",
           "triangle": "M0 -5L4.6 4H-4.6z"}
_WIDTH, _HEIGHT, _EDGE = 720, 480, 14
_LETTERS = 160


@dataclass(frozen=True)
class ProbeView:
    """What was found in one model; ``items`` are rows of table ``keyword_swap``, those of one input together."""

    name: str
    model: str
    dataset: str
    swap_counts: list[tuple[str, str]]
    latent_counts: list[tuple[str, str]]
    items: list[list[dict[str, Any]]]
    map: Markup | None
    kinds: list[tuple[str, str, Markup]]


def probe_view(probe: ProbeMaterial) -> ProbeView:
    """Return Table 4 and Figure 3 of one probed model."""
    kinds = [kind for kind in KINDS if not probe.latent.empty and (probe.latent["kind"] == kind).any()]
    signs = [(kind, KINDS[kind][0], Markup(f'<svg class="sign {kind}" viewBox="-7 -7 14 14" aria-hidden="true">'
                                           f'<path d="{_SHAPES[KINDS[kind][1]]}"/></svg>')) for kind in kinds]
    return ProbeView(probe.name, probe.model, probe.dataset, list(rows_of(probe.metrics.get("keyword_swap", {}))),
                     list(rows_of(probe.metrics.get("latent", {}))), list(_items(probe.swaps)),
                     latent_map(probe.latent) if kinds else None, signs)


def latent_map(points: pd.DataFrame) -> Markup:
    """Return the points as an element of the page; each carries its kind and its text for the pointer."""
    marks = []
    for kind, (name, shape) in KINDS.items():
        rows = points[points["kind"] == kind]
        drawn = "".join(_point(row, x, y, name, shape) for row, x, y in zip(
            rows.to_dict("records"), _scaled(rows["x"], points["x"], _WIDTH),
            _scaled(-rows["y"], -points["y"], _HEIGHT), strict=True))
        marks.append(f'<g class="{kind}" data-kind="{kind}">{drawn}</g>')
    label = f"t-SNE of {len(points)} points of the latent space: " + ", ".join(
        f"{count} of kind {kind}" for kind, count in points["kind"].value_counts().sort_index().items())
    return Markup(f'<svg class="map" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
                  f'{"".join(marks)}</svg>')        # numbers of ours and escaped text


def _point(row: dict[str, Any], x: float, y: float, name: str, shape: str) -> str:
    text = row["text"] if len(row["text"]) <= _LETTERS else row["text"][:_LETTERS - 1] + "…"
    hint = escape(f"{name}, example {row['example_id']}: {text}")
    return (f'<path d="{_SHAPES[shape]}" transform="translate({x:.1f} {y:.1f})" data-item="{int(row["example_id"])}" '
            f'data-hint="{hint}"/>')


def _scaled(values: pd.Series, among: pd.Series, extent: int) -> pd.Series:
    """Return places within the picture; one point alone stands in the middle."""
    low, high = float(among.min()), float(among.max())
    if high <= low:
        return values * 0 + extent / 2
    return _EDGE + (values - low) / (high - low) * (extent - 2 * _EDGE)


def _items(swaps: pd.DataFrame) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each input, its own keyword first, their choices in words."""
    for _, rows in swaps.groupby("example_id", sort=True):
        ordered = sorted(rows.to_dict("records"), key=lambda row: (list(_CHOICES) + [row["choice"]]).index(
            row["choice"]))
        yield [{**row, "choice": _CHOICES.get(row["choice"], row["choice"])} for row in ordered]
