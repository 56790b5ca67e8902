"""Documents: generated parts are up to date, names in them exist, links of the site, and the tutorial runs."""

import importlib
import json
import re
from functools import reduce

import matplotlib
import pytest
import typer
from source_imports import ROOT

import keycontrast
from pipeline import pages
from pipeline.cli import app
from pipeline.documentation import documents
from pipeline.schemas import SCHEMAS
from stages.params import Params

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
METHODS = [ROOT / "docs" / f"{method}.md" for method in ("hcl", "pgkpr", "clld")]


def test_references_have_every_public_name_every_command_and_every_table():
    shown = re.search(r"members: \[(.*?)\]", pages.PACKAGE)[1].split(", ")
    assert sorted(shown) == sorted(set(keycontrast.__all__) - {"InputError", "Texts"})
    command = typer.main.get_command(app)
    text = pages.commands()
    assert all(f"## `keycontrast {name}`" in text and f"* `{name}`: " in text for name in command.commands)
    assert all(f"## {name}\n" in pages.data_dictionary() for name in SCHEMAS)


def test_generated_documents_are_up_to_date():
    stale = [str(path) for path, text in documents().items()
             if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text]
    assert stale == [], "run `make docs`"


def test_every_function_that_a_method_page_names_exists():
    for page in METHODS:
        names = re.findall(r"`((?:models\.\w+\.\w+|stages|keycontrast)\.[\w.]+)`", page.read_text("utf-8"))
        missing = [name for name in names if "NAME" not in name for module, _, attribute in [name.rpartition(".")]
                   if not hasattr(importlib.import_module(module), attribute)]
        assert names and not missing, page.name


def test_every_setting_that_a_page_names_exists():
    params = Params.model_validate({"recipe": "any", "datasets": {"any": {"source": "texts.csv"}}}).model_dump()
    for page in [*METHODS, *(ROOT / "docs" / f"{name}.md" for name in ("data", "running"))]:
        names = [name for name in re.findall(r"`(\w+(?:\.\w+)+)`", page.read_text("utf-8"))
                 if name.split(".")[0] in params and not name.startswith("models.")]
        missing = []
        for name in names:
            try:
                reduce(lambda block, part: block[part], name.split("."), params)
            except (KeyError, TypeError):
                missing.append(name)
        assert names and not missing, page.name


def test_relative_links_and_paths_lead_somewhere():
    path = r"`((?:pipeline|stages|models|benchmarks|recipes|docs|tests|metrics|data)/[\w./*-]*\.(?:py|yaml|md))`"
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        links = [page.parent / target for target in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
        missing = [str(link) for link in links if not link.exists()]
        missing += [name for name in re.findall(path, text) if not list(ROOT.glob(name))]
        assert not missing, page.name


NOTEBOOK = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def run_cells(kinds):
    matplotlib.use("agg")
    names = {"__name__": "__main__"}
    for cell in CODE:
        if kinds(cell["metadata"].get("tags", ())):
            exec(compile("".join(cell["source"]), "docs/tutorial.ipynb", "exec"), names)
    matplotlib.pyplot.close("all")
    return names


def test_the_tutorial_runs_as_far_as_it_needs_no_project():
    names = run_cells(lambda tags: "project" not in tags)
    assert names["phrases"][0][0].text in names["texts"][0] and names["graph"].edges.num_rows > 20


@pytest.mark.nightly
def test_the_tutorial_runs_to_its_end(capfd):
    names = run_cells(lambda tags: True)
    assert len(names["keywords"]) == 5
    assert "7 stages" in capfd.readouterr().out
