"""Generated documents are up to date, and what documents name exists."""

import importlib
import re
from functools import reduce

from source_imports import ROOT

from pipeline.documentation import documents
from stages.params import Params

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
METHODS = [ROOT / "docs" / f"{method}.md" for method in ("hcl", "pgkpr", "clld")]


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
