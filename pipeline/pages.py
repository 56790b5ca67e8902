"""The documents as pages: what README, CONTRIBUTING and the tutorial become on the site that ``make pages`` builds.

The repository is read in two places, a forge and the site. Files stay where the forge looks for them; here they get a
name on the site, and links between them are turned. :mod:`pipeline.pages_hook` hands this to MkDocs.
"""

import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS, TUTORIAL = "docs", "docs/tutorial.ipynb"
# What does not lie in docs/ and stands on the site: its name there.
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
           "data/start/README.md": "start.md", "data/sample/README.md": "sample.md", "LICENSE": "LICENSE.txt",
           "CITATION.cff": "CITATION.txt", TUTORIAL: "tutorial.md"}
_LINK = re.compile(r"(?<!`)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_COMMENT = re.compile(r"^<!--.*-->\n", re.MULTILINE)
# What GitHub folds; MkDocs has another form for it.
_FOLDED = re.compile(r"^<details><summary>([^<\n]*)</summary>\n(.*?)^</details>\n", re.MULTILINE | re.DOTALL)
_PICTURES = ("image/png", "image/svg+xml")
# Whatever a browser would fetch as it shows the page.
_FETCHED = re.compile(r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s\"'>]+"
                      r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|icon|preload|preconnect|dns-prefetch|modulepreload))"
                      r"[^>]*\bhref=[\"']?(?:https?:)?//[^\s\"'>]+|@import\s+url\([\"']?https?:[^)]*\)", re.IGNORECASE)


def places(root: Path = ROOT) -> dict[str, str]:
    """Return the name on the site of each file that stands there, by its path in the repository."""
    paths = [*(root / DOCS).glob("*.md"), *(root / DOCS).glob("img/*")]
    found = {f"{DOCS}/{name}": name for name in sorted(str(path.relative_to(root / DOCS)) for path in paths)}
    return {**found, **OUTSIDE}


def turned(text: str, file: str, known: Mapping[str, str]) -> str:
    """Return Markdown with its links as they are on the site, what is folded in MkDocs's form, and without the comments
    that mark generated parts.

    Args:
        text: Markdown.
        file: path in the repository, where its links start.
        known: as :func:`places` returns; a link to anything else is left as it is, and MkDocs will name it.
    """
    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), match[1]))
        return f"]({known[target]}{match[2] or ''})" if target in known else match[0]

    return "".join(part if fenced else _LINK.sub(link, _FOLDED.sub(_folded, _COMMENT.sub("", part)))
                   for fenced, part in _parts(text))


def _folded(match: re.Match[str]) -> str:
    """Return the block of ``pymdownx.details``."""
    title = match[1].replace('"', "'")
    return f'??? note "{title}"\n\n' + "".join(f"    {line}" if line.strip() else line
                                              for line in match[2].strip("\n").splitlines(keepends=True)) + "\n\n"


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


def cells(notebook: Mapping[str, Any]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return kind (``markdown``, ``code``), source and tags of each cell of a notebook."""
    return [(cell["cell_type"], _joined(cell["source"]), tuple(cell["metadata"].get("tags", ())))
            for cell in notebook["cells"]]


def read_notebook(root: Path = ROOT) -> dict[str, Any]:
    """Return the tutorial as it is committed."""
    found: dict[str, Any] = json.loads((root / TUTORIAL).read_text(encoding="utf-8"))
    return found


def notebook_page(notebook: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return an executed notebook as Markdown, and its pictures: base64, or SVG as it is, by name.

    Outputs are shown as text in a fence or as a picture, never as the HTML that an object may offer.
    """
    lines, pictures = [], dict[str, str]()
    for cell in notebook["cells"]:
        source = _joined(cell["source"]).strip("\n")
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        lines += [*_fenced(source, "python"), ""]
        for output in cell["outputs"]:
            lines += _output(output, pictures)
    return "\n".join(lines).rstrip() + "\n", pictures


def _output(output: Mapping[str, Any], pictures: dict[str, str]) -> list[str]:
    if output["output_type"] == "stream":
        return [*_fenced(_joined(output["text"]).rstrip("\n"), "text"), ""]
    if output["output_type"] == "error":
        raise ValueError(f"{TUTORIAL}: a cell failed: {output['ename']}: {output['evalue']}")
    for kind, ending in zip(_PICTURES, ("png", "svg"), strict=True):
        if kind in output["data"]:
            name = f"tutorial-{len(pictures) + 1}.{ending}"
            pictures[name] = _joined(output["data"][kind])
            return [f"![Drawing of the cell above]({name})", ""]
    return [*_fenced(_joined(output["data"]["text/plain"]), "text"), ""]


def _fenced(text: str, kind: str) -> list[str]:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return [f"{fence}{kind}", text, fence]


def _joined(text: str | Sequence[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def fetched_from_elsewhere(site: Path) -> list[str]:
    """Return what a browser would load from another place than the site, as ``page: tag``."""
    found = []
    for folder, _, names in os.walk(site):
        for name in sorted(names):
            if name.endswith((".html", ".css")):
                path = Path(folder) / name
                found += [f"{path.relative_to(site).as_posix()}: {match[0]}"
                          for match in _FETCHED.finditer(path.read_text(encoding="utf-8"))]
    return found
