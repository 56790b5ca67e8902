"""Which files hold the code that a module runs, read from its imports: what is made depends on these and no others."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent.parent
_OURS = ("models", "stages")
# What no result depends on, or what says so by itself.
GROUND = ("stages.common", "stages.run")


def code_of(modules: Sequence[str], without: Sequence[str] = ()) -> list[Path]:
    """Return the files of ``modules`` and of all modules of this project that they import, wherever, and these in turn.

    Args:
        modules: dotted names.
        without: packages and modules that are passed over, with what is reached by way of them alone.
    """
    pending, seen = list(modules), set[str]()
    while pending:
        module = pending.pop()
        if module not in seen and not any(f"{module}.".startswith(f"{other}.") for other in without):
            seen.add(module)
            pending += _imports(module)
    return sorted(path for module in seen if (path := _path(module)) is not None)


@cache
def has_code(path: Path) -> bool:
    """Return whether there is anything but a docstring in the Python file ``path``."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return any(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in body)


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Return what ``module`` imports of this project; packages count where something is taken from them by name."""
    path = _path(module)
    if path is None:  # a name within a module, which is reached by that module's own name
        return ()
    found: list[str] = []
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(name for name in found if name.partition(".")[0] in _OURS)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from _statements(child)


@cache
def _path(module: str) -> Path | None:
    """Return the file of a module or package of this project; None if there is none."""
    place = _ROOT.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.exists()), None)
