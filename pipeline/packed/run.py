"""Train and compute what a pack holds, on a machine that has torch and transformers and little else.

    python run_packed.py --out DIR

trains every model of the pack, computes every run on them, and leaves one archive in DIR: results.tar.gz, with
predictions, histories, metrics and records, to be read at home by `keycontrast unpack`. The archive is written anew
after each step, so that what is done is never lost; the same command goes on where an earlier one ended.

    python run_packed.py --out DIR --check

measures this project on the GPU of the machine instead, within ten minutes, on made-up texts.
"""

import argparse
import hashlib
import io
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.process import BaseProcess as Process
from pathlib import Path
from typing import Any

from stages.common.archives import write_archive
from stages.common.entries import module_of
from stages.common.paths import ModelPaths, RunPaths
from stages.common.settings import MACHINE, laid_over
from stages.run.errors import InputError
from stages.run.versions import checked_versions
from stages.tracks.registry import TRACKS

PACK = Path("pack.json")
OVERRIDES = Path("overrides.json")
ENCODER = Path("encoder")
HALF = "half.safetensors"
LOGS, DONE = Path("logs"), Path("done")
RESULTS, MEASURED = "results.tar.gz", "gpu-results.json"
CONTENTS = "results.json"
_POLL_SECONDS, _REPORT_SECONDS, _GRACE_SECONDS = 0.2, 20.0, 45.0
_LOG_BYTES = 65_536
# Tables of a model that travel home, as its confusing pairs do, each kind once for all models that have the same one.
MODEL_TABLES = ("items", "paraphrase_items", "vocabulary", "validation_confusion", "label_distance")
MODEL_FILES = ("history.csv", "metrics.json", "evaluations.csv")
_VERSIONS = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pandas", "pyarrow")


class Refused(Exception):
    """Something that the person who gave the command can mend; the message says how."""


@dataclass
class Job:
    """One stage instance.

    Attributes:
        stage: as dvc.yaml calls it.
        key: data set, model or run.
        needs: names of jobs that must be done before.
        state: waiting, running, done, failed or stopped.
        seconds: how long it ran, over all attempts of this command.
    """

    stage: str
    key: str
    needs: tuple[str, ...]
    state: str = "waiting"
    seconds: float = 0.0
    process: Process | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Name as the pipeline writes it."""
        return f"{self.stage}@{self.key}"

    @property
    def mark(self) -> Path:
        """A file that is there once the job is done."""
        return DONE / self.name

    @property
    def log(self) -> Path:
        """What its process says."""
        return LOGS / f"{self.name}.log"


def jobs_of(pack: Mapping[str, Any], models: Sequence[str] | None) -> list[Job]:
    """Return the jobs of ``models`` (all, if none is named) in an order in which they can run.

    A model brings along the one that it starts from, or takes its confusing pairs from, and every run on it.

    Raises:
        Refused: no such model.
    """
    known = pack["models"]
    unknown = [name for name in models or [] if name not in known]
    if unknown:
        raise Refused(f"the pack has no model {unknown[0]!r}; it has {', '.join(sorted(known))}")
    chosen: dict[str, None] = {}

    def add(name: str) -> None:
        for earlier in (known[name]["init_from"], known[name].get("pairs_of")):
            if earlier is not None and earlier not in chosen:
                add(earlier)
        chosen.setdefault(name)

    for name in models or known:
        add(name)
    datasets = dict.fromkeys(known[name]["dataset"] for name in chosen if TRACKS[known[name]["track"]].vectors)
    consulted = {known[name].get("pairs_of") for name in chosen}
    jobs = [Job("node_vectors", dataset, ()) for dataset in datasets]
    for name in chosen:
        training = Job(TRACKS[known[name]["track"]].trained_by, name, _needs(known[name]))
        jobs.append(training)
        if name in consulted:
            jobs.append(Job("confusing_pairs", name, (training.name,)))
        jobs += [Job(entry["stage"], run, (training.name,)) for run, entry in pack["runs"].items()
                 if entry["model"] == name]
    return jobs


def _needs(model: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the jobs that the training of a model waits for."""
    track, start, other = TRACKS[model["track"]], model["init_from"], model.get("pairs_of")
    return (*([f"node_vectors@{model['dataset']}"] if track.vectors else []),
            *([f"{track.trained_by}@{start}"] if start is not None else []),
            *([f"confusing_pairs@{other}"] if other is not None else []))


