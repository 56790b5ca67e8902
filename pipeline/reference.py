"""Pages of reference, made from the code: ``docs/commands.md`` from the command line, ``docs/api.md`` from docstrings.

The first is what Typer's own ``typer utils docs`` writes; the second is read by Griffe from the sources of the package
``keycontrast``, so that neither imports more than the command line does.
"""

import re
import textwrap
from pathlib import Path
from typing import Any

import griffe
import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

ROOT = Path(__file__).resolve().parent.parent
# Names in the order in which a reader meets them; those of `keycontrast.__all__`, which a test holds them to.
NAMES = ("Keywords", "Phrases", "Phrase", "keyword_graph", "KeywordGraph", "load_pipeline")
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|exc|data):`~?([^`]+)`")
_SECTIONS = {"parameters": "Arguments", "attributes": "Attributes", "raises": "Raises", "returns": "Returns",
             "yields": "Yields"}

COMMANDS_HEAD = """# Commands

Made from the command line by `python -m pipeline.documentation`: what each says when it is given
`--help`. In a clone the program is `.venv/bin/keycontrast`.
"""
API_HEAD = """# Python interface

Made from the docstrings of the package `keycontrast` by `python -m pipeline.documentation`. How they belong together:
[python.md](python.md).

Wherever `Texts` stands: a text, texts in any iterable, a pandas or Arrow column, or documents of spaCy. Whatever cannot
be used raises `InputError`; its message says what is wrong, where, and the remedy. Components of spaCy
(`keycontrast_textrank`, `keycontrast_positionrank`) need no import: `nlp.add_pipe` finds
them, with the settings of pytextrank.
"""


def command_page() -> str:
    """Return every command with its arguments and options, as Markdown."""
    command = get_command(typer_app())
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="keycontrast")
    body = text.partition("\n\n")[2]     # under a heading of ours
    return COMMANDS_HEAD + "\n" + _whole_lists(body, command).strip() + "\n"


def typer_app() -> typer.Typer:
    """Return the command line; the commands' modules are imported by the commands."""
    from pipeline.cli import app

    return app


def _whole_lists(text: str, command: Any) -> str:
    """Put the first sentence of each command where Typer cuts it off, and a link to the command."""
    said = dict(_commands(command))

    def line(match: re.Match[str]) -> str:
        path = next(path for path in said if path.split()[-1] == match[1])
        anchor = f"keycontrast-{path.replace(' ', '-')}"
        return f"* [`{path}`](#{anchor}): {said[path]}"

    lists = re.compile(r"(?<=\*\*Commands\*\*:\n\n)(?:\* .*\n)+")
    return lists.sub(lambda found: re.sub(r"^\* `([\w-]+)`.*$", line, found[0], flags=re.MULTILINE), text)


def _commands(command: Any, before: str = "") -> list[tuple[str, str]]:
    found = []
    for name, inner in getattr(command, "commands", {}).items():
        path = f"{before}{name}"
        found += [(path, " ".join((inner.help or "").split("\n\n")[0].split())), *_commands(inner, f"{path} ")]
    return found


def api_page(root: Path = ROOT) -> str:
    """Return the public names of the package with their arguments, attributes, results and errors, as Markdown."""
    package = griffe.load("keycontrast", search_paths=[str(root)], docstring_parser="google", resolve_aliases=True)
    parts = [API_HEAD]
    for name in NAMES:
        thing = package[name]
        parts += _described(thing.final_target if thing.is_alias else thing, 2, name)
    return "\n".join(parts).strip() + "\n"


def _described(thing: Any, level: int, name: str) -> list[str]:
    lines = [f"{'#' * level} `{name}`", "", "```python", _signature(thing, name), "```", ""]
    for section in thing.docstring.parsed if thing.docstring else ():
        lines += _section(section)
    if thing.is_class:
        for member in thing.members.values():
            if member.is_function and not member.name.startswith("_") and member.docstring:
                lines += _described(member, level + 1, f"{name}.{member.name}")
    return lines


def _signature(thing: Any, name: str) -> str:
    if thing.is_class and "__init__" not in thing.members:
        return f"class {name}"
    function = thing["__init__"] if thing.is_class else thing
    given, named = [], False
    for parameter in function.parameters:
        if parameter.name == "self":
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and not named:
            named = True
            given.append("*")
        text = parameter.name + (f": {parameter.annotation}" if parameter.annotation is not None else "")
        given.append(text + (f" = {parameter.default}" if parameter.default is not None else ""))
    result = f" -> {function.returns}" if function.returns is not None and not thing.is_class else ""
    line = f"{name}({', '.join(given)}){result}"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(given) + f",\n){result}"


def _section(section: Any) -> list[str]:
    kind = section.kind.value
    if kind == "text":
        return [_markdown(section.value), ""]
    if kind == "examples":
        return ["```python", *(value for _, value in section.value), "```", ""]
    lines = [f"**{_SECTIONS[kind]}**", ""]
    for item in section.value:
        name = getattr(item, "name", "") or str(item.annotation or "")
        lines.append(f"- `{name}`: {' '.join(_markdown(item.description).split())}" if name
                     else f"- {' '.join(_markdown(item.description).split())}")
    return [*lines, ""]


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
