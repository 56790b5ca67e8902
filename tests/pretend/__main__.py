"""Print what trainings and decodings cost, with the place of every wait, or write the budgets anew.

PYTHONPATH=tests:. python -m pretend              names and figures of all
PYTHONPATH=tests:. python -m pretend hcl pgkpr    these, with places
PYTHONPATH=tests:. python -m pretend --further    a step's second micro-batch, whose gradients are added to the first's
PYTHONPATH=tests:. python -m pretend --write      tests/budgets.json
"""

import argparse
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"], os.environ["TRANSFORMERS_VERBOSITY"] = "1", "error"

from pretend import workloads  # noqa: E402
from pretend.measure import decoded_token, micro_batch  # noqa: E402
from transformers.utils import logging  # noqa: E402


def main():
    """Print or write what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m pretend", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="trainings and decodings; all by default, without places")
    parser.add_argument("--write", action="store_true", help="write tests/budgets.json")
    parser.add_argument("--further", action="store_true", help="the second micro-batch of a step, not one alone")
    asked = parser.parse_args()
    logging.disable_progress_bar()
    if asked.write:
        from pretend import budgets

        budgets.write()
        return
    with tempfile.TemporaryDirectory() as folder:
        _trainings(Path(folder), asked.names, asked.further)
        _decodings(asked.names)


def _trainings(folder, names, further):
    for name, make in workloads.trainings(folder).items():
        if not names or name in names:
            work = make()
            record = micro_batch(work.stage, work.train, places=bool(names), further=further)
            print(f"{name}: {record.table() if names else record.figures()}", flush=True)
            if names:
                print("  operations:", ", ".join(f"{name} {count}" for name, count in record.operations.most_common()))
                by_place = [f"  {count:5} {what}  {where}" for (what, where), count in record.launched.most_common(40)]
                print(*by_place, sep="\n")


def _decodings(names):
    for name, make in workloads.decodings().items():
        if not names or name in names:
            print(f"{name}, per token: {decoded_token(make())}", flush=True)


if __name__ == "__main__":
    main()
