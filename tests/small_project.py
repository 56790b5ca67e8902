"""A DVC project with the shape of ours and stages that take no time."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from tests.source_imports import ROOT

WORK = '''"""python work.py OUT [IN...]: write a note of all inputs, or fail as the files here ask.

The file `processor` is no input."""
import os
import pathlib
import sys
import time

out, *ins = sys.argv[1:]
name = pathlib.Path(out).name
stage = name.partition("@")[0]
with open("order.txt", "a") as order:
    order.write(name + "\\n")
with open("gpus.txt", "a") as gpus:
    gpus.write(name + " " + os.environ.get("CUDA_VISIBLE_DEVICES", "") + "\\n")
if pathlib.Path(f"mend-{name}").exists():
    sys.exit(f"{stage}: raw.jsonl, row 3: no column 'target'\\nRename it, or name it in the params.")
crash = pathlib.Path(f"crash-{name}")
if crash.exists():
    crash.unlink()
    print("RuntimeError: power cut", file=sys.stderr)
    sys.exit(70)
while pathlib.Path(f"wait-{name}").exists():
    time.sleep(0.05)
print(f"{name} was here")
pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
if name == "report":
    value = 0.25 if pathlib.Path("processor").exists() else 0.5
    pathlib.Path(out).with_name("x.json").write_text('{"m1": {"bleu": %s}}' % value)
pathlib.Path(out).write_text(name + "".join(pathlib.Path(part).read_text() for part in ins)
                             + "".join(path.read_text() for path in pathlib.Path().glob("processor")))
'''
DVC_YAML = """
stages:
  ingest:
    foreach: ${datasets}
    do:
      cmd: sh stages/run.sh artifacts/data/${key}/ingest@${key} ${item.source}
      desc: read
      deps: ["${item.source}", work.py]
      outs: ["artifacts/data/${key}/ingest@${key}"]
  side:
    foreach: ${datasets}
    do:
      cmd: sh stages/run.sh artifacts/data/${key}/side@${key} artifacts/data/${key}/ingest@${key}
      deps: ["artifacts/data/${key}/ingest@${key}"]
      outs: ["artifacts/data/${key}/side@${key}"]
  train_x:
    foreach: ${models.hcl}
    do:
      cmd: sh stages/run.sh artifacts/models/${key}/train_x@${key} artifacts/data/${item.dataset}/ingest@${item.dataset}
      meta: {gpu: true, parallel: true, retries: 2}
      deps: ["artifacts/data/${item.dataset}/ingest@${item.dataset}"]
      params: ["models.hcl.${key}"]
      outs: ["artifacts/models/${key}/train_x@${key}"]
  evaluate_x:
    foreach: ${runs.hcl}
    do:
      cmd: sh stages/run.sh artifacts/runs/${key}/evaluate_x@${key} artifacts/models/${item.model}/train_x@${item.model}
      deps: ["artifacts/models/${item.model}/train_x@${item.model}"]
      outs: ["artifacts/runs/${key}/evaluate_x@${key}"]
  report:
    cmd: sh stages/run.sh artifacts/report/report
    deps: [artifacts/runs]
    params: [runs]
    outs: [artifacts/report/report]
    metrics: [{artifacts/report/x.json: {cache: false}}]
"""
RECIPES = {
    "one": """# The first recipe.
recipe: one
datasets: {d: {source: raw}}
keywords: &d {datasets: [d]}
graph: *d
node_vectors: *d
models: {hcl: {m1: {dataset: d}, m2: {dataset: d, seeds: [2]}}}
runs: {hcl: {m1: {model: m1}, m2: {model: m2}}}
""",
    "two": """# The second recipe.
recipe: two
datasets: {d: {source: raw}}
keywords: &d {datasets: [d]}
graph: *d
node_vectors: *d
models: {hcl: {m1: {dataset: d, seeds: [5]}}}
runs: {hcl: {m1: {model: m1}}}
""",
    "outside": """# Data that does not ship.
recipe: outside
datasets: {far: {source: "{data}/far"}}
models: {hcl: {}}
runs: {hcl: {}}
"""}


def make_project(folder: Path) -> Path:
    """Write the project into ``folder``, with params from recipe ``one``, and return ``folder``."""
    from pipeline.recipes import apply, plan

    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    files = {"work.py": WORK, "stages/run.sh": 'exec python work.py "$@"\n', "dvc.yaml": DVC_YAML, "raw": "raw\n",
             ".gitignore": "/artifacts/*\n!/artifacts/report\n/artifacts/report/*\n!/artifacts/report/x.json\n"
             "/.keycontrast/\n/order.txt\n/gpus.txt\n/processor\n", ".dvcignore": ".keycontrast\n",
             ".dvc/config": "[core]\n    analytics = false\n    check_update = false\n",
             ".dvc/.gitignore": "/tmp\n/cache\n",
             **{f"recipes/{name}.yaml": text for name, text in RECIPES.items()}}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    apply(plan("one", root=folder), folder)
    return folder


def environment(**more: str) -> dict[str, str]:
    """The environment of a command in such a project."""
    programs = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join([programs, os.environ["PATH"]]), "PYTHONPATH": str(ROOT),
            "COLUMNS": "200", "NO_COLOR": "1", **more}


def keycontrast(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in ``folder``."""
    return subprocess.run([sys.executable, "-m", "pipeline", *arguments], cwd=folder, env=environment(**more),
                          capture_output=True, text=True, check=False, timeout=240)


def dvc(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run DVC in ``folder``."""
    return subprocess.run([sys.executable, "-m", "dvc", *arguments], cwd=folder, env=environment(),
                          capture_output=True, text=True, check=False, timeout=240)


def lock(folder: Path) -> dict:
    """The parsed ``dvc.lock``: DVC writes its entries in the order of completion."""
    return yaml.safe_load((folder / "dvc.lock").read_text())


def order(folder: Path) -> list[str]:
    """The stage instances that have run since the last call, in order."""
    path = folder / "order.txt"
    names = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return names
