"""The documents as a site: the hook of MkDocs that ``make pages`` runs (``mkdocs.yml``).

Files outside ``docs/`` get a page of the site, and links to them lead there. The references of commands, of the Python
package and of the tables are made at build time: by Typer, by the plugin mkdocstrings, and from the schemas.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

from pipeline.schemas import SCHEMAS
from stages.common.schemas import SCHEMA_VERSION

ROOT = Path(__file__).resolve().parent.parent
# Files outside docs/, and their names on the site.
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
           "data/start/README.md": "start.md", "data/sample/README.md": "sample.md", "LICENSE": "LICENSE.txt",
           "CITATION.cff": "CITATION.txt"}
PACKAGE = """# Python interface

[python.md](python.md) explains how these parts belong together. `Texts` is a text, an iterable of texts, a pandas or
Arrow column, or spaCy documents. Invalid input raises `InputError` with the place and the remedy.

::: keycontrast
    options: {members: [Keywords, Phrases, Phrase, keyword_graph, KeywordGraph, load_pipeline], heading_level: 2}
"""
_LINK = re.compile(r"(?<!`)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> None:
    """Add the files outside ``docs/`` and the references."""
    from mkdocs.structure.files import File

    pages = {"commands.md": commands(), "api.md": PACKAGE, "data-dictionary.md": data_dictionary()}
    for source, name in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        pages[name] = with_links_of_the_site(text, source) if name.endswith(".md") else text
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page of ``docs/`` with the links of the site."""
    source = f"docs/{page.file.src_uri}"
    return with_links_of_the_site(markdown, source) if (ROOT / source).exists() else markdown


def with_links_of_the_site(text: str, file: str) -> str:
    """Return the Markdown of ``file`` (a path in the repository) with its links changed to those of the site."""

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), match[1]))
        name = OUTSIDE.get(target, target.removeprefix("docs/") if target.startswith("docs/") else match[1])
        return f"]({name}{match[2] or ''})"

    return _LINK.sub(link, text)


def commands() -> str:
    """Return the page of every command with its arguments and options, as Typer writes it."""
    from pipeline.cli import app

    command = get_command(app)
    for subcommand in getattr(command, "commands", {}).values():       # Typer shortens what has no short help
        subcommand.short_help = " ".join((subcommand.help or "").split("\n\n")[0].split())
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="keycontrast", title="Commands")
    return text.replace("\n**Usage**", "\nIn a clone the program is `.venv/bin/keycontrast`.\n\n**Usage**", 1)


def data_dictionary() -> str:
    """Return the page of every table with its key, its columns and their meanings."""
    lines = ["# Data dictionary", "",
             f"Every table is Parquet (zstd), sorted by its key, schema version {SCHEMA_VERSION}. Below "
             "`artifacts/data` a table is a folder of parts; of a model or run it is one file."]
    for schema in SCHEMAS.values():
        keys = ", ".join(f"`{name}`" for name in schema.key)
        lines += ["", f"## {schema.name}", "", schema.description, "",
                  f"Key: {keys}{'' if schema.unique else ' (may repeat)'}.", "",
                  "| column | type | meaning |", "| --- | --- | --- |",
                  *(f"| `{name}` | {str(kind).replace('element: ', '')} | {table_cell(text)} |"
                    for name, kind, text in schema.fields)]
    return "\n".join(lines) + "\n"


def table_cell(text: str) -> str:
    """Return a text as a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")
