"""docs/architecture.md against the tree: rooms, imports, the journey, and what a new thing touches."""

import re
from functools import cache
from importlib import import_module

import pytest
import yaml
from source_imports import ROOT, imports, is_ours, modules

from stages.common.entries import module_of

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PATH = re.compile(r"`((?:pipeline|stages|models|benchmarks|recipes|docs|tests|metrics|data)/[\w./*-]*)`")
TRACKS = ("hcl", "pgkpr", "clld", "evaluation", "registry")  # the frames beside them are one room
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
SECTIONS = dict(re.findall(r"^(## .*?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
EXTENSIONS = re.findall(r"^### (A new .*?)\n(.*?)(?=^### |\Z)", SECTIONS["## Five things to add"], re.M | re.S)


def room_of(name):
    """The room that a module, or a path, lies in."""
    parts = re.split(r"[./]", name.removesuffix(".py").rstrip("/"))
    if parts[:2] != ["stages", "tracks"]:
        return ".".join(parts[:2])
    return ".".join(parts[:3]) if len(parts) > 2 and parts[2] in TRACKS else "stages.tracks"


def cells(section):
    """The rows of the section's table, as lists of the names in backticks in each cell."""
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[re.findall(r"`([^`]+)`", cell) for cell in row] for row in rows[2:]]


ALLOWED = {room_of(room): {room_of(name) for name in row[-1]}
           for row in cells(SECTIONS["## The rooms"]) for room in row[0]}


@cache
def used():
    """The rooms that each room imports."""
    found = {}
    for module in modules():
        names = {room_of(name) for name in imports(module) if is_ours(name) and "." in name}
        found.setdefault(room_of(module), set()).update(names - {room_of(module)})
    return found


@pytest.mark.parametrize("path", sorted(set(PATH.findall(PAGE))))
def test_every_path_that_the_page_names_is_there(path):
    assert list(ROOT.glob(path.rstrip("/"))), path


def test_every_room_has_its_row_and_no_row_is_left_over():
    rooms = {room_of(module) for module in modules() if "." in module}
    # A module that lies directly in pipeline/ is part of what a person runs, one row for all.
    rooms = {room for room in rooms if not room.startswith("pipeline.") or (ROOT / room.replace(".", "/")).is_dir()}
    assert {room for room in ALLOWED if room != "pipeline"} == rooms


@pytest.mark.parametrize("room", sorted(room for room in ALLOWED if not room.startswith("pipeline")))
def test_a_room_imports_what_the_page_says_and_all_of_that(room):
    assert used()[room] == ALLOWED[room]


def test_no_two_rooms_import_each_other():
    pairs = {(room, other) for room, others in used().items() for other in others}
    assert not {room for room, other in pairs if (other, room) in pairs and not room.startswith("pipeline.")}


def test_the_journey_visits_stages_in_an_order_in_which_data_flows():
    visited = re.findall(r"^\d+\. `(\w+)`", SECTIONS["## The journey of one text"], re.M)
    assert set(visited) <= set(STAGES) and len(visited) == len(set(visited)) >= 9
    made = {}
    for place, name in enumerate(visited):
        entry = STAGES[name].get("do", STAGES[name])
        for kind in ("outs", "metrics", "plots"):
            for item in entry.get(kind, []):
                made[item if isinstance(item, str) else next(iter(item))] = place
    for place, name in enumerate(visited):
        for dep in STAGES[name].get("do", STAGES[name])["deps"]:
            assert made.get(re.sub(r"\$\{item\.\w+\}", "${key}", dep), -1) < place, (name, dep)
        assert module_of(name)


@pytest.mark.parametrize(("title", "text"), EXTENSIONS)
def test_a_new_thing_is_at_most_five_source_files_and_one_registration(title, text):
    """The numbered lines are the files; the one in bold registers."""
    files = re.findall(r"^\d\. .*?`([\w./*<>-]+\.(?:py|yaml))`", text, re.M)
    assert 1 <= len(files) <= 5, title
    registered = re.findall(r"\*\*`([\w.]+):(\w+)`\*\*", text)
    assert len(registered) == 1, title
    module, name = registered[0]
    assert hasattr(import_module(module), name)
    assert len(text.strip().splitlines()) <= 20


def test_there_are_five_things_to_add():
    assert [title.split()[2] for title, _ in EXTENSIONS] == ["contrast", "baseline", "keyword", "metric", "input"]
