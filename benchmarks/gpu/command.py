"""Measure this project on a GPU: `python -m benchmarks gpu`.

For each track (HCL, PGKPR, CLLD), in fp32 and bf16: agreement of losses, gradients and outputs with the CPU; a
training with its items per second and peak memory; and the same training killed and resumed, to equal bytes. Needs no
network and no artifacts, and fits into ten minutes.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu.runner import KINDS, Part, Runner, as_json, machine, parts_of, plan, say
from benchmarks.gpu.sizes import PRECISIONS, SIZES, TRACKS, Job
from benchmarks.gpu.table import NO_GPU, report
from stages.run.durable import atomic_file

RESULTS = Path("gpu-results.json")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                      help="cpu: the same parts at reduced size, on a machine without a GPU")
    made.add_argument("--minutes", type=float, default=9.0, help="for everything; fewer steps where there is less (9)")
    made.add_argument("--out", type=Path, default=RESULTS, metavar="FILE",
                      help=f"results, written after each part ({RESULTS}); the tables stand beside it, as .md")
    made.add_argument("--encoder", metavar="DIR", help="an encoder that HCL and CLLD start from, as save_pretrained "
                                                       "writes it; without it their weights are random")
    made.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, metavar="KIND", help=", ".join(KINDS))
    made.add_argument("--tracks", nargs="+", choices=TRACKS, default=TRACKS, metavar="TRACK", help=", ".join(TRACKS))
    made.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS, metavar="PRECISION",
                      help=", ".join(PRECISIONS))
    made.add_argument("--sizes", choices=sorted(SIZES), help="paper on a GPU, small on a CPU; tiny measures nothing")
    made.add_argument("--write", action="store_true", help="also write the tables into docs/performance.md")
    made.add_argument("--read", type=Path, metavar="FILE", help="measure nothing: print, or --write, these results")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write; return 1 if anything failed."""
    started, arguments = time.monotonic(), parser().parse_args(argv)
    problem = _problem(arguments)
    if problem is not None:
        sys.stderr.write(f"benchmarks gpu: {problem}\n")
        return 1
    content = json.loads(arguments.read.read_text(encoding="utf-8")) if arguments.read else _measured(
        arguments, started)
    parts = parts_of(content)
    lines = report(content, parts)
    if not arguments.read:
        arguments.out.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join(lines) + "\n")
    if arguments.write:
        _write(content, lines)
    return 1 if any(part.state in ("failed", "wrong", "waiting") for part in parts) else 0


def _problem(arguments: argparse.Namespace) -> str | None:
    """Return what keeps this from being measured, and what to do about it."""
    if arguments.read is not None:
        return None if arguments.read.is_file() else f"--read: {arguments.read} is no file."
    if arguments.minutes <= 0:
        return "--minutes must be more than 0."
    if arguments.encoder is not None and not (Path(arguments.encoder) / "config.json").is_file():
        return f"--encoder: {arguments.encoder} holds no config.json; name a folder that save_pretrained wrote."
    if arguments.write and (arguments.device == "cpu" or arguments.sizes == "tiny"):
        return "--write: docs/performance.md holds figures of a GPU at full size; leave out --device cpu and --sizes."
    if arguments.device == "cuda" and not _sees_gpu():
        return ("torch sees no CUDA device here. Give --device cpu to run the same parts at reduced size on the CPU, "
                "which measures no GPU, or install a torch that was built for the driver of yours.")
    return None


def _sees_gpu() -> bool:
    """Ask in a process of its own: the one that starts the parts must not touch the device."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_cuda)


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _measured(arguments: argparse.Namespace, started: float) -> dict[str, Any]:
    sizes = arguments.sizes or ("paper" if arguments.device == "cuda" else "small")
    about: dict[str, Any] = {
        "machine": machine(arguments.device), "sizes": str(SIZES[sizes]), "encoder": arguments.encoder,
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "minutes": 0.0}
    about["precisions"] = "" if about["machine"]["bf16"] else "This device has no bf16 of its own: torch emulates it."
    if arguments.device == "cpu":
        say(NO_GPU)

    def heard(parts: Sequence[Part]) -> None:
        about["minutes"] = (time.monotonic() - started) / 60
        with atomic_file(arguments.out) as temporary:
            temporary.write_text(as_json(parts, about), encoding="utf-8")

    job = Job("hcl", "fp32", arguments.device, sizes, arguments.encoder)
    left = arguments.minutes - (time.monotonic() - started) / 60
    parts = plan(arguments.only, arguments.tracks, arguments.precisions)
    runner = Runner(parts, job, left, heard, say)
    heard(runner.parts)
    runner.run()
    return {**about, "parts": [asdict(part) for part in runner.parts]}


def _write(content: dict[str, Any], lines: Sequence[str]) -> None:
    from benchmarks.__main__ import DOCUMENT, ORDER
    from benchmarks.reporting import with_part

    if content["machine"]["devices"] == 0:
        sys.stderr.write("benchmarks gpu: --write: these results are of no GPU; nothing is written.\n")
        return
    before = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    part = "\n".join(["## gpu", "", "`python -m benchmarks gpu`", "", *lines])
    with atomic_file(DOCUMENT) as temporary:
        temporary.write_text(with_part("gpu", part, before, ORDER), encoding="utf-8")
