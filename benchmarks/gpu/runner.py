"""Runs the parts one after another, each in a process of its own, within a time; a fault in one is told, and the rest
go on. What is known is written after each.

Processes are forks of a server that has imported torch and all else once and never touches the device, so each begins
as a new process would, some seconds sooner, and the end of one leaves the device as it was.
"""

import gc
import json
import multiprocessing
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.gpu.sizes import PRECISIONS, TRACKS, Job

KINDS = ("agreement", "training", "resume")
# Shares of the time; a resumed training trains its steps once more, in two processes.
_WEIGHTS = {"agreement": 1.0, "training": 3.0, "resume": 4.5}
_HEAVIER = {"hcl": 1.3}
_BEGIN_SECONDS = 5.0  # of a process, until it computes
_PATIENCE, _GRACE_SECONDS = 3.0, 25.0  # times its share, and so much more, after which a part is ended
_POLL_SECONDS, _SAY_SECONDS = 0.05, 10.0
_VERSIONS = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pandas", "pyarrow")


@dataclass
class Part:
    """One measurement.

    Attributes:
        kind: of :data:`KINDS`.
        track: of ``benchmarks.gpu.sizes.TRACKS``.
        precision: ``fp32`` or ``bf16``.
        state: ``waiting``, ``done``, ``wrong`` (answers that should be one are apart), ``failed`` or ``left out``.
        problem: a sentence, unless it is done.
        seconds: that it took.
        figures: what was measured.
    """

    kind: str
    track: str
    precision: str
    state: str = "waiting"
    problem: str = ""
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Kind, track and precision."""
        return f"{self.kind} {self.track} {self.precision}"

    @property
    def weight(self) -> float:
        """Share of the time."""
        return _WEIGHTS[self.kind] * _HEAVIER.get(self.track, 1.0)


@dataclass(frozen=True)
class Ended:
    """How a process ended: its status, what it found, and the end of what it said."""

    status: int | None
    figures: dict[str, Any] | None
    said: str


def plan(kinds: Sequence[str] = KINDS, tracks: Sequence[str] = TRACKS,
         precisions: Sequence[str] = PRECISIONS) -> list[Part]:
    """Return the parts of ``kinds``: each kind for every track and precision before the next."""
    return [Part(kind, track, precision) for kind in KINDS if kind in kinds for track in tracks
            for precision in precisions]


class Runner:
    """Runs parts in order.

    Args:
        parts: from :func:`plan`.
        job: what all have in common.
        minutes: for all of them.
        heard: called with what is known after each part.
        say: prints a line.
    """

    def __init__(self, parts: Sequence[Part], job: Job, minutes: float, heard: Callable[[Sequence[Part]], None],
                 say: Callable[[str], None]) -> None:
        self.parts, self.job, self.heard, self.say = list(parts), job, heard, say
        self.deadline = time.monotonic() + 60 * minutes
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["benchmarks.gpu.parts"])
        # The workspace is what deterministic products on a GPU ask for. A library that looks for a GPU when it is
        # imported must not open it in the server, whose forks could not open it again.
        for name, value in (("CUBLAS_WORKSPACE_CONFIG", ":4096:8"), ("PYTORCH_NVML_BASED_CUDA_CHECK", "1")):
            os.environ.setdefault(name, value)

    def run(self) -> None:
        """Run every part for which there is time."""
        with tempfile.TemporaryDirectory(prefix="keycontrast-gpu-") as folder:
            for number, part in enumerate(self.parts):
                left = self.deadline - time.monotonic()
                share = left * part.weight / sum(one.weight for one in self.parts[number:])
                self.say(f"[{number + 1}/{len(self.parts)}] {part.name}: {share:.0f} s of {max(left, 0):.0f} s")
                started = time.monotonic()
                self._one(part, share, Path(folder))
                part.seconds = time.monotonic() - started
                self.say(f"    {part.state} in {part.seconds:.1f} s{': ' if part.problem else ''}{part.problem}")
                self.heard(self.parts)

    def _one(self, part: Part, share: float, folder: Path) -> None:
        if share <= 0:
            part.state, part.problem = "left out", "the time was used up before it; give more --minutes, or --only"
            return
        job = replace(self.job, track=part.track, precision=part.precision, seconds=max(1.0, share - _BEGIN_SECONDS),
                      folder=str(folder / f"{part.track}-{part.precision}"))
        (self._resume if part.kind == "resume" else self._plain)(part, job, share)
        problem = part.figures.pop("problem", "")
        if part.state == "waiting":
            part.state, part.problem = ("wrong", problem) if problem else ("done", "")

    def _plain(self, part: Part, job: Job, share: float) -> None:
        ended = self._child(part.kind, job, share)
        if ended.figures is None:
            part.state, part.problem = "failed", _why(ended)
        else:
            part.figures = ended.figures

    def _resume(self, part: Part, job: Job, share: float) -> None:
        """Train as before, with checkpoints; kill the process, go on in another, and compare what comes out."""
        reference = next((one.figures for one in self.parts if one.state in ("done", "wrong") and (
            one.kind, one.track, one.precision) == ("training", part.track, part.precision)), None)
        if reference is None:
            part.state, part.problem = "left out", "the training that it is compared with was not done"
            return
        at = max(1, round(0.7 * reference["steps"]))
        job = replace(job, steps=reference["steps"], more={"store": True, "kill_at": at})
        killed = self._child("training", job, share)
        if killed.status != -signal.SIGKILL:
            part.state, part.problem = "failed", f"it was to be killed at step {at}, but: {_why(killed)}"
            return
        resumed = self._child("training", replace(job, more={"store": True}), share)
        shutil.rmtree(job.folder, ignore_errors=True)
        if resumed.figures is None:
            part.state, part.problem = "failed", f"after the kill: {_why(resumed)}"
            return
        found = resumed.figures
        same = found["digest"] == reference["digest"]
        part.figures = {"steps": reference["steps"], "killed at": at, "resumed at": found["resumed at"],
                        "equal bytes": same, **{name: found[name] for name in (
                            "checkpoints", "checkpoint MiB", "seconds per checkpoint")}}
        if not 0 < found["resumed at"] <= at:
            part.figures["problem"] = f"killed at step {at}, but it went on from step {found['resumed at']}"
        elif not same:
            part.figures["problem"] = "weights or history differ from those of the training that ran through"

    def _child(self, kind: str, job: Job, share: float) -> Ended:
        """Run a part's work in a process; it is ended if it takes far longer than its share."""
        with tempfile.TemporaryDirectory() as folder:
            log, result = Path(folder) / "log", Path(folder) / "result.json"
            process = self.context.Process(target=work, args=(kind, job, log, result), daemon=False)
            process.start()
            said = time.monotonic()
            late = min(said + _PATIENCE * share, self.deadline) + _GRACE_SECONDS
            while process.exitcode is None and time.monotonic() < late:
                process.join(_POLL_SECONDS)
                if time.monotonic() - said > _SAY_SECONDS:
                    said = time.monotonic()
                    self.say(f"    {_tail(log).rpartition(chr(10))[2] or 'begins'}")
            if process.exitcode is None:
                process.kill()
                process.join()
                return Ended(None, None, _tail(log))
            figures = json.loads(result.read_text(encoding="utf-8")) if result.exists() else None
            return Ended(process.exitcode, figures, _tail(log))


