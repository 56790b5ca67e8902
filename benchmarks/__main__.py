"""Run the project's engines and their named peers side by side; print medians, ratios and peak memory.

Every benchmark first checks that the contenders give the same answers, then warms up and repeats, in turn.
They work on data of their own, made from a seed.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.harness import Context, Disagreement, Section, run_apart
from benchmarks.pgkpr_parity import WANTED
from benchmarks.reporting import as_markdown, as_text, machine
from stages.run.durable import atomic_file
from stages.run.errors import InputError, nearest

NAMES = ("textrank", "attribution", "graph", "train_step", "pgkpr_parity", "repro")
PARITY = "pgkpr_parity"
ORDER = (*NAMES, "scale", "gpu")  # of the document's parts; `python -m benchmarks gpu` has options of its own
DOCUMENT = Path("docs") / "performance.md"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter,
                                   epilog="example: python -m benchmarks textrank graph --repeats 3\n"
                                          "on a GPU: python -m benchmarks gpu --help")
    made.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; all if none is named")
    made.add_argument("--peer", type=Path, metavar="DIR", help=f"for {PARITY}: {WANTED}")
    made.add_argument("--repeats", type=int, default=5, help="counted runs of each contender (5)")
    made.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, measures nothing")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--write", action="store_true",
                      help=f"also write what was measured into {DOCUMENT}; other parts of it stay")
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the benchmarks named in ``argv`` and print what they measured."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["gpu"]:
        from benchmarks.gpu.command import main as measure_gpu

        return measure_gpu(argv[1:])
    arguments = parser().parse_args(argv)
    try:
        names = _checked(arguments)
        context = Context(arguments.repeats, arguments.quick, arguments.peer)
    except InputError as error:
        sys.stderr.write(f"benchmarks: {error}\n")
        return 1
    measured, failed = _measure(names, context)
    if arguments.json:
        content = {"machine": machine(), "benchmarks": {name: [asdict(section) for section in sections]
                                                        for name, sections in measured.items()}}
        sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(as_text(measured))
    for name, problem in failed.items():
        sys.stderr.write(f"benchmarks: {name}: {problem}\n")
    if arguments.write and not failed:
        before = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
        with atomic_file(DOCUMENT) as temporary:
            temporary.write_text(as_markdown(measured, machine(), before, ORDER), encoding="utf-8")
    return 1 if failed else 0


def _measure(names: list[str], context: Context) -> tuple[dict[str, list[Section]], dict[str, str]]:
    """Return what was measured, and what went wrong with the others: one that fails does not lose the rest."""
    measured, failed = {}, {}
    for name in names:
        try:
            measured[name] = run_apart(name, context)
        except (InputError, Disagreement) as error:
            failed[name] = str(error)
    return measured, failed


def _checked(arguments: argparse.Namespace) -> list[str]:
    for name in arguments.names:
        if name not in NAMES:
            raise InputError(f"no benchmark is called {name!r}; {nearest(name, NAMES)}")
    if arguments.repeats < 1:
        raise InputError(f"--repeats: {arguments.repeats} is less than 1.")
    if arguments.write and arguments.quick:
        raise InputError("--write: the document holds what is measured at full size; leave out --quick.")
    if arguments.peer is None and PARITY in arguments.names:
        raise InputError(f"{PARITY}: name {WANTED} with --peer; it cannot ship with us.")
    if arguments.peer is not None and not arguments.peer.is_dir():
        raise InputError(f"--peer: {arguments.peer} is no folder; name {WANTED}.")
    if arguments.names:
        return list(arguments.names)
    if arguments.peer is None:
        sys.stderr.write(f"benchmarks: {PARITY} is left out: it needs --peer, {WANTED}\n")
    return [name for name in NAMES if arguments.peer is not None or name != PARITY]


if __name__ == "__main__":
    sys.exit(main())
