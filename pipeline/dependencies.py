"""The code dependencies in ``dvc.yaml``, from what the stages import: DVC does not follow imports.

    python -m pipeline.dependencies             # says what is not as it should be
    python -m pipeline.dependencies --write     # mends it

A stage depends on the files that its module imports, directly or not, at module level or in functions; a folder stands
for its files where all of them are among these. What no artifact depends on is left out by name; see ``WITHOUT``.
"""

import argparse
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import yaml

from stages.common.code import code_of, has_code
from stages.common.entries import module_of

_ROOT = Path(__file__).resolve().parent.parent
_DVC = "dvc.yaml"
_CODE = ("stages/", "models/")
# Modules that say how, where or in what words a stage works, never what it makes.
WITHOUT = {
    "stages.run.process": "arguments, lock and record of a process; the values that it reads are `settings`",
    "stages.run.processes": "ends a stage with its command, and locks folders",
    "stages.common.storage": "carries parts of tables to where they are kept, and back",
    "stages.run.cluster_map": "where chunks of texts are worked on",
    "stages.tracks.common.finished": "takes what was finished before as it is",
    "stages.run.progress": "bars",
    "stages.run.log": "lines for people",
    "stages.run.errors": "words of errors",
    "stages.run.durable": "waits for the disk",
    "stages.common.shipped": "where a clone or an installation has its files",
}
_ALWAYS = ("stages.common.settings",)  # which only the process imports


def code_dependencies(stage: str) -> list[str]:
    """Return the files and folders of code that ``stage`` depends on, as ``dvc.yaml`` is to name them, sorted."""
    used = {path for path in code_of([module_of(stage), *_ALWAYS], tuple(WITHOUT)) if has_code(path)}
    used |= {folder for path in used for folder in _data_folders(path.parent)}
    return sorted(path.relative_to(_ROOT).as_posix() for path in _joined(used))


@cache
def _data_folders(package: Path) -> list[Path]:
    """Return the folders of a package that hold what its modules read, such as templates, and no modules."""
    found = []
    for folder in package.iterdir():
        read = [path.suffix for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        if read and ".py" not in read:
            found.append(folder)
    return found


def _joined(used: set[Path]) -> set[Path]:
    """Return ``used`` with each folder in the place of its files if there are several and all are used."""
    joined = set(used)
    for folder in sorted({path.parent for path in used if path.suffix == ".py"}, key=lambda one: -len(one.parts)):
        inside = {path for path in folder.rglob("*.py") if has_code(path)}
        if len(inside) > 1 and inside <= used and folder.parent != _ROOT:
            joined = {path for path in joined if folder not in path.parents} | {folder}
    return joined


def rewritten(text: str) -> str:
    """Return ``text`` of ``dvc.yaml`` with the code dependencies of every stage as they should be."""
    stages, stage, written = yaml.safe_load(text)["stages"], "", False
    lines: list[str] = []
    for line in text.split("\n"):
        name = re.fullmatch(r"  (\w+):", line)
        if name is not None and name[1] in stages:
            stage, written = name[1], False
        dependency = re.fullmatch(rf"( +)- (?:{'|'.join(_CODE)})\S+", line)
        if dependency is None:
            lines.append(line)
        elif not written:
            lines += [f"{dependency[1]}- {path}" for path in code_dependencies(stage)]
            written = True
    return "\n".join(lines)


def main(argv: Iterable[str] | None = None) -> int:
    """Compare or rewrite ``dvc.yaml``; see ``--help``."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.dependencies", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {_DVC} anew")
    write = parser.parse_args(None if argv is None else list(argv)).write
    path = _ROOT / _DVC
    present = path.read_text(encoding="utf-8")
    wanted = rewritten(present)
    if wanted == present:
        return 0
    if write:
        path.write_text(wanted, encoding="utf-8")
        return 0
    sys.stderr.write(f"{_DVC}: code dependencies differ from the imports; python -m pipeline.dependencies --write\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
