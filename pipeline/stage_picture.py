"""A picture of the DAG for README: its stages in about twelve boxes, as SVG. ``make docs`` writes it."""

import re
import textwrap
from pathlib import Path

import networkx as nx
import yaml
from dvc.repo import Repo

# A box shows the stages of one folder of code, except these: they read what other folders write.
_OWN_BOX = {"keywords": "choice", "keyword_comparison": "comparison", "manifest": "results"}
# Of each box: its title, and its column and row in the picture.
_BOXES: dict[str, tuple[str, float, int]] = {
    "ingest": ("Read, deduplicate, split", 1, 0), "annotate": ("Tokens, tags, noun chunks", 1, 1),
    "keywords": ("Rank phrases", 0, 2), "attribution": ("Keywords by gradients", 1, 2),
    "psi": ("Keywords by word vectors", 2, 2), "choice": ("Choose a keyword per text", 0, 3),
    "graph": ("Build the keyword graph", 0, 4), "hcl": ("Train and evaluate HCL", 0, 5),
    "comparison": ("Compare keyword methods", 1, 5), "pgkpr": ("Train and evaluate PGKPR", 2, 5),
    "clld": ("Train and evaluate CLLD", 3, 5), "results": ("Compare and report", 1.5, 6)}
_DATA, _MODEL, _PROJECT = ("#1f6f94", "#e9f1f4"), ("#b4531f", "#f8eee9"), ("#2c7a55", "#eaf2ee")   # border, inside
_COLOURS = {**dict.fromkeys(("hcl", "pgkpr", "clld"), _MODEL), "results": _PROJECT}
_LEGEND = {_DATA[0]: "once per data set", _MODEL[0]: "once per model and run", _PROJECT[0]: "once per project"}
_WIDE, _HIGH, _ACROSS, _DOWN = 206, 66, 225, 96     # pixels: a box, and from one box to the next


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
    graph = nx.transitive_reduction(nx.DiGraph((first, other) for first, other in edges if first != other))
    wide = int((1 + max(column for _, column, _ in _BOXES.values())) * _ACROSS)
    high = (1 + max(row for _, _, row in _BOXES.values())) * _DOWN
    parts = [_edge(*_centre(first), *_centre(other)) for first, other in sorted(graph.edges)]
    parts += [_box(name, stages[name]) for name in _BOXES]
    parts += [f'<rect x="18" y="{22 + 23 * row}" width="11" height="11" fill="{colour}"/>'
              f'<text x="40" y="{32 + 23 * row}" fill="#5b6471">{meaning}</text>'
              for row, (colour, meaning) in enumerate(_LEGEND.items())]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        'font-family="system-ui, sans-serif" font-size="11">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#5b6471"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#fdfdfc"/>', *parts, "</svg>", ""])


def _box_of(stage: str, command: str) -> str:
    folder, *rest = re.findall(r"\w+", command.partition("stages")[2].removeprefix("/run.sh"))
    name = _OWN_BOX.get(stage, rest[0] if folder == "tracks" else folder)
    if name not in _BOXES:
        raise ValueError(f"stage {stage} is in stages/{folder}, which has no box in pipeline/stage_picture.py")
    return name


def _centre(name: str) -> tuple[float, float]:
    _, column, row = _BOXES[name]
    return (column + 0.5) * _ACROSS, (row + 0.5) * _DOWN


def _edge(x: float, y: float, x_end: float, y_end: float) -> str:
    # An edge bends below the box it leaves, so that a long one goes down the column of the box it reaches.
    start, bend = y + _HIGH / 2, y + _DOWN - _HIGH / 2 - 8
    return (f'<path d="M{x} {start}C{x} {bend} {x_end} {start} {x_end} {bend}V{y_end - _HIGH / 2}" fill="none" '
            f'stroke="#5b6471" marker-end="url(#head)"/>')


def _box(name: str, stages: list[str]) -> str:
    (x, y), (border, inside), lines = _centre(name), _COLOURS.get(name, _DATA), textwrap.wrap(", ".join(stages), 34)
    top = y + 4 - 7 * len(lines)
    texts = "".join(f'<text x="{x}" y="{top + 14 * number}" fill="#5b6471">{line}</text>'
                    for number, line in enumerate(lines, 1))
    return (f'<g text-anchor="middle"><rect x="{x - _WIDE / 2}" y="{y - _HIGH / 2}" width="{_WIDE}" height="{_HIGH}" '
            f'rx="9" fill="{inside}" stroke="{border}"/><text x="{x}" y="{top}" font-size="12" font-weight="bold" '
            f'fill="#1b1f24">{_BOXES[name][0]}</text>{texts}</g>')
