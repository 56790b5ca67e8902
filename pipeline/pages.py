"""The documents as a site: what MkDocs calls while ``make pages`` builds it; see ``mkdocs.yml``.

The repository is read in two places, a forge and the site. Files stay where the forge looks for them; here they get a
name on the site, and links between them are turned. Raw HTML in a page is shown as text: a forge leaves it out, a site
would obey it, and texts of data sets stand in tables. MkDocs and what runs the tutorial come with the extra ``docs``.
"""

import base64
import logging
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS, TUTORIAL = "docs", "docs/tutorial.ipynb"
# What does not lie in docs/ and stands on the site: its name there.
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
           "data/start/README.md": "start.md", "data/sample/README.md": "sample.md", "LICENSE": "LICENSE.txt",
           "CITATION.cff": "CITATION.txt", TUTORIAL: "tutorial.md"}
_LOG = logging.getLogger("mkdocs.plugins.keycontrast")
_SECONDS_PER_CELL = 300
_LINK = re.compile(r"(?<!`)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_COMMENT = re.compile(r"^<!--.*-->\n", re.MULTILINE)
# What GitHub folds; MkDocs has another form for it.
_FOLDED = re.compile(r"^<details><summary>([^<\n]*)</summary>\n(.*?)^</details>\n", re.MULTILINE | re.DOTALL)
# Whatever a browser would fetch as it shows the page.
_FETCHED = re.compile(r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s\"'>]+"
                      r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|icon|preload|preconnect|dns-prefetch|modulepreload))"
                      r"[^>]*\bhref=[\"']?(?:https?:)?//[^\s\"'>]+|@import\s+url\([\"']?https?:[^)]*\)", re.IGNORECASE)


def on_config(config: Any) -> None:
    """Have pages read without HTML: take from Markdown what lets it through."""
    from markdown.extensions import Extension

    class NoHtml(Extension):
        def extendMarkdown(self, md: Any) -> None:
            md.preprocessors.deregister("html_block")
            md.inlinePatterns.deregister("html")

    config.markdown_extensions.append(NoHtml())


def on_files(files: Any, config: Any) -> None:
    """Add what lies outside of docs/, and the tutorial with what its cells give."""
    import nbformat
    from mkdocs.structure.files import File
    from nbclient import NotebookClient

    contents: dict[str, str | bytes] = {}
    for source, name in OUTSIDE.items():
        if source != TUTORIAL:
            text = (ROOT / source).read_text(encoding="utf-8")
            contents[name] = turned(text, source) if name.endswith(".md") else text
    notebook = nbformat.read(ROOT / TUTORIAL, as_version=4)
    _LOG.info("Running %s", TUTORIAL)
    NotebookClient(notebook, timeout=_SECONDS_PER_CELL, resources={"metadata": {"path": str(ROOT)}}).execute()
    page, pictures = notebook_page(notebook)
    for name, content in {**contents, OUTSIDE[TUTORIAL]: turned(page, TUTORIAL), **pictures}.items():
        files.append(File.generated(config, name, content=content))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn the links of a page of docs/ that lead out of it."""
    lies_in_docs = (ROOT / DOCS / page.file.src_uri).exists()
    return turned(markdown, f"{DOCS}/{page.file.src_uri}") if lies_in_docs else markdown


def on_post_build(config: Any) -> None:
    """Warn, which ends a strict build, of whatever a browser would load from elsewhere."""
    for found in fetched_from_elsewhere(Path(config.site_dir)):
        _LOG.warning("The page needs another server: %s", found)


def places(root: Path = ROOT) -> dict[str, str]:
    """Return the name on the site of each file that stands there, by its path in the repository."""
    paths = [*(root / DOCS).glob("*.md"), *(root / DOCS).glob("img/*")]
    return {f"{DOCS}/{name}": name for name in sorted(path.relative_to(root / DOCS).as_posix() for path in paths)
            } | OUTSIDE


def turned(text: str, file: str) -> str:
    """Return Markdown of ``file`` with its links as they are on the site, what is folded in MkDocs's form, and without
    the comments that mark generated parts; a link to what is not on the site stays, and MkDocs will name it.
    """
    known = places()

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), match[1]))
        return f"]({known[target]}{match[2] or ''})" if target in known else match[0]

    def folded(match: re.Match[str]) -> str:
        inner = re.sub(r"^(?=.*\S)", "    ", match[2].strip("\n"), flags=re.MULTILINE)
        title = match[1].replace('"', "'")
        return f'??? note "{title}"\n\n{inner}\n\n'

    return "".join(part if fenced else _LINK.sub(link, _FOLDED.sub(folded, _COMMENT.sub("", part)))
                   for fenced, part in _parts(text))


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of Markdown, and whether they are fenced."""
    part, fence = "", ""
    for line in text.splitlines(keepends=True):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if mark and not fence:
            yield False, part
            part, fence = line, mark[1]
        elif fence and line.strip() == fence:
            yield True, part + line
            part, fence = "", ""
        else:
            part += line
    yield bool(fence), part


def notebook_page(notebook: Mapping[str, Any]) -> tuple[str, dict[str, str | bytes]]:
    """Return an executed notebook as Markdown, and its pictures by name.

    Outputs are shown as text in a fence or as a picture, never as the HTML that an object may offer.
    """
    parts, pictures = list[str](), dict[str, str | bytes]()
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).strip("\n")
        parts.append(source if cell["cell_type"] == "markdown" else _fenced(source, "python"))
        for output in cell.get("outputs", ()):
            if output["output_type"] == "error":
                raise ValueError(f"{TUTORIAL}: a cell failed: {output['ename']}: {output['evalue']}")
            data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
            name = f"tutorial-{len(pictures) + 1}"
            if "image/png" in data:
                pictures[f"{name}.png"] = base64.b64decode(data["image/png"])
                parts.append(f"![Drawing of the cell above]({name}.png)")
            elif "image/svg+xml" in data:
                pictures[f"{name}.svg"] = data["image/svg+xml"]
                parts.append(f"![Drawing of the cell above]({name}.svg)")
            else:
                parts.append(_fenced((data.get("text/plain") or "".join(output["text"])).rstrip("\n"), "text"))
    return "\n\n".join(parts).rstrip() + "\n", pictures


def _fenced(text: str, kind: str) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}{kind}\n{text}\n{fence}"


def fetched_from_elsewhere(site: Path) -> list[str]:
    """Return what a browser would load from another place than the site, as ``page: tag``."""
    return [f"{path.relative_to(site).as_posix()}: {match[0]}" for path in sorted(site.rglob("*"))
            if path.suffix in (".html", ".css") for match in _FETCHED.finditer(path.read_text(encoding="utf-8"))]
