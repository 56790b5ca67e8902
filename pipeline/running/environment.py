"""What the programs that we start find in their environment.

Nothing here imports Prefect: its settings are read once, when it is imported, so they must stand before.
"""

import os
import sys
from pathlib import Path

from stages.run.processes import ORCHESTRATOR

HOME = Path(".keycontrast")
LOGS = HOME / "logs"
RUN_LOCK = HOME / "run"
PREFECT_HOME = HOME / "prefect"

# Deployments and a person's own Prefect settings win over each of these.
_PREFECT_DEFAULTS = {
    # The terminal has lines of its own; the server keeps what stages say.
    "PREFECT_LOGGING_LEVEL": "INFO",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_CONCURRENCY_MAXIMUM_CONCURRENCY_SLOT_WAIT_SECONDS": "0.5",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLI_COLORS": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}


def settle_environment(root: Path) -> None:
    """Put this installation's programs first on PATH and give Prefect a home inside ``root``.

    Args:
        root: the project's folder. A ``PREFECT_HOME`` that is already set is kept.
    """
    programs = str(Path(sys.executable).parent)
    paths = [part for part in os.environ.get("PATH", "").split(os.pathsep) if part and part != programs]
    os.environ["PATH"] = os.pathsep.join([programs, *paths])
    os.environ.setdefault("PREFECT_HOME", str((root / PREFECT_HOME).resolve()))
    for name, value in _PREFECT_DEFAULTS.items():
        os.environ.setdefault(name, value)


def child_environment() -> dict[str, str]:
    """Return the environment of a child that has to die with this process."""
    return {**os.environ, ORCHESTRATOR: str(os.getpid()), "DVC_NO_ANALYTICS": "true", "PYTHONUNBUFFERED": "1"}
