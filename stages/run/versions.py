"""Which packages a machine that trains must have, and since when; read without importing any of them."""

import re
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from stages.run.errors import InputError

# Everything that stages import which train, generate and evaluate; the floors are those of pyproject.toml.
FLOORS = {"torch": "2.11", "transformers": "5.17", "tokenizers": "0.22", "safetensors": "0.5", "numpy": "2.0",
          "pandas": "3.0", "pyarrow": "20", "tqdm": "4.60"}
PYTHON = "3.11"


def checked_versions(tolerant: bool = False) -> list[str]:
    """Return what is to be said of the versions here, which is nothing if all are right.

    Args:
        tolerant: go on with packages that are too old.

    Raises:
        InputError: some are missing, or too old; names all of them, with the remedy.
    """
    problems = wanting()
    if not problems:
        return []
    if tolerant and not any(problem.endswith("missing") for problem in problems):
        return [f"Going on, although {', '.join(problems)}."]
    way_out = "" if tolerant else "\n--old-versions goes on with old ones, at your risk."
    raise InputError(f"{', '.join(problems)}. {remedy(problems)}{way_out}")


def wanting(floors: Mapping[str, str] = FLOORS) -> list[str]:
    """Return a phrase for each package that is missing or too old, and for Python itself."""
    here = ".".join(map(str, sys.version_info[:3]))
    found = [] if _at_least(here, PYTHON) else [f"Python {here} is older than {PYTHON}"]
    for name, floor in floors.items():
        try:
            there = version(name)
        except PackageNotFoundError:
            found.append(f"{name} is missing")
            continue
        if not _at_least(there, floor):
            found.append(f"{name} {there} is older than {floor}")
    return found


def remedy(problems: list[str], floors: Mapping[str, str] = FLOORS) -> str:
    """Return the command that installs what :func:`wanting` names."""
    names = [name for name in floors if any(problem.startswith(f"{name} ") for problem in problems)]
    python = [f"Use Python {PYTHON} or later."] if any(problem.startswith("Python") for problem in problems) else []
    install = [f"pip install {' '.join(repr(f'{name}>={floors[name]}') for name in names)}"] if names else []
    return " ".join([*python, *install])


def _at_least(there: str, floor: str) -> bool:
    """Compare release numbers; what follows them (2.13.0+cpu, 2.11.0rc1) does not count."""
    one, two = ([int(number) for number in re.findall(r"\d+", re.split(r"[+a-zA-Z]", text)[0])]
                for text in (there, floor))
    return one >= two
