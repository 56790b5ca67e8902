"""The sample in a fresh clone: killed in the middle, finished by a second run; a third run has nothing to do.

    python -m tests.sample_run
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

ROOT = Path(__file__).resolve().parents[1]
LOGS = Path(".keycontrast/logs")
STAGES_BEFORE_THE_KILL = 20
SECONDS = 1500


def start(clone: Path) -> "subprocess.Popen[bytes]":
    """Start ``keycontrast run`` of the clone's own code."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen([sys.executable, "-m", "pipeline", "run"], cwd=clone,
                            env={**os.environ, "PATH": path, "PYTHONPATH": str(clone)})


def finish(clone: Path) -> tuple[float, int]:
    """Run to the end; return the seconds, and the number of stages that ran."""
    began, clock = time.time(), time.monotonic()
    status = start(clone).wait(SECONDS)
    if status:
        sys.exit(f"keycontrast run ended with {status}")
    return time.monotonic() - clock, ran_since(clone, began)


def ran_since(clone: Path, moment: float) -> int:
    """Count the stages whose log was written since ``moment``."""
    return sum(log.stat().st_mtime > moment for log in (clone / LOGS).glob("*.log"))


def main() -> None:
    """Do it in a folder that is removed afterwards."""
    with TemporaryDirectory(prefix="keycontrast-sample-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        began, run = time.time(), start(clone)
        try:
            while run.poll() is None and ran_since(clone, began) < STAGES_BEFORE_THE_KILL:
                time.sleep(0.1)
            if run.poll() is not None:
                sys.exit(f"the run ended with {run.returncode} before {STAGES_BEFORE_THE_KILL} stages had begun")
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()
        seconds, ran = finish(clone)
        stages = len(yaml.safe_load((clone / "dvc.lock").read_text(encoding="utf-8"))["stages"])
        print(f"killed after {STAGES_BEFORE_THE_KILL} of {stages} stages; the second took {seconds:.0f} s for {ran}")
        if not 0 < ran < stages:
            sys.exit("the second run did not go on from where the first was killed")
        before = (clone / "dvc.lock").read_bytes()
        seconds, ran = finish(clone)
        print(f"a third run took {seconds:.0f} s for {ran} stages")
        if ran or (clone / "dvc.lock").read_bytes() != before:
            sys.exit("a run with nothing to do did something")
        changes = subprocess.run(["git", "status", "--short"], cwd=clone, check=True, capture_output=True, text=True)
        if changes.stdout:
            sys.exit(f"git is not clean after the runs; other bytes from other inputs?\n{changes.stdout}")


if __name__ == "__main__":
    main()
