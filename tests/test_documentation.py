"""Generated documents are up to date, and what documents name exists."""

import importlib
import re

from source_imports import ROOT

from pipeline.documentation import documents

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_generated_documents_are_up_to_date():
    stale = [str(path) for path, text in documents().items()
             if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text]
    assert stale == [], "run `make docs`"


def test_every_function_of_the_equations_exists():
    document = (ROOT / "docs/equations.md").read_text("utf-8")
    names = re.findall(r"`((?:models|stages|pipeline|keycontrast)\.[\w.]+)`", document)
    missing = [name for name in names for module, _, attribute in [name.rpartition(".")]
               if not hasattr(importlib.import_module(module), attribute)]
    assert names and not missing


def test_relative_links_and_paths_lead_somewhere():
    path = r"`((?:pipeline|stages|models|benchmarks|recipes|docs|tests|metrics|data)/[\w./*-]*\.(?:py|yaml|md))`"
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        links = [page.parent / target for target in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
        missing = [str(link) for link in links if not link.exists()]
        missing += [name for name in re.findall(path, text) if not list(ROOT.glob(name))]
        assert not missing, page.name
