"""Write the documents that are made from the code, below ``docs/``.

They are ``data-dictionary.md`` (from the schemas of tables), ``commands.md`` (what Typer's own ``typer utils docs``
writes), ``api.md`` (from the docstrings of the package ``keycontrast``, which Griffe reads from its sources), the table
of stages in ``running.md``, that of layouts in ``data.md``, and the picture of the DAG (:mod:`pipeline.stage_picture`).
"""

import argparse
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
import typer
import yaml
from typer.cli import get_docs_for_click
from typer.main import get_command

from keycontrast.files import atomic_file
from pipeline.schemas import SCHEMAS
from pipeline.stage_picture import stage_picture
from stages.common.schemas import SCHEMA_VERSION
from stages.ingest.layouts import LAYOUTS, Layout

ROOT = Path(__file__).resolve().parent.parent
# Names in the order in which a reader meets them; those of `keycontrast.__all__`, which a test holds them to.
NAMES = ("Keywords", "Phrases", "Phrase", "keyword_graph", "KeywordGraph", "load_pipeline")
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|exc|data):`~?([^`]+)`")
_SECTIONS = {"parameters": "Arguments", "attributes": "Attributes", "raises": "Raises", "returns": "Returns",
             "yields": "Yields"}
_COMMANDS_HEAD = """# Commands

Made from the command line by `python -m pipeline.documentation`: what each says when it is given
`--help`. In a clone the program is `.venv/bin/keycontrast`.

"""
_API_HEAD = """# Python interface

Made from the docstrings of the package `keycontrast` by `python -m pipeline.documentation`. How they belong together:
[python.md](python.md).

Wherever `Texts` stands: a text, texts in any iterable, a pandas or Arrow column, or documents of spaCy. Whatever cannot
be used raises `InputError`; its message says what is wrong, where, and the remedy. Components of spaCy
(`keycontrast_textrank`, `keycontrast_positionrank`) need no import: `nlp.add_pipe` finds
them, with the settings of pytextrank.
"""


def documents(root: Path = ROOT) -> dict[Path, str]:
    """Return each generated document's path (below ``root``) and the text that it should have."""
    docs = Path("docs")
    dvc = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))
    stages, layouts = docs / "running.md", docs / "data.md"
    return {docs / "data-dictionary.md": data_dictionary(), docs / "commands.md": command_page(),
            docs / "api.md": api_page(root), docs / "img" / "dag.svg": stage_picture(root),
            stages: _with_table((root / stages).read_text(encoding="utf-8"), "stages", stage_table(dvc)),
            layouts: _with_table((root / layouts).read_text(encoding="utf-8"), "layouts", layout_table())}


def data_dictionary() -> str:
    """Return the data dictionary as Markdown: every table, its key, its columns and what they mean."""
    lines = ["# Data dictionary", "",
             "Made from `pipeline/schemas.py` by `python -m pipeline.documentation`. Every table is Parquet "
             f"(zstd), sorted by its key, schema version {SCHEMA_VERSION}: below `artifacts/data` a folder of parts, "
             "of a model or run one file. `keycontrast inspect FILE` shows the same beside the data."]
    for schema in SCHEMAS.values():
        keys = ", ".join(f"`{name}`" for name in schema.key)
        lines += ["", f"## {schema.name}", "", schema.description, "",
                  f"Key: {keys}{'' if schema.unique else ' (may repeat)'}.", "",
                  "| column | type | meaning |", "| --- | --- | --- |",
                  *(f"| `{name}` | {str(kind).replace('element: ', '')} | {_cell(text)} |"
                    for name, kind, text in schema.fields)]
    return "\n".join(lines) + "\n"


def stage_table(dvc: dict[str, Any]) -> str:
    """Return the stages of ``dvc`` (parsed ``dvc.yaml``) as a Markdown table."""
    lines = ["| stage | one per | what it does | writes |", "| --- | --- | --- | --- |"]
    for stage, entry in dvc["stages"].items():
        body = entry.get("do", entry)
        group, _, name = str(entry.get("foreach", "")).strip("${}").partition(".")
        one_per = f"data set of {group}.datasets" if name == "datasets" else {
            "datasets": "data set", "confusing_pairs": "model", "models": "model", "runs": "run",
            "probes": "probe"}.get(group, "project")
        paths = (item if isinstance(item, str) else next(iter(item))
                 for kind in ("outs", "metrics", "plots") for item in body.get(kind, []))
        writes = ", ".join("`" + re.sub(r"\$\{\w+\}", "*", path.replace("artifacts/", "")) + "`" for path in paths)
        lines.append(f"| `{stage}` | {one_per} | {_cell(body['desc'])} | {writes} |")
    return "\n".join(lines)


def layout_table() -> str:
    """Return the layouts of data as a Markdown table."""
    return "\n".join(["| layout | a row is | columns |", "| --- | --- | --- |",
                      *(f"| `{layout.name}` | {_cell(layout.row)} | {_columns(layout)} |"
                        for layout in LAYOUTS.values())])


def _columns(layout: Layout) -> str:
    if layout.published:
        return _cell(layout.files) or "its own"
    listed = {needed: ", ".join(f"`{role}` ({column.meaning})" for role, column in layout.columns.items()
                                if column.needed == needed) for needed in (True, False)}
    return _cell(listed[True] + (f"; perhaps {listed[False]}" if listed[False] else ""))


def _with_table(page: str, name: str, table: str) -> str:
    """Return ``page`` with a new table between the two marks called ``name``."""
    first, last = f"<!-- {name}: made by `python -m pipeline.documentation` -->", f"<!-- /{name} -->"
    before, rest = page.split(first)
    return f"{before}{first}\n{table}\n{last}{rest.split(last)[1]}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def command_page() -> str:
    """Return every command with its arguments and options, as Markdown."""
    from pipeline.cli import app

    command = get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="keycontrast")
    said = dict(first_sentences(command))

    def line(match: re.Match[str]) -> str:
        path = next(path for path in said if path.split()[-1] == match[1])
        return f"* [`{path}`](#keycontrast-{path.replace(' ', '-')}): {said[path]}"

    # Where Typer lists commands it cuts their first sentence off.
    lists = re.compile(r"(?<=\*\*Commands\*\*:\n\n)(?:\* .*\n)+")
    body = lists.sub(lambda found: re.sub(r"^\* `([\w-]+)`.*$", line, found[0], flags=re.MULTILINE),
                     text.partition("\n\n")[2])      # under a heading of ours
    return f"{_COMMANDS_HEAD}{body.strip()}\n"


def first_sentences(command: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield each command below ``command``, such as ``judge read``, and the first paragraph of its help."""
    for name, inner in getattr(command, "commands", {}).items():
        yield f"{before}{name}", " ".join((inner.help or "").split("\n\n")[0].split())
        yield from first_sentences(inner, f"{before}{name} ")


def api_page(root: Path = ROOT) -> str:
    """Return the public names of the package with their arguments, attributes, results and errors, as Markdown."""
    package = griffe.load("keycontrast", search_paths=[str(root)], docstring_parser="google", resolve_aliases=True)
    found = ((package[name].final_target if package[name].is_alias else package[name], name) for name in NAMES)
    lines = [_API_HEAD, *(line for thing, name in found for line in _described(thing, 2, name))]
    return "\n".join(lines).strip() + "\n"


def _described(thing: Any, level: int, name: str) -> Iterator[str]:
    yield from (f"{'#' * level} `{name}`", "", "```python", _signature(thing, name), "```", "")
    for section in thing.docstring.parsed if thing.docstring else ():
        kind = section.kind.value
        if kind == "text":
            yield _markdown(section.value)
        elif kind == "examples":
            yield from ("```python", *(value for _, value in section.value), "```")
        else:
            yield from (f"**{_SECTIONS[kind]}**", "")
            for item in section.value:
                about = getattr(item, "name", "") or str(item.annotation or "")
                yield "- " + (f"`{about}`: " if about else "") + " ".join(_markdown(item.description).split())
        yield ""
    for member in thing.members.values() if thing.is_class else ():
        if member.is_function and not member.name.startswith("_") and member.docstring:
            yield from _described(member, level + 1, f"{name}.{member.name}")


def _signature(thing: Any, name: str) -> str:
    if thing.is_class and "__init__" not in thing.members:
        return f"class {name}"
    function, given = thing["__init__"] if thing.is_class else thing, list[str]()
    for parameter in function.parameters:
        if parameter.name == "self":
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and "*" not in given:
            given.append("*")
        text = parameter.name + (f": {parameter.annotation}" if parameter.annotation is not None else "")
        given.append(text + (f" = {parameter.default}" if parameter.default is not None else ""))
    result = f" -> {function.returns}" if function.returns is not None and not thing.is_class else ""
    line = f"{name}({', '.join(given)}){result}"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(given) + f",\n){result}"


def _markdown(text: str) -> str:
    """Return a docstring's text with its code and its roles as Markdown has them; code and sessions fenced."""
    text = _ROLE.sub(r"`\1`", text).replace("``", "`")
    parts, code = list[str](), False
    for part in re.split(r"\n(?:[ \t]*\n)+", text):
        if part.strip() == ".. code-block:: python":
            code = True
            continue
        fenced = code or part.lstrip().startswith(">>> ")
        parts.append(f"```python\n{textwrap.dedent(part).strip()}\n```" if fenced else part)
        code = False
    return "\n\n".join(parts)


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m pipeline.documentation", description=__doc__).parse_args()
    for path, text in documents().items():
        with atomic_file(ROOT / path) as temporary:
            temporary.write_text(text, encoding="utf-8")
