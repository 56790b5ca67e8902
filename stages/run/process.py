"""The frame of every stage process: arguments, logging, lock, error messages, resource record."""

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from keycontrast.errors import CRASHED, InputError, unwritten
from stages.common.distributed import PeerLost, is_first, launched, speaks, start_processes
from stages.common.settings import Params, read_params, stage_hash, stage_params, stage_values
from stages.run.log import configure, logger
from stages.run.processes import die_with, exclusive, usage

# Neither is an artifact: both may be deleted at any time.
SCRATCH = Path(".keycontrast") / "scratch"
RECORDS = Path(".keycontrast") / "records"


@dataclass(frozen=True)
class StageProcess:
    """One running stage instance."""

    stage: str
    instance: str  # its DVC `foreach` key (data set, model or run); empty for `report`
    scratch: Path  # folder of this process and those that `torchrun` started with it; survives a kill
    measured: dict[str, Any] = field(default_factory=dict)  # for its record; durations never enter an artifact
    seed: int | None = None  # of the current model

    def under(self, seed: int) -> "StageProcess":
        """Return the same stage instance for one seed of its row, with a scratch folder of its own."""
        return replace(self, scratch=self.scratch / str(seed), seed=seed)

    @property
    def name(self) -> str:
        """Name in DVC, ``stage@instance``."""
        return f"{self.stage}@{self.instance}" if self.instance else self.stage

    @cached_property
    def params(self) -> Params:
        """The params that ``dvc.yaml`` declares for it, and where and how it runs."""
        return stage_params(self._all_params, self.stage, self.instance)

    @property
    def params_hash(self) -> str:
        """Hash of the declared params, for the metadata of artifacts."""
        return stage_hash(self._all_params, self.stage, self.instance, self.seed)

    @property
    def declared_values(self) -> dict[str, Any]:
        """The declared params by dotted name, for the key of a checkpoint."""
        return stage_values(self._all_params, self.stage, self.instance, self.seed)

    @property
    def first(self) -> bool:
        """Whether this process, of several, writes and shows progress."""
        return is_first()

    @property
    def log(self) -> logging.Logger:
        """Logger of this stage."""
        return logger(self.stage)

    @cached_property
    def _all_params(self) -> Params:
        return read_params()


def run_stage(stage: str, work: Callable[[StageProcess], None], argv: list[str] | None = None,
              instance: str | None = "DATASET", processes: Callable[[], int] | None = None) -> int:
    """Run ``work`` as stage ``stage`` of ``dvc.yaml`` and return the exit status of the process.

    ``instance`` is the name of its argument, None for a stage without instances. ``processes`` returns the number of
    processes that share the work; the first locks the scratch folder and writes the record.
    """
    module = work.__module__
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=sys.modules[module].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: python -m {module}" + (f" {instance.lower()}" if instance else ""))
    if instance:
        parser.add_argument("instance", metavar=instance, help=f"{instance.lower()} as named in params.yaml")
    arguments = parser.parse_args(argv)
    configure()
    key = arguments.instance if instance else ""
    if launched():
        die_with(os.getppid())
    started = time.monotonic()
    try:
        if processes is not None and not launched() and (wanted := processes()) > 1:
            return start_processes(["-m", "stages.run.processes", module, *([key] if key else [])], wanted)
        scratch = SCRATCH / stage / (key or "all")
        with exclusive(scratch, f"{stage} {key}".strip()) if is_first() else nullcontext():
            process = StageProcess(stage, key, scratch)
            process.params  # noqa: B018 - invalid params stop every stage before it works
            work(process)
        if is_first():
            record = {"seconds": round(time.monotonic() - started, 3), **usage(), **process.measured}
            RECORDS.mkdir(parents=True, exist_ok=True)
            (RECORDS / f"{stage}@{key or 'all'}.json").write_text(json.dumps(record) + "\n")
    except InputError as error:
        if speaks():
            _print(stage, str(error))
        return 1
    except PeerLost as lost:
        if speaks():
            _print(f"{stage}@{key}", str(lost))
        return CRASHED
    except Exception as error:
        message = unwritten(error)
        if message is None:
            raise
        _print(stage, message)
        return 1
    return 0


def _print(stage: str, message: str) -> None:
    print(f"{stage}: {message}", file=sys.stderr)  # noqa: T201 - the message is the command's output
