"""The picture of a model's latent space (HCL Figure 3), its points placed by t-SNE, the same each time."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from stages.common.figures import PALETTE, Plot, drawing, finished

NAME = "latent"
# Colour says which side of a contrast a point is on, form whether it is a text or a keyword: the two colours are told
# apart by every eye, and the forms without colour.
_MARKS = {
    "input": ("input, mean of the prior", "ink", "o", True),
    "positive": ("target, mean of the posterior", "first", "^", True),
    "negative": ("negative, likewise", "second", "v", True),
    "output_keyword": ("target's keyword, P u", "first", "s", False),
    "impostor_keyword": ("impostor keyword, P u", "second", "D", False),
}
_LINKED = 6
# Enough to draw by, and it hides the last bits of long sums.
_DECIMALS = 3
_EXACT = 1000


def tsne(vectors: np.ndarray, perplexity: float, seed: int) -> tuple[np.ndarray, float]:
    """Return a place in the plane for each vector.

    One thread, the two main axes as the start, and the exact gradient for up to a thousand points, so that nothing
    but the arguments decides.

    Args:
        vectors: points (n, d).
        perplexity: effective number of neighbours; capped at a third of the other points.
        seed: of the random parts of the start.

    Returns:
        Coordinates (n, 2), rounded, and the perplexity used; all 0 for fewer than four points, and for points that
        are all the same, which have no neighbourhoods.
    """
    used = min(perplexity, max(1.0, (len(vectors) - 1) / 3))
    if len(vectors) < 4 or not np.ptp(vectors, axis=0).any():
        return np.zeros((len(vectors), 2)), used
    # The start takes two axes; a latent variable of width 1 has one.
    points = np.pad(vectors.astype(np.float64), ((0, 0), (0, max(0, 2 - vectors.shape[1]))))
    method = "exact" if len(points) <= _EXACT else "barnes_hut"
    with threadpool_limits(limits=1):
        placed = TSNE(n_components=2, perplexity=used, init="pca", random_state=seed % 2**32, method=method,
                      n_jobs=1).fit_transform(points)
    return np.round(placed.astype(np.float64), _DECIMALS) + 0.0, used


def latent_plot(model: str, points: pd.DataFrame, split: str, remark: str) -> Plot:
    """Return the points of a model in the plane.

    Lines join the input of a few items, evenly spread by example id, to their target and their negative.

    Args:
        model: its name.
        points: columns ``example_id``, ``kind``, ``x`` and ``y``; may be empty.
        split: that the items are of.
        remark: what is missing, or what the measures say; it stands below the picture and in its description.
    """
    items = points["example_id"].nunique()
    title = f"Latent space of {model}: {items} {split} items by t-SNE"
    with drawing(6.4, 5.2) as figure:
        axes = figure.add_subplot()
        axes.set_title(title)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel(remark, wrap=True)
        if points.empty:
            axes.text(0.5, 0.5, "nothing to draw", ha="center", va="center", transform=axes.transAxes,
                      color=PALETTE["muted"])
        else:
            _draw(axes, points)
        counts = points["kind"].value_counts()
        shown = ", ".join(f"{_MARKS[kind][0]}: {counts[kind]}" for kind in _MARKS if kind in counts)
        return finished(figure, NAME, title, f"{shown or 'no points'}. {remark}")


def _draw(axes: Axes, points: pd.DataFrame) -> None:
    places = {kind: rows.set_index("example_id")[["x", "y"]] for kind, rows in points.groupby("kind")}
    _draw_links(axes, places)
    for kind, (label, colour, marker, full) in _MARKS.items():
        if kind in places:
            axes.scatter(places[kind]["x"], places[kind]["y"], s=20, marker=marker, linewidths=0.9,
                         facecolors=PALETTE[colour] if full else "none", edgecolors=PALETTE[colour],
                         alpha=0.85, label=f"{label} ({len(places[kind])})")
    axes.figure.legend(loc="outside lower center", ncols=2)


def _draw_links(axes: Axes, places: dict[str, pd.DataFrame]) -> None:
    if "input" not in places:
        return
    ids = places["input"].index
    for item in ids[np.unique(np.linspace(0, len(ids) - 1, _LINKED).round().astype(int))]:
        for kind, line in (("positive", "-"), ("negative", "--")):
            if kind in places and item in places[kind].index:
                ends = pd.concat([places["input"].loc[[item]], places[kind].loc[[item]]])
                axes.plot(ends["x"], ends["y"], line, color=PALETTE[_MARKS[kind][1]], linewidth=0.8, zorder=0.5)
