"""What the project's modules import, read from their syntax trees: at module level, and inside functions."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "stages", "models", "keycontrast")


@cache
def modules() -> dict[str, Path]:
    """Every module of the project by dotted name; read from the folders once."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str, inner: bool = True) -> frozenset[str]:
    """Dotted names that ``module`` imports: project modules in full, others as written.

    Args:
        module: a project module.
        inner: also imports inside functions; those under ``TYPE_CHECKING`` never count.
    """
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in _statements(tree, inner):
        if isinstance(node, ast.Import):
            found.update(_resolved(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute in this project"
            found.update(_resolved(f"{node.module}.{alias.name}", str(node.module)) for alias in node.names)
    return frozenset(found)


def closure(module: str, inner: bool = True) -> set[str]:
    """Project modules that running ``module`` may execute, itself and parent packages included."""
    pending, seen = [module], set()
    while pending:
        current = pending.pop()
        if current in seen or current not in modules():
            continue
        seen.add(current)
        pending += [name for name in imports(current, inner) if is_ours(name)]
        pending += [current.rpartition(".")[0]] if "." in current else []
    return seen


def is_ours(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def _resolved(name: str, fallback: str | None = None) -> str:
    known = modules()
    if name in known or not is_ours(name):
        return name if fallback is None or is_ours(name) else fallback
    return fallback or name


def _statements(node: ast.AST, inner: bool):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if not inner and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        yield child
        yield from _statements(child, inner)
