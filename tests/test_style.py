"""Style, types, sizes: what a reader would trip over."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = sorted(path for folder in ("pipeline", "stages", "models") for path in (ROOT / folder).rglob("*.py"))
LONGEST_FUNCTION, LONGEST_FILE = 80, 450


def check(*line):
    found = subprocess.run([sys.executable, "-m", *line], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]


def test_ruff_finds_nothing():
    check("ruff", "check", ".")


# It reads all of torch and pandas where it has no cache, as in a fresh clone: a minute. Also: `make check`.
@pytest.mark.whole
def test_types_agree():
    check("mypy")


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_and_functions_stay_small(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST_FILE
    long = [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)
            and node.end_lineno - node.lineno >= LONGEST_FUNCTION]
    assert long == []
