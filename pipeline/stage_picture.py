"""A picture of the DAG for README: its stages in about twelve boxes, as SVG. ``make docs`` writes it."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import networkx as nx
import yaml
from dvc.repo import Repo
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import BoxStyle, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path as LinePath

from stages.common.figures import PALETTE, drawing, svg_text

# A box shows the stages of one folder of code, except these: they read what other folders write.
_OWN_BOX = {"keywords": "choice", "side_by_side": "comparison", "manifest": "results"}
# Of each box: its title, and its column and row in the picture.
_BOXES: dict[str, tuple[str, float, int]] = {
    "ingest": ("Read, deduplicate, split", 1, 0), "annotate": ("Tokens, tags, noun chunks", 1, 1),
    "keywords": ("Rank phrases", 0, 2), "attribution": ("Keywords by gradients", 1, 2),
    "psi": ("Keywords by word vectors", 2, 2), "choice": ("Choose a keyword per text", 0, 3),
    "graph": ("Build the keyword graph", 0, 4), "hcl": ("Train and evaluate HCL", 0, 5),
    "comparison": ("Compare keyword methods", 1, 5), "pgkpr": ("Train and evaluate PGKPR", 2, 5),
    "clld": ("Train and evaluate CLLD", 3, 5), "results": ("Compare and report", 1.5, 6)}
_COLOURS = {**dict.fromkeys(("hcl", "pgkpr", "clld"), PALETTE["second"]), "results": PALETTE["good"]}
_LEGEND = {PALETTE["first"]: "once per data set", PALETTE["second"]: "once per model and run",
           PALETTE["good"]: "once per project"}
_WIDE, _HIGH, _ACROSS, _DOWN = 2.14, 0.68, 2.34, 1.0     # inches: a box, and from one box to the next


def stage_picture(root: Path) -> str:
    """Return the picture of the DAG of the project in ``root`` as SVG.

    Edges are those between the stages that ``params.yaml`` asks for; one that follows from others is left out.

    Raises:
        ValueError: a stage is in a folder that has no box here.
    """
    stages: dict[str, list[str]] = {name: [] for name in _BOXES}
    for name, entry in yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))["stages"].items():
        stages[_box_of(name, entry.get("do", entry)["cmd"])].append(name)
    with Repo(str(root)) as repo:
        edges = {tuple(_box_of(stage.name.partition("@")[0], stage.cmd) for stage in (needed, needing))
                 for needing, needed in repo.index.graph.edges}
    graph = nx.transitive_reduction(nx.DiGraph((one, other) for one, other in edges if one != other))
    return _drawn(stages, sorted(graph.edges))


def _box_of(stage: str, command: str) -> str:
    folder, *rest = re.findall(r"\w+", command.partition("stages")[2].removeprefix("/run.sh"))
    name = _OWN_BOX.get(stage, rest[0] if folder == "tracks" else folder)
    if name not in _BOXES:
        raise ValueError(f"stage {stage} is in stages/{folder}, which has no box in pipeline/stage_picture.py")
    return name


def _drawn(stages: Mapping[str, Sequence[str]], edges: Sequence[tuple[str, str]]) -> str:
    wide = (1 + max(column for _, column, _ in _BOXES.values())) * _ACROSS
    high = (1 + max(row for _, _, row in _BOXES.values())) * _DOWN
    with drawing(wide, high) as figure:
        figure.set_layout_engine("none")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, wide)
        axes.set_ylim(high, 0)
        for one, other in edges:
            _draw_edge(axes, _centre(one), _centre(other))
        for name in _BOXES:
            _draw_box(axes, name, stages[name])
        for row, (colour, meaning) in enumerate(_LEGEND.items()):
            y = 0.3 + 0.24 * row
            axes.plot(0.25, y, "s", color=colour, markersize=8)
            axes.text(0.42, y, meaning, va="center", fontsize=8.5, color=PALETTE["muted"])
        return svg_text(figure).replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans', sans-serif")


def _centre(name: str) -> tuple[float, float]:
    _, column, row = _BOXES[name]
    return (column + 0.5) * _ACROSS, (row + 0.5) * _DOWN


def _draw_edge(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    (x, y), (x_end, y_end) = start, end
    y, y_end = y + _HIGH / 2, y_end - _HIGH / 2
    # An edge bends below the box it leaves, so that a long one goes down the column of the box it reaches.
    bend = y + _DOWN - _HIGH - 0.1      # the rest is straight, for the head
    line = LinePath([(x, y), (x, bend), (x_end, y), (x_end, bend), (x_end, y_end)],
                    [LinePath.MOVETO, LinePath.CURVE4, LinePath.CURVE4, LinePath.CURVE4, LinePath.LINETO])
    axes.add_patch(FancyArrowPatch(path=line, arrowstyle="-|>", mutation_scale=10, color=PALETTE["muted"],
                                   linewidth=1.1, zorder=1))


def _draw_box(axes: Axes, name: str, stages: Sequence[str]) -> None:
    (x, y), colour = _centre(name), _COLOURS.get(name, PALETTE["first"])
    axes.add_patch(FancyBboxPatch(
        (x - _WIDE / 2, y - _HIGH / 2), _WIDE, _HIGH, boxstyle=BoxStyle.Round(pad=0, rounding_size=0.1),
        facecolor=tuple(0.9 + 0.1 * part for part in to_rgb(colour)), edgecolor=colour, linewidth=1.0, zorder=2))
    lines = textwrap.wrap(", ".join(stages), 34)
    top = y - 0.075 * len(lines)
    axes.text(x, top, _BOXES[name][0], ha="center", va="center", fontsize=9, weight="bold", zorder=3)
    for number, line in enumerate(lines, 1):
        axes.text(x, top + 0.03 + 0.155 * number, line, ha="center", va="center", fontsize=7.5, color=PALETTE["muted"],
                  zorder=3)
