"""Measure this project on a GPU: `python -m benchmarks gpu`.

For each track (HCL, PGKPR, CLLD), in fp32 and bf16: agreement of losses, gradients and outputs with the CPU; a
training with its items per second and peak memory; and the same training killed and resumed, to equal bytes. It fits
into ten minutes and needs no network and no artifacts: models have the papers' sizes and random weights, texts are
drawn from a seed. Each part runs in a process of its own, and results are written after each.
"""

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.subjects import SEED, SIZES, SUBJECTS, Job, subject_of
from benchmarks.harness import DOCUMENT, duration, machine, markdown_table, write_parts
from keycontrast.files import atomic_file
from models.common.training import History, Step, fit, moved, trained_tensors
from stages.common.seeds import derived_seed, seed_everything
from stages.common.training import loop_settings
from stages.run.checkpoints import FolderCheckpoints

KINDS = {
    "agreement": "One micro-batch without dropout, and greedy outputs (classes), on the device and on the CPU in fp32, "
                 "from the same weights. Apart: of the loss, relative; of the gradient, norm of the difference over "
                 "the norm. In fp32 each may be 0.001, and three of four outputs must be equal; in bf16 the loss may "
                 "be 0.05 apart, and the rest is for information.",
    "training": "The training loop as the stages run it, deterministic algorithms, dropout, clipping and fused Adam "
                "included.",
    "resume": "The same training once more with checkpoints, ended by SIGKILL and resumed in a new process; all "
              "weights and the history are compared to the bit with the training that ran through."}
NO_GPU = "These are no figures of a GPU: they were taken on a CPU at reduced size, and show that every part runs."
_WEIGHTS = {"agreement": 1.0, "training": 3.0, "resume": 4.5}  # shares of the time; a resumed training runs twice
_START_SECONDS = 5.0  # of a process, until it computes
_PATIENCE, _GRACE_SECONDS = 3.0, 25.0  # a part is ended after so many times its share, and so much more
_TOLERANCE, _LOOSE, _EQUAL = 1e-3, 5e-2, 0.75
_EPOCHS = 2
_FEWEST_STEPS = 4
_UNSEEN = ("digest", "resumed")  # compared, not shown

Figures = dict[str, Any]


class PartFailed(RuntimeError):
    """The process of a part gave no result; ``status`` is its exit status, None if it was ended for its time."""

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.status = status


# Parts, each in a process of its own


def agreement(job: Job) -> Figures:
    """Compare a training step and outputs of the device with those of the CPU in fp32, from the same weights."""
    subject, count = _begin(job), job.size.compared
    loss, gradient, outputs = _computed(subject, job.device, job.precision, count)
    cpu_loss, cpu_gradient, cpu_outputs = _computed(subject, "cpu", "fp32", count)
    longest = max(outputs.shape[1], cpu_outputs.shape[1])
    outputs, cpu_outputs = (torch.nn.functional.pad(part, (0, longest - part.shape[1]))
                            for part in (outputs, cpu_outputs))
    equal = int((outputs == cpu_outputs).all(-1).sum())
    loss_apart = abs(loss - cpu_loss) / abs(cpu_loss)
    gradient_apart = float((gradient - cpu_gradient).norm() / cpu_gradient.norm())
    if job.precision == "fp32":
        right = loss_apart <= _TOLERANCE and gradient_apart <= _TOLERANCE and equal >= _EQUAL * count
    else:
        right = loss_apart <= _LOOSE
    return {"state": "done" if right else "**wrong**: further apart than allowed", "loss apart": f"{loss_apart:.1e}",
            "gradient apart": f"{gradient_apart:.1e}", "equal outputs": f"{equal} of {count}"}


def _computed(subject: Any, device: str, precision: str, count: int) -> tuple[float, Tensor, Tensor]:
    """Return loss, gradient (in double precision) and outputs of one micro-batch without dropout, on the CPU."""
    task = subject.task(count, device, dropout=False)
    task.module.train()
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        loss, _ = task.train_batch(moved(task.load(range(count)), torch.device(device)), Step(0, 1, 0, range(count)))
    loss.backward()
    gradient = torch.cat([one.grad.cpu().double().flatten() for one in task.module.parameters()
                          if one.grad is not None])
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        outputs = subject.outputs(task.module.eval(), moved(task.train.batch(range(count)), torch.device(device)))
    return loss.item(), gradient, outputs.cpu()


