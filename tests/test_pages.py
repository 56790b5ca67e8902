"""The documents as pages: links in both places, what is shown of a notebook, and that the tutorial runs."""

import base64
import json
import re

import matplotlib
import pytest
import typer
import yaml
from source_imports import ROOT

import keycontrast
from pipeline import documentation, pages
from pipeline.cli import app
from pipeline.pages import fetched_from_elsewhere, notebook_page, places, turned

MKDOCS = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506 - strings alone


@pytest.mark.parametrize(("file", "text", "expected"), [
    ("README.md", "[a](docs/hcl.md#b) [c](LICENSE)", "[a](hcl.md#b) [c](LICENSE.txt)"),
    ("docs/hcl.md", "[a](../README.md) [b](gpu.md) [c](#d)", "[a](index.md) [b](gpu.md) [c](#d)"),
    ("docs/tutorial.ipynb", "[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
    ("README.md", "[a](https://b.org/docs/hcl.md) [c](no/such.md)", "[a](https://b.org/docs/hcl.md) [c](no/such.md)"),
    ("README.md", "```\n[a](docs/hcl.md)\n```\n[a](docs/hcl.md)\n", "```\n[a](docs/hcl.md)\n```\n[a](hcl.md)\n"),
    ("README.md", "<!-- stages: made -->\n| a |\n", "| a |\n"),
    ("docs/results.md", '<details><summary>All "x"</summary>\n\n| a |\n\n</details>\n\nb',
     "??? note \"All 'x'\"\n\n    | a |\n\n\nb"),
])
def test_links_comments_and_folds_are_turned(file, text, expected):
    assert turned(text, file) == expected


def test_every_document_has_its_place_in_the_navigation():
    def named(part):
        return [part] if isinstance(part, str) else [
            name for inner in (part.values() if isinstance(part, dict) else part) for name in named(inner)]

    listed = named(MKDOCS["nav"])
    assert sorted(listed) == sorted(name for name in places().values() if name.endswith(".md"))
    assert all((ROOT / source).exists() for source in pages.OUTSIDE)


def code(*outputs):
    return {"cell_type": "code", "metadata": {}, "source": ["x\n", "y"], "outputs": list(outputs)}


def shown(**data):
    return {"output_type": "execute_result", "data": {name.replace("_", "/"): value for name, value in data.items()}}


def test_outputs_are_text_and_pictures_and_never_html():
    page, pictures = notebook_page({"cells": [
        {"cell_type": "markdown", "metadata": {}, "source": "# A"},
        code({"output_type": "stream", "text": ["a <b>\n", "```\n"]}),
        code(shown(text_html="<script>", text_plain="plain"),
             shown(image_png=base64.b64encode(b"picture").decode(), text_plain="<Figure>"))]})
    assert page == ("# A\n\n```python\nx\ny\n```\n\n````text\na <b>\n```\n````\n\n```python\nx\ny\n```\n\n```text\n"
                    "plain\n```\n\n![Drawing of the cell above](tutorial-1.png)\n")
    assert pictures == {"tutorial-1.png": b"picture"}


def test_a_cell_that_failed_makes_no_page():
    with pytest.raises(ValueError, match="tutorial.ipynb: a cell failed: KeyError: 'a'"):
        notebook_page({"cells": [code({"output_type": "error", "ename": "KeyError", "evalue": "'a'"})]})


def test_what_a_browser_would_fetch_from_elsewhere_is_found(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.html").write_text('<a href="https://a.org">a</a><script src="a.js"></script>'
                                            '<link rel="canonical" href="https://a.org">'
                                            '<script async src="https://b.org/b.js"></script><img src=//c.org/c.png>'
                                            '<link href="https://d.org/d.css" rel="stylesheet">')
    (tmp_path / "b.css").write_text("@import url(https://e.org/e.css); a { color: red }")
    found = fetched_from_elsewhere(tmp_path)
    assert [re.search(r"\w\.org", line)[0] for line in found] == ["e.org", "b.org", "c.org", "d.org"]
    assert found[0].startswith("b.css: ") and found[1].startswith("in/a.html: ")


def test_references_have_every_public_name_and_every_command():
    api, commands = documentation.api_page(), documentation.command_page()
    assert set(keycontrast.__all__) - {"InputError", "Texts"} == set(documentation.NAMES)
    assert all(f"## `{name}`" in api for name in documentation.NAMES) and "`InputError`" in api and "`Texts`" in api
    assert ":meth:" not in api and "\n.. " not in api and "``" not in api.replace("```", "")
    for path, first in documentation.first_sentences(typer.main.get_command(app)):
        assert f"# `keycontrast {path}`" in commands and f"): {first}\n" in commands
    assert "...\n" not in re.sub(r"```.*?```", "", commands, flags=re.DOTALL)


NOTEBOOK = json.loads((ROOT / pages.TUTORIAL).read_text(encoding="utf-8"))
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
