"""The documents as a site: links, references, and that the tutorial runs."""

import json
import re

import matplotlib
import pytest
import typer
import yaml
from source_imports import ROOT

import keycontrast
from pipeline import pages
from pipeline.cli import app
from pipeline.schemas import SCHEMAS

MKDOCS = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506 - strings alone


@pytest.mark.parametrize(("file", "text", "expected"), [
    ("README.md", "[a](docs/hcl.md#b) [c](LICENSE)", "[a](hcl.md#b) [c](LICENSE.txt)"),
    ("docs/hcl.md", "[a](../README.md) [b](gpu.md) [c](#d)", "[a](index.md) [b](gpu.md) [c](#d)"),
    ("README.md", "[a](https://b.org/docs/hcl.md) `](no/such.md)`", "[a](https://b.org/docs/hcl.md) `](no/such.md)`"),
])
def test_links_are_those_of_the_site(file, text, expected):
    assert pages.with_links_of_the_site(text, file) == expected


def test_every_document_has_its_place_in_the_navigation():
    def named(part):
        return [part] if isinstance(part, str) else [
            name for inner in (part.values() if isinstance(part, dict) else part) for name in named(inner)]

    written = [path.name for path in (ROOT / "docs").iterdir() if path.suffix in (".md", ".ipynb")]
    made = [name for name in pages.OUTSIDE.values() if name.endswith(".md")]
    assert sorted(named(MKDOCS["nav"])) == sorted([*written, *made, "api.md", "commands.md", "data-dictionary.md"])
    assert all((ROOT / source).exists() for source in pages.OUTSIDE)


def test_references_have_every_public_name_every_command_and_every_table():
    shown = re.search(r"members: \[(.*?)\]", pages.PACKAGE)[1].split(", ")
    assert sorted(shown) == sorted(set(keycontrast.__all__) - {"InputError", "Texts"})
    command = typer.main.get_command(app)
    text = pages.commands()
    assert all(f"## `keycontrast {name}`" in text and f"* `{name}`: " in text for name in command.commands)
    assert all(f"## {name}\n" in pages.data_dictionary() for name in SCHEMAS)


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


def test_the_tutorial_is_committed_with_small_outputs():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    outputs = [output for cell in CODE for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}
    assert len(json.dumps(outputs)) < 100_000 and "text/html" not in str(outputs)
    assert NOTEBOOK["metadata"]["kernelspec"]["name"] == "python3"