class Runner:
    """Runs jobs side by side, each as a process of its own.

    Args:
        jobs: in an order in which they can run.
        side_by_side: how many at a time.
        deadline: by ``time.monotonic``; jobs that still run then are stopped, and nothing new begins.
        launch: starts the process of a job.
    """

    def __init__(self, jobs: Sequence[Job], side_by_side: int, deadline: float,
                 launch: Callable[[Job], Process]) -> None:
        self.jobs, self.side_by_side, self.deadline, self.launch = list(jobs), side_by_side, deadline, launch
        for job in self.jobs:
            if job.mark.exists():
                job.state = "done"

    def steps(self) -> Iterator[Job]:
        """Run everything and yield each job as it ends, well or badly."""
        reported = time.monotonic()
        try:
            while self._start() or self._running():
                for job in self._running():
                    if self._ended(job):
                        yield job
                if time.monotonic() > self.deadline:
                    return
                if time.monotonic() - reported > _REPORT_SECONDS:
                    reported = time.monotonic()
                    self._report()
                time.sleep(_POLL_SECONDS)
        finally:
            self._stop()

    def _running(self) -> list[Job]:
        return [job for job in self.jobs if job.state == "running"]

    def _start(self) -> bool:
        states = {job.name: job.state for job in self.jobs}
        started = False
        for job in self.jobs:
            if len(self._running()) >= self.side_by_side:
                break
            if job.state == "waiting" and all(states[name] == "done" for name in job.needs):
                self._launch(job)
                started = True
        return started

    def _launch(self, job: Job) -> None:
        say(f"{job.name} begins")
        job.state = "running"
        job.seconds -= time.monotonic()
        job.process = self.launch(job)

    def _ended(self, job: Job) -> bool:
        assert job.process is not None
        status = job.process.exitcode
        if status is None:
            return False
        job.seconds += time.monotonic()
        job.state = "done" if status == 0 else "failed"
        if status == 0:
            job.mark.touch()
            say(f"{job.name} done in {job.seconds:.0f} s")
        else:
            say(f"{job.name} failed with status {status}:\n{_tail(job.log, 2000)}")
        return True

    def _report(self) -> None:
        for job in self._running():
            line = _tail(job.log, 400).replace("\r", "\n").strip().rpartition("\n")[2]
            say(f"{job.name}: {line or 'starting'}")

    def _stop(self) -> None:
        """End what still runs; trainings keep their checkpoint."""
        for job in self._running():
            assert job.process is not None
            job.process.terminate()
        for job in self._running():
            assert job.process is not None
            job.process.join(_GRACE_SECONDS)
            if job.process.exitcode is None:
                job.process.kill()
                job.process.join()
            job.state, job.seconds = "stopped", job.seconds + time.monotonic()
            say(f"{job.name} stopped before its end. The same command goes on from its checkpoint.")