def training(job: Job) -> Figures:
    """Train as a stage does, with as many steps as fit into ``job.seconds`` unless ``job.steps`` says so.

    With ``job.kill_at`` the process ends itself at that step by SIGKILL, so that it has no time for anything more.
    """
    subject = _begin(job)
    steps = job.steps
    if steps is None:
        trial = _fitted(subject, 4, 1)[1].speed.summary()["seconds_per_step_median"]
        steps = 2 * min(job.size.steps // 2, max(_FEWEST_STEPS // 2, int(job.seconds / trial / 2)))
    if job.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    bar = _Bar(job.kill_at)
    task, history = _fitted(subject, steps // _EPOCHS, _EPOCHS, bar)
    speed = history.speed.summary()
    found = {"steps": steps, "batch": f"{job.batch[0]} ({job.batch[1]})",
             "per step": duration(speed["seconds_per_step_median"]), "items/s": f"{speed['items_per_second']:,.0f}",
             "loss, epochs 1 and 2": " and ".join(f"{row['train_loss']:.3f}" for row in history.rows),
             "resumed": bar.resumed, "digest": digest(task.module, history), "state": "done"}
    if job.device == "cuda":
        found["memory"] = f"{torch.cuda.max_memory_allocated() / 2**20:,.0f} MiB"
    return found


def _fitted(subject: Any, steps: int, epochs: int, bar: "_Bar | None" = None) -> tuple[Any, History]:
    """Train a new task for ``steps`` steps of each epoch; with a folder for checkpoints, go on from the last."""
    job = subject.job
    task = subject.task(job.batch[0] * steps, job.device)
    settings = loop_settings({**subject.training, "epochs": epochs, "batch_size": job.batch[0],
                              "micro_batch": job.batch[1], "precision": job.precision})
    with TemporaryDirectory() as temporary:
        store = FolderCheckpoints(Path(job.folder or temporary), "gpu", math.inf)  # saves at the end of an epoch
        return task, fit(task, settings, store, partial(derived_seed, SEED, "gpu"), bar.opened if bar else None)


class _Bar:
    """Counts steps, and kills its process at a step if it is to."""

    def __init__(self, kill_at: int | None) -> None:
        self.kill_at, self.count, self.resumed = kill_at, 0, 0

    def opened(self, total: int, done: int) -> "_Bar":
        self.resumed = self.count = done
        return self

    def update(self, n: int = 1) -> None:
        self.count += n
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


def digest(module: torch.nn.Module, history: History) -> str:
    """Return a digest of all trained tensors and of the history of epochs, to the bit."""
    found = hashlib.sha256()
    for name, tensor in sorted(trained_tensors(module).items()):
        found.update(name.encode() + tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    found.update(repr([sorted(row.items()) for row in history.rows]).encode())
    return found.hexdigest()


def _begin(job: Job) -> Any:
    """Set this process up as a stage does: seeds, deterministic algorithms."""
    seed_everything(derived_seed(SEED, "gpu"), torch.get_num_threads(), deterministic=True)
    return subject_of(job)


# The process that starts the parts


def in_child(work: Callable[[Job], Figures], job: Job) -> Figures:
    """Return ``work(job)`` from a process of its own, which is ended if it takes far longer than ``job.seconds``.

    Processes are forks of a server that has imported torch once and never touches the device.

    Raises:
        PartFailed: the process ended without a result, or was ended.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.gpu.run"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(work, job, sender))
    process.start()
    sender.close()
    try:
        if not wait([receiver, process.sentinel], _PATIENCE * job.seconds + _GRACE_SECONDS):
            raise PartFailed(f"took far longer than {job.seconds:.0f} s, and was ended", None)
        if not receiver.poll():
            raise EOFError
        return receiver.recv()  # type: ignore[no-any-return]
    except EOFError:
        process.join()
        raise PartFailed(f"its process ended with status {process.exitcode}; see its messages",
                         process.exitcode) from None
    finally:
        process.kill()
        process.join()


def _send(work: Callable[[Job], Figures], job: Job, sender: Any) -> None:
    sender.send(work(job))


def resume(job: Job, reference: Figures, run: Callable[[Callable[[Job], Figures], Job], Figures] = in_child) -> Figures:
    """Train as ``reference`` did, with checkpoints; kill the process, go on in another, and compare what comes out.

    Raises:
        PartFailed: a process failed, or was not killed.
    """
    at = max(1, round(0.7 * reference["steps"]))
    with TemporaryDirectory(prefix="keycontrast-gpu-") as folder:
        job = replace(job, steps=reference["steps"], folder=folder)
        try:
            run(training, replace(job, kill_at=at))
            raise PartFailed(f"it was to be killed at step {at}, but ended", 0)
        except PartFailed as failed:
            if failed.status != -signal.SIGKILL:
                raise
        found = run(training, job)
    state, equal = "done", found["digest"] == reference["digest"]
    if not 0 < found["resumed"] <= at:
        state = f"**wrong**: killed at step {at}, but resumed at step {found['resumed']}"
    elif not equal:
        state = "**wrong**: weights or history differ from those of the training that ran through"
    return {"steps": reference["steps"], "killed at": at, "resumed at": found["resumed"],
            "equal bytes": "yes" if equal else "no", "state": state}


def measure(template: Job, minutes: float, heard: Callable[[dict[str, list[Figures]]], None]) -> None:
    """Run every part for which there is time, and call ``heard`` with the rows by kind after each."""
    started, pairs = time.monotonic(), [(track, precision) for track in SUBJECTS for precision in ("fp32", "bf16")]
    unit = 60 * minutes / (sum(_WEIGHTS.values()) * len(pairs))
    rows: dict[str, list[Figures]] = {kind: [] for kind in KINDS}
    trained: dict[tuple[str, str], Figures] = {}
    for kind in KINDS:
        for track, precision in pairs:
            job = replace(template, track=track, precision=precision,
                          seconds=max(1.0, unit * _WEIGHTS[kind] - _START_SECONDS))
            sys.stderr.write(f"{kind} {track} {precision}: {job.seconds:.0f} s\n")
            try:
                if time.monotonic() - started > 60 * minutes:
                    figures = {"state": "left out: the time was used up; give more --minutes"}
                elif kind == "agreement":
                    figures = in_child(agreement, job)
                elif kind == "training":
                    figures = trained[track, precision] = in_child(training, job)
                elif (track, precision) in trained:
                    figures = resume(job, trained[track, precision])
                else:
                    figures = {"state": "left out: the training that it is compared with was not done"}
            except PartFailed as failed:
                figures = {"state": f"**failed**: {failed}"}
            rows[kind].append({"track": track, "precision": precision, "state": figures.pop("state"), **figures})
            heard(rows)


def report(content: Mapping[str, Any]) -> str:
    """Return the part of the document."""
    lines = ["## gpu", "`python -m benchmarks gpu`", content["machine"],
             f"{content['minutes']:.1f} minutes. Random weights, texts from a seed. Sizes: {content['sizes']}."]
    if content["device"] == "cpu":
        lines.append(f"**{NO_GPU}**")
    for kind, said in KINDS.items():
        rows = [{name: value for name, value in row.items() if name not in _UNSEEN} for row in content["rows"][kind]]
        lines += [f"### {kind.capitalize()}", said, markdown_table(rows)]
    return "\n\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write; return 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: the same parts at reduced size, on a machine without a GPU")
    parser.add_argument("--minutes", type=float, default=9.0, help="for everything; fewer steps in less time (9)")
    parser.add_argument("--out", type=Path, default=Path("gpu-results.json"), metavar="FILE",
                        help="results, written after each part (%(default)s)")
    parser.add_argument("--sizes", choices=SIZES, help="paper on a GPU, small on a CPU; tiny measures nothing")
    parser.add_argument("--write", action="store_true", help=f"also write the tables into {DOCUMENT}")
    parser.add_argument("--read", type=Path, metavar="FILE", help="measure nothing: print, or --write, these results")
    arguments = parser.parse_args(argv)
    started = time.monotonic()
    sizes = arguments.sizes or ("paper" if arguments.device == "cuda" else "small")
    if arguments.read:
        content = json.loads(arguments.read.read_text(encoding="utf-8"))
    elif arguments.device == "cuda" and not torch.cuda.is_available():
        sys.stderr.write("benchmarks gpu: torch sees no CUDA device here. Give --device cpu to run the same parts at "
                         "reduced size, or install a torch that was built for your driver.\n")
        return 1
    else:
        content = {"machine": machine(), "device": arguments.device, "sizes": f"{sizes}: {SIZES[sizes]}"}
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # of deterministic products on a GPU
        # A library that looks for a GPU on import must not open it in the server, whose forks could not open it again.
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"

        def heard(rows: dict[str, list[Figures]]) -> None:
            content.update(minutes=(time.monotonic() - started) / 60, rows=rows)
            with atomic_file(arguments.out) as temporary:
                temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

        measure(Job("", "", arguments.device, sizes), arguments.minutes, heard)
    text = report(content)
    sys.stdout.write(text + "\n")
    if arguments.write and content["device"] == "cpu":
        sys.stderr.write("benchmarks gpu: --write: these results are of no GPU; nothing is written.\n")
    elif arguments.write:
        write_parts({"gpu": text})
    return 1 if "**failed**" in text or "**wrong**" in text else 0


if __name__ == "__main__":
    sys.exit(main())
