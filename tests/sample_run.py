"""The sample in a fresh clone: killed in the middle, finished by a second run; a third run has nothing to do.

Then the example in the help of every command runs on it.

    python -m tests.sample_run
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import yaml
from typer.main import get_command

from pipeline.cli import app

ROOT = Path(__file__).resolve().parents[1]
LOGS = Path(".keycontrast/logs")
STAGES_BEFORE_THE_KILL = 20
SECONDS = 1500


def start(clone: Path, *words: str, **options: Any) -> "subprocess.Popen[Any]":
    """Start a command of the clone's own code."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen([sys.executable, "-m", "pipeline", *words], cwd=clone,
                            env={**os.environ, "PATH": path, "PYTHONPATH": str(clone)}, **options)


def finish(clone: Path) -> int:
    """Run to the end; return the number of stages that ran."""
    began = time.time()
    if status := start(clone, "run").wait(SECONDS):
        sys.exit(f"keycontrast run ended with {status}")
    return ran_since(clone, began)


def ran_since(clone: Path, moment: float) -> int:
    """Count the stages whose log was written since ``moment``."""
    return sum(log.stat().st_mtime > moment for log in (clone / LOGS).glob("*.log"))


def examples_of(command: Any, before: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Return the examples in the help of each command below ``command``, by the command's name."""
    found = {}
    for name, inner in command.commands.items():
        if hasattr(inner, "commands"):
            found |= examples_of(inner, (*before, name))
        else:
            text = " ".join((inner.help or "").partition("Example")[2].split())
            found[" ".join((*before, name))] = re.findall(r"`(keycontrast [^`]+)`", text)
    return found


def run_examples(clone: Path) -> None:
    """Run the example in the help of every command on the finished sample."""
    sheets = clone / "judging" / "sheets"
    for name, (example,) in examples_of(get_command(app)).items():
        if name == "judge read":
            for sheet in sheets.glob("*.csv"):
                rows = pd.read_csv(sheet, dtype=str)
                rows.fillna("2").to_csv(sheet, index=False)
        command = start(clone, *shlex.split(example)[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said, _ = command.communicate()
        if command.returncode:
            sys.exit(f"`{example}` ended with {command.returncode}:\n{said}")
        print(f"`{example}` works")
    for path in ("abstracts.graphml", "dog.graphml", "dog.svg"):
        (clone / path).unlink(missing_ok=True)
    shutil.rmtree(clone / "judging")


def main() -> None:
    """Do it in a folder that is removed afterwards."""
    with TemporaryDirectory(prefix="keycontrast-sample-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        began, run = time.time(), start(clone, "run")
        try:
            while run.poll() is None and ran_since(clone, began) < STAGES_BEFORE_THE_KILL:
                time.sleep(0.1)
            if run.poll() is not None:
                sys.exit(f"the run ended with {run.returncode} before {STAGES_BEFORE_THE_KILL} stages had begun")
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()
        ran, stages = finish(clone), len(yaml.safe_load((clone / "dvc.lock").read_text(encoding="utf-8"))["stages"])
        print(f"killed after {STAGES_BEFORE_THE_KILL} of {stages} stages; a second run took {ran}")
        if not 0 < ran < stages:
            sys.exit("the second run did not go on from where the first was killed")
        before = (clone / "dvc.lock").read_bytes()
        if finish(clone) or (clone / "dvc.lock").read_bytes() != before:
            sys.exit("a run with nothing to do did something")
        run_examples(clone)
        changes = subprocess.run(["git", "status", "--short"], cwd=clone, check=True, capture_output=True, text=True)
        if changes.stdout:
            sys.exit(f"git is not clean after the runs; other bytes from other inputs?\n{changes.stdout}")


if __name__ == "__main__":
    main()