def launcher(stages: Sequence[str]) -> Callable[[Job], Process]:
    """Return what starts jobs of ``stages``: by forks of a server that has imported torch and all else once.

    The server never touches the device, so that each job begins as a new process would, some seconds sooner.
    """
    from stages.run.guard import ORCHESTRATOR
    from stages.run.systems import start_method

    # Who is named so takes the stages with it when it is killed.
    os.environ |= {ORCHESTRATOR: str(os.getpid()), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    context: Any = multiprocessing.get_context(start_method())
    if start_method() == "forkserver":
        context.set_forkserver_preload([module_of(stage) for stage in stages])

    def launch(job: Job) -> Process:
        process = context.Process(target=run_job, args=(job.stage, job.key, job.log), name=job.name)
        process.start()
        return process

    return launch


def run_job(stage: str, key: str, log: Path) -> None:
    """Run a stage instance in this process, which ends with its status; all that it says goes into ``log``."""
    with log.open("ab") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
    if stage.startswith("train_"):
        import_module("stages.run.stopping").listen()
    sys.exit(import_module(module_of(stage)).main([key]))


def _tail(path: Path, size: int) -> str:
    content = path.read_bytes() if path.exists() else b""
    return content[-size:].decode("utf-8", errors="replace").strip()


def widen_encoders() -> None:
    """Write the encoders' weights, which travel in half precision, in the single precision that is computed in.

    A pack of models that need no encoder has none.
    """
    for half in sorted(Path().glob(f"{ENCODER}*/{HALF}")):
        target = half.with_name("model.safetensors")
        if not target.exists():
            _widen(half, target)


def _widen(half: Path, target: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    weights = {name: tensor.float() if tensor.dtype == torch.float16 else tensor
               for name, tensor in load_file(half).items()}
    unfinished = target.with_suffix(".tmp")
    save_file(weights, unfinished, metadata={"format": "pt"})
    unfinished.replace(target)


def settle_overrides(overrides: Mapping[str, Any]) -> None:
    """Make sure that nothing was done here under other options.

    Raises:
        Refused: something was.
    """
    text = json.dumps(overrides, sort_keys=True)
    if OVERRIDES.exists() and OVERRIDES.read_text() != text and any(DONE.glob("*")):
        raise Refused(f"this folder has results under other options ({OVERRIDES.read_text()}, now {text}). Give the "
                      f"same ones, or take the pack apart in a new folder.")
    OVERRIDES.write_text(text)


def differences(pack: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params that this machine has in another way than ``params.yaml``, nested like that.

    Args:
        pack: content of ``pack.json``.
        overrides: of the block ``runtime``; None leaves a value as it is. A precision is that of trainings too.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    trainings: dict[str, Any] = {}
    if "precision" in given:
        training = {"training": {"precision": given["precision"]}}
        for name, model in pack["models"].items():
            trainings.setdefault("models", {}).setdefault(model["track"], {})[name] = {"overrides": training}
    return laid_over(laid_over(pack["here"], trainings), {"runtime": given})


def machine(device: str) -> dict[str, Any]:
    """Return what decides the numbers beside the params: the device and the versions of what computed on it."""
    import torch

    on_gpu = device != "cpu" and torch.cuda.is_available()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(0) if on_gpu else f"cpu ({platform.machine()})",
                             "python": platform.python_version(), "cuda": torch.version.cuda if on_gpu else None}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def write_results(file: Path, pack: Mapping[str, Any], jobs: Sequence[Job], about: Mapping[str, Any],
                  weights: bool) -> None:
    """Write one archive of everything that is done, whole or not at all.

    Tables of models that have the same ones are written once.
    """
    done = {job.name: job for job in jobs if job.state == "done"}
    trained = [job.key for job in done.values() if job.stage.startswith("train_")]
    runs = [job.key for job in done.values() if job.stage == pack["runs"].get(job.key, {}).get("stage")]
    members: dict[str, Path | bytes] = {}
    tables: dict[str, dict[str, str]] = {}
    for paths in (ModelPaths(name, seed) for name in trained for seed in pack["models"][name]["seeds"]):
        place = f"{paths.name}/{paths.seed}"
        files = {part: paths.folder / part for part in MODEL_FILES}
        members |= {f"models/{place}/{part}": path for part, path in files.items() if path.exists()}
        found = {kind: paths.table(kind) for kind in MODEL_TABLES} | {"confusing_pairs": paths.confusing_pairs}
        tables[place] = {kind: rows_digest(path) for kind, path in found.items() if path.exists()}
        for kind, digest in tables[place].items():
            members.setdefault(f"{kind}/{digest}.parquet", found[kind])
        if weights:
            members |= {f"weights/{place}/{part.name}": part for part in sorted(paths.weights.iterdir())}
    members |= {f"runs/{run}/{seed}/{part}": RunPaths(run, seed).file(part) for run in runs
                for seed in pack["models"][pack["runs"][run]["model"]]["seeds"]
                for part in TRACKS[pack["runs"][run]["track"]].run_files}
    members |= {f"records/{path.name}": path for path in sorted(Path(".keycontrast/records").glob("*.json"))}
    members |= {f"logs/{job.log.name}": _tail(job.log, _LOG_BYTES).encode() for job in jobs if job.log.exists()}
    states = {job.name: {"state": job.state, "seconds": round(job.seconds, 1)} for job in jobs}
    contents = {"pack": pack, **about, "jobs": states, "tables": tables, "models": trained, "runs": runs}
    write_archive(file, "results", {CONTENTS: json.dumps(contents, indent=1, sort_keys=True).encode(), **members})


def rows_digest(path: Path) -> str:
    """Return a digest of the rows of a table, whatever its metadata."""
    import pyarrow as pa

    from stages.common.tables import read_table

    table = read_table(path).replace_schema_metadata(None).combine_chunks()
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return hashlib.sha256(sink.getvalue()).hexdigest()[:16]


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python run_packed.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help=f"folder that {RESULTS} is left in")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="only these, with what they start from")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="trainings side by side on the device")
    parser.add_argument("--time-limit", "--minutes", type=float, metavar="MIN", help="stop after so many "
                        "minutes; the same command goes on from the checkpoints")
    parser.add_argument("--precision", choices=("fp32", "bf16"), help="of all matrix products, in place of the params'")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--nondeterministic", action="store_true",
                        help="allow kernels that sum in another order each time, where a deterministic one is missing")
    parser.add_argument("--weights", action="store_true", help="bring back the trained weights too: large")
    parser.add_argument("--check", action="store_true",
                        help="measure this project on the GPU, and train nothing of the pack; --device cpu: smaller")
    parser.add_argument("--old-versions", action="store_true", help="go on with packages that are too old")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 1 or (arguments.time_limit is not None and arguments.time_limit <= 0):
        parser.error("--jobs must be at least 1, and --time-limit more than 0")
    return arguments


