"""Run the project's engines beside named peers; print medians, ratios and peak memory.

Every benchmark first checks that the contenders give the same answers, then runs them in turn, on data from a seed.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.harness import DOCUMENT, NAMES, WANTED, Context, Disagreement, part, run_apart, write_parts
from keycontrast.errors import InputError, nearest

# Benchmarks with options of their own.
OF_THEIR_OWN = {"gpu": "benchmarks.gpu", "keyphrases": "benchmarks.keywords", "scale": "benchmarks.scale"}


def main(argv: list[str] | None = None) -> int:
    """Run the benchmarks named in ``argv`` and print what they measured."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and (module := OF_THEIR_OWN.get(argv[0])):
        return int(import_module(module).main(argv[1:]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks keywords graph --repeats 3\n"
                                            "with options of their own: gpu, keyphrases and scale; see gpu --help")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; all if none is named")
    parser.add_argument("--peer", type=Path, metavar="DIR", help=f"{WANTED}; training compares it with ours, part by "
                                                                 f"part")
    parser.add_argument("--repeats", type=int, default=5, help="counted runs of each contender (5)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, measures nothing")
    parser.add_argument("--write", action="store_true",
                        help=f"also write the results into {DOCUMENT}; its other parts stay")
    arguments = parser.parse_args(argv)
    if problem := _problem(arguments):
        sys.stderr.write(f"benchmarks: {problem}\n")
        return 1
    names = arguments.names or list(NAMES)
    context, parts = Context(arguments.repeats, arguments.quick, arguments.peer), {}
    for name in names:
        sys.stderr.write(f"benchmarks: {name} ...\n")
        try:
            sections = run_apart(name, context)
        except (InputError, Disagreement) as error:  # the other benchmarks go on
            sys.stderr.write(f"benchmarks: {name}: {error}\n")
            continue
        peer = " --peer DIR" * (name == "training" and arguments.peer is not None)
        parts[name] = part(name, f"benchmarks {name}{peer}", sections)
        sys.stdout.write(parts[name] + "\n\n")
    if arguments.write:
        write_parts(parts)
    return 0 if len(parts) == len(names) else 1


def _problem(arguments: argparse.Namespace) -> str:
    for name in arguments.names:
        if name not in NAMES:
            return f"no benchmark is called {name!r}; {nearest(name, NAMES)}"
    if arguments.repeats < 1:
        return f"--repeats: {arguments.repeats} is less than 1."
    if arguments.peer is not None and not arguments.peer.is_dir():
        return f"--peer: {arguments.peer} is not a folder; name {WANTED}."
    return "--write needs full size; leave out --quick." if arguments.write and arguments.quick else ""


if __name__ == "__main__":
    sys.exit(main())
