"""YAML that a person wrote: read in one way, within bounds, and refused with its place where it says two things."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from keycontrast.errors import InputError

_LONGEST = 4 * 2**20
_DEEPEST = 40
# Values once every alias is written out: the largest recipe has some thousands.
_MOST_VALUES = 200_000
# A PyYAML that was built without libyaml has only the slow one.
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):  # type: ignore[misc]
    """The safe loader, but that a name may stand only once in a mapping; a merge (<<) may still be overridden."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                name = (key.tag, key.value)
                if name in lines:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value!r} stands here a second time; the first is in line {lines[name]}. "
                                    f"Keep one of them", key.start_mark)
                lines[name] = key.start_mark.line + 1
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found


def read_yaml(path: Path) -> Any:
    """Return what a YAML file holds.

    Raises:
        InputError: it is not UTF-8, not YAML, or out of bounds; see :func:`parse_yaml`.
        OSError: it cannot be read.
    """
    content = path.read_bytes()
    try:
        return parse_yaml(content.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not valid YAML: byte {error.start} is not UTF-8. Save the file as UTF-8.") from error


def parse_yaml(text: str, place: str) -> Any:
    """Return what ``text`` says; ``place`` names its origin in errors.

    Raises:
        InputError: it is not YAML, a name stands twice in a mapping, a value is not what its tag says (a date in month
            13, say), or it is larger, deeper or with its aliases written out longer than any params are.
    """
    if len(text) > _LONGEST:
        raise InputError(f"{place}: {len(text):,} characters; params have at most {_LONGEST:,}. Is it the right file?")
    try:
        _measure(text, place)
        return yaml.load(text, _Loader)  # noqa: S506 - safe, see the class
    # PyYAML checks what is written, but not what Python makes of it: a date, a number of 5,000 digits, `!!int zz`.
    except (yaml.YAMLError, ValueError, AttributeError, KeyError, TypeError, OverflowError) as error:
        said = " ".join(str(error).split())
        if not isinstance(error, yaml.YAMLError):
            said = f"a value is not what it looks like ({said[:200]}); put it between quotes if it is a text"
        raise InputError(f"{place}: not valid YAML: {said}") from error


def _measure(text: str, place: str) -> None:
    """Refuse what would take long to build, before anything is built: by the parser's events, none of which nests."""
    sizes: dict[str, int] = {}
    above: list[tuple[str | None, int]] = []
    values = 0
    for event in yaml.parse(text, _Safe):
        anchor = getattr(event, "anchor", None)
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if anchor not in sizes:
                raise InputError(f"{place}: line {line}: *{anchor} stands for nothing that is complete above it. "
                                 f"Write the values out.")
            values += sizes[anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            above.append((anchor, values))
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            name, before = above.pop()
            if name is not None:
                sizes[name] = values - before
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            if anchor is not None:
                sizes[anchor] = 1
        if len(above) > _DEEPEST:
            raise InputError(f"{place}: line {line}: nested more than {_DEEPEST} deep, which no params are.")
        if values > _MOST_VALUES:
            raise InputError(f"{place}: line {line}: more than {_MOST_VALUES:,} values with its aliases (*) written "
                             f"out, which no params have.")
