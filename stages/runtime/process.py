"""The frame around every stage process: arguments, logging, guard, lock, clean errors, resource record."""

import argparse
import json
import logging
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stages.runtime.errors import InputError
from stages.runtime.guard import die_with, exclusive, watched_ancestors
from stages.runtime.log import configure, logger

# Neither is an artifact: both may be deleted at any time, at the cost of repeated work.
SCRATCH = Path(".keycontrast") / "scratch"
RECORDS = Path(".keycontrast") / "records"


@dataclass(frozen=True)
class StageProcess:
    """One running stage instance.

    Attributes:
        stage: name of the stage.
        instance: its DVC ``foreach`` key (data set, model or run); empty for ``report``.
        scratch: folder that only this process holds; survives a kill; never an out.
    """

    stage: str
    instance: str
    scratch: Path

    @property
    def name(self) -> str:
        """Name as DVC writes it, ``stage@instance``."""
        return f"{self.stage}@{self.instance}" if self.instance else self.stage

    @property
    def log(self) -> logging.Logger:
        """Logger of this stage."""
        return logger(self.stage)


def run_stage(stage: str, work: Callable[[StageProcess], None], argv: list[str] | None = None,
              instance: str | None = "DATASET") -> int:
    """Run ``work`` as stage ``stage`` and return the exit status of the process.

    Args:
        stage: stage name, equal to its module, params block and test.
        work: reads, calls ``run``, writes.
        argv: arguments after the program name; ``sys.argv`` by default.
        instance: what the one argument names; None for a stage without instances.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m stages.{stage}", description=sys.modules[work.__module__].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: python -m stages.{stage}" + (f" {instance.lower()}" if instance else ""))
    if instance:
        parser.add_argument("instance", metavar=instance, help=f"{instance.lower()} as named in params.yaml")
    arguments = parser.parse_args(argv)
    configure()
    key = arguments.instance if instance else ""
    die_with(watched_ancestors())
    started = time.monotonic()
    try:
        with exclusive(SCRATCH / stage / (key or "all"), f"{stage} {key}".strip()) as scratch:
            work(StageProcess(stage, key, scratch))
    except InputError as error:
        print(f"{stage}: {error}", file=sys.stderr)  # noqa: T201 - the message is the command's output
        return 1
    _record(stage, key, time.monotonic() - started)
    return 0


def _record(stage: str, key: str, seconds: float) -> None:
    usage, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    record = {"seconds": round(seconds, 3), "cpu_seconds": round(usage.ru_utime + usage.ru_stime
                                                                + children.ru_utime + children.ru_stime, 3),
              "peak_memory_mib": max(usage.ru_maxrss, children.ru_maxrss) // 1024}
    RECORDS.mkdir(parents=True, exist_ok=True)
    (RECORDS / f"{stage}@{key or 'all'}.json").write_text(json.dumps(record) + "\n")
