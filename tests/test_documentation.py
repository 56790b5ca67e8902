"""Documents that are made from the code are up to date, and what they name exists."""

import importlib
import re
from pathlib import Path

import pytest

from pipeline.documentation import MARKS, documents, with_table
from pipeline.schemas import SCHEMAS

ROOT = Path(__file__).resolve().parent.parent


def test_generated_documents_are_up_to_date():
    stale = [str(path) for path, text in documents().items()
             if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text]
    assert stale == [], "run `python -m pipeline.documentation`"


def test_the_dictionary_has_every_column():
    text = (ROOT / "docs" / "data-dictionary.md").read_text(encoding="utf-8")
    for schema in SCHEMAS.values():
        assert f"## {schema.name}.parquet" in text
        for name, _, _ in schema.fields:
            assert f"| `{name}` |" in text


NAMES = sorted(set(re.findall(r"`((?:models|stages|pipeline)\.[\w.]+)`",
                              (ROOT / "docs" / "equations.md").read_text(encoding="utf-8"))))


@pytest.mark.parametrize("name", NAMES)
def test_every_function_of_the_equations_exists(name):
    module, _, attribute = name.rpartition(".")
    assert callable(getattr(importlib.import_module(module), attribute))


def test_a_readme_without_marks_is_refused():
    with pytest.raises(ValueError, match="lacks the marks"):
        with_table("# no marks", "stages", "")
    assert all(mark in (ROOT / "README.md").read_text(encoding="utf-8") for pair in MARKS.values() for mark in pair)


def test_every_command_of_the_readme_is_one():
    from typer.main import get_command

    from pipeline.cli import app

    commands = set(get_command(app).commands)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\.venv/bin/keycontrast (\w+)", readme))
    assert named <= commands
    assert commands <= named | {"inspect", "predict"}


def test_every_relative_link_leads_somewhere():
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_makefile_has_the_readmes_commands():
    readme, makefile = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "Makefile"))
    for command in ("run", "test", "test-all"):
        assert f"make {command}\n" in readme
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)
    assert "make test test-all outside pages\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    # Between them they run every test, and none twice.
    assert re.findall(r"\$\(PYTEST\) -m (.*)", makefile) == ['"not whole"', "whole"]
