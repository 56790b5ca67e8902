"""What each training and decoding may cost: ``tests/budgets.json``, written by ``python -m pretend --write``.

By architecture it holds ``at_first`` (commit c8810ea, before anything was done about a GPU's launches and waits) and
``now``, which a test holds every later change to: operations, waits, blocking copies and sorts of a training
micro-batch, and of each decoded token.
"""

import json
import tempfile
from pathlib import Path

import torch
import transformers

FILE = Path(__file__).resolve().parents[1] / "budgets.json"
COMMAND = "PYTHONPATH=tests:. python -m pretend --write"


def versions():
    """Return the versions that figures depend on."""
    return {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__}


def read():
    """Return the file's content."""
    return json.loads(FILE.read_text())


def write():
    """Measure everything; keep ``at_first`` where the file has it."""
    from pretend.workloads import measured

    known = read() if FILE.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder))
    content = {"command": COMMAND, "versions": versions()}
    for kind, figures in found.items():
        content[kind] = {name: {"at_first": known.get(kind, {}).get(name, {}).get("at_first", now), "now": now}
                         for name, now in figures.items()}
    FILE.write_text(_text(content))


def _text(content):
    """One line for each pair of figures."""
    blocks = [f'  "{name}": {json.dumps(content[name])}' for name in ("command", "versions")]
    for kind in ("micro_batch", "token"):
        rows = [f'    "{name}": {{\n' + ",\n".join(f'      "{when}": {json.dumps(figures)}'
                                                  for when, figures in both.items()) + "}"
                for name, both in content[kind].items()]
        blocks.append(f'  "{kind}": {{\n' + ",\n".join(rows) + "}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"