def work(kind: str, job: Job, log: Path, result: Path) -> None:
    """Do the work of a part in this process; all that it says goes into ``log``, what it finds into ``result``."""
    with log.open("ab") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    from benchmarks.gpu.parts import WORK

    gc.freeze()  # what was imported is not gone through again whenever a measurement collects garbage
    figures = WORK[kind](job)
    unfinished = result.with_suffix(".tmp")
    unfinished.write_text(json.dumps(figures), encoding="utf-8")
    unfinished.replace(result)


def machine(device: str) -> dict[str, Any]:
    """Return what decides the figures: device, processor, versions. Asks for the device in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_machine, (device,))


def _machine(device: str) -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {"device": f"CPU ({platform.machine()})", "cuda": torch.version.cuda, "devices": 0,
                             "cores": len(os.sched_getaffinity(0)), "python": platform.python_version(),
                             "bf16": True, "threads": torch.get_num_threads()}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {"device": properties.name, "devices": torch.cuda.device_count(),
                  "device GiB": round(properties.total_memory / 2**30), "bf16": torch.cuda.is_bf16_supported(),
                  "compute capability": f"{properties.major}.{properties.minor}"}
    for name in _VERSIONS:
        found[name] = version(name) if _installed(name) else None
    return found


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _why(ended: Ended) -> str:
    last = ended.said.strip().rpartition("\n")[2]
    if ended.status is None:
        return f"it took far longer than its share, and was ended; it said last: {last or 'nothing'}"
    return f"its process ended with status {ended.status}; it said last: {last or 'nothing'}"


def _tail(path: Path) -> str:
    return path.read_bytes()[-4000:].decode("utf-8", errors="replace").replace("\r", "\n").strip() if path.exists(
        ) else ""


def as_json(parts: Sequence[Part], about: Mapping[str, Any]) -> str:
    """Return everything that is known, for a file."""
    rows = [{"kind": part.kind, "track": part.track, "precision": part.precision, "state": part.state,
             "problem": part.problem, "seconds": round(part.seconds, 1), "figures": part.figures} for part in parts]
    return json.dumps({**about, "parts": rows}, indent=1, ensure_ascii=False) + "\n"


def parts_of(content: Mapping[str, Any]) -> list[Part]:
    """Return the parts that :func:`as_json` wrote."""
    return [Part(**row) for row in content["parts"]]


def say(text: str) -> None:
    """Print a line at once."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