def _run(arguments: argparse.Namespace) -> int:
    started = time.monotonic()
    for line in checked_versions(arguments.old_versions):
        say(line)
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = arguments.out.resolve() / RESULTS
    os.chdir(Path(__file__).resolve().parent)
    if arguments.check:
        widen_encoders()
        check: Callable[..., int] = import_module("benchmarks.gpu.command").check
        return check(results.with_name(MEASURED), ENCODER, arguments.time_limit, arguments.device)
    pack = json.loads(PACK.read_text(encoding="utf-8"))
    jobs = jobs_of(pack, arguments.models)
    # One process per training: any number trains the same model, and here is one device.
    overrides = {"device": arguments.device, "precision": arguments.precision, "processes": 1}
    overrides |= {"deterministic": False} if arguments.nondeterministic else {}
    for folder in (LOGS, DONE):
        folder.mkdir(exist_ok=True)
    settle_overrides(overrides)
    MACHINE.write_text(json.dumps(differences(pack, overrides)))
    widen_encoders()
    about = {"machine": machine(arguments.device), "overrides": overrides}
    say(f"pack {pack['pack']} on {about['machine']['device']}, torch {about['machine']['torch']}: "
        f"{len(pack['models'])} models, {len(pack['runs'])} runs; {len(jobs)} steps here")
    limit = arguments.time_limit
    deadline = started + 60 * limit if limit is not None else float("inf")
    runner = Runner(jobs, arguments.jobs, deadline, launcher(sorted({job.stage for job in jobs})))
    for _ in runner.steps():
        write_results(results, pack, jobs, about, arguments.weights)
    write_results(results, pack, jobs, about, arguments.weights)
    left = [job.name for job in jobs if job.state != "done"]
    say(f"{len(jobs) - len(left)} of {len(jobs)} steps are done; {results} has {results.stat().st_size / 2**20:.1f} MiB"
        + (f". Not done: {', '.join(left)}" if left else ""))
    return 1 if left else 0


def main(argv: list[str] | None = None) -> int:
    """Run the pack that this file stands in; see ``--help``."""
    arguments = _arguments(argv)
    try:
        return _run(arguments)
    except (Refused, InputError) as problem:
        sys.stderr.write(f"run_packed: {problem}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
