"""Reading YAML that a person wrote, with the place of every mistake."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from keycontrast.errors import InputError

# Much faster; a PyYAML that was built without libyaml lacks it.
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):  # type: ignore[misc]
    """The safe loader that also refuses a repeated name in a mapping; a merge (<<) may still be overridden."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                name = (key.tag, key.value)
                if name in lines:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value!r} is repeated; the first is in line {lines[name]}. "
                                    f"Keep one of them", key.start_mark)
                lines[name] = key.start_mark.line + 1
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file; errors as in :func:`parse_yaml`."""
    content = path.read_bytes()
    try:
        return parse_yaml(content.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not valid YAML: byte {error.start} is not UTF-8. Save the file as UTF-8.") from error


def parse_yaml(text: str, place: str) -> Any:
    """Return the content of ``text``; an InputError names its origin ``place``, and a fault or a repeated name."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - safe, see the class
    # PyYAML checks the syntax, but not the conversion to Python: a date, a number of 5,000 digits, `!!int zz`.
    except (yaml.YAMLError, ValueError, AttributeError, KeyError, TypeError, OverflowError, RecursionError) as error:
        message = " ".join(str(error).split())
        if not isinstance(error, yaml.YAMLError):
            message = f"a value is not what it looks like ({message[:200]}); put it between quotes if it is a text"
        raise InputError(f"{place}: not valid YAML: {message}") from error
