"""Command line of the harness."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.harness import cases
from tests.harness.inputs import damaged_input
from tests.harness.kills import killed_project
from tests.harness.params import damaged_params

HOME = Path(tempfile.mkdtemp())
KINDS: dict[str, cases.Case] = {
    "mutate": lambda chance: chance.choice([damaged_params, damaged_input])(chance),
    "kill": lambda chance: killed_project(chance, HOME)}


def main() -> int:
    """Run the cases that are asked for; the status says whether one has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness", description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--n", type=int, default=100, help="attacks in all")
    parser.add_argument("--seed", type=int, default=13, help="draws them")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which no further case begins")
    parser.add_argument("--jobs", type=int, default=1, help="cases side by side")
    asked = parser.parse_args()
    failed = cases.run(asked.kind, KINDS[asked.kind], asked.n, asked.seed, asked.minutes, at_once=asked.jobs)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
