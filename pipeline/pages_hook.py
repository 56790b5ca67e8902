"""What MkDocs calls while ``make pages`` builds the site; see ``mkdocs.yml``. Needs the extra ``docs``.

MkDocs loads this file by itself. Raw HTML in a page is shown as text: a forge leaves it out, a site would obey it, and
texts of data sets stand in tables.
"""

import base64
import logging
from pathlib import Path
from typing import Any

import nbformat
from markdown import Markdown
from markdown.extensions import Extension
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient

from pipeline.pages import DOCS, OUTSIDE, ROOT, TUTORIAL, fetched_from_elsewhere, notebook_page, places, turned

_LOG = logging.getLogger("mkdocs.plugins.keycontrast")
_SECONDS_PER_CELL = 300


class NoHtml(Extension):
    """Takes from Markdown what lets HTML through."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Leave tags to what escapes them."""
        md.preprocessors.deregister("html_block")
        md.inlinePatterns.deregister("html")


def on_config(config: Any) -> None:
    """Have pages read without HTML."""
    config.markdown_extensions.append(NoHtml())


def on_files(files: Files, config: Any) -> None:
    """Add what lies outside of docs/, and the tutorial with what its cells give."""
    known = places()
    for source, name in OUTSIDE.items():
        if source != TUTORIAL:
            text = (ROOT / source).read_text(encoding="utf-8")
            files.append(File.generated(config, name, content=turned(text, source, known)
                                        if name.endswith(".md") else text))
    notebook = nbformat.read(ROOT / TUTORIAL, as_version=4)
    _LOG.info("Running %s", TUTORIAL)
    NotebookClient(notebook, timeout=_SECONDS_PER_CELL, resources={"metadata": {"path": str(ROOT)}}).execute()
    page, pictures = notebook_page(notebook)
    files.append(File.generated(config, OUTSIDE[TUTORIAL], content=turned(page, TUTORIAL, known)))
    for name, picture in pictures.items():
        content = base64.b64decode(picture) if name.endswith(".png") else picture.encode()
        files.append(File.generated(config, name, content=content))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn the links of a page of docs/ that lead out of it."""
    lies_in_docs = (ROOT / DOCS / page.file.src_uri).exists()
    return turned(markdown, f"{DOCS}/{page.file.src_uri}", places()) if lies_in_docs else markdown


def on_post_build(config: Any) -> None:
    """Warn, which ends a strict build, of whatever a browser would load from elsewhere."""
    for found in fetched_from_elsewhere(Path(config.site_dir)):
        _LOG.warning("The page needs another server: %s", found)
