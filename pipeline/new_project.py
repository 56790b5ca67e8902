"""``keycontrast init``: a project outside of a clone, over the installed stages.

It has what a clone has but code: ``dvc.yaml`` with the same stages, ``params.yaml``, a recipe, the sample's texts. In
the place of files of code its stages depend on ``installed.yaml`` (:mod:`stages.run.installed`).
"""

import re
import shutil
from pathlib import Path

import stages
from pipeline.recipes import apply, plan
from stages.common.shipped import shipped
from stages.common.tables import atomic_folder
from stages.run.errors import InputError
from stages.run.installed import INSTALLED, described

RECIPE = "first"
_FILES = (f"recipes/{RECIPE}.yaml", "data/sample", ".dvc/plots")
_CODE = re.compile(r" +- (?:models|stages)/\S+")
_IGNORED = "/.venv\n/artifacts/\n/.keycontrast/\n"
_DVC = "[core]\n    analytics = false\n    check_update = false\n{scm}[cache]\n    type = \"reflink,hardlink,copy\"\n"


def begin(folder: Path) -> None:
    """Make a project in ``folder``, which may have a ``.git`` and nothing else.

    Raises:
        InputError: there is something in it.
    """
    if folder.exists() and (not folder.is_dir() or {path.name for path in folder.iterdir()} - {".git"}):
        raise InputError(f"{folder}: is there already, with something in it. Name a folder that is not, or an empty "
                         f"one.")
    if folder.exists():
        _fill(folder)
        return
    with atomic_folder(folder) as unfinished:
        _fill(unfinished)


def _fill(folder: Path) -> None:
    for name in _FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if shipped(name).is_dir():
            shutil.copytree(shipped(name), folder / name)
        else:
            shutil.copyfile(shipped(name), folder / name)
    (folder / "stages").mkdir()
    shutil.copyfile(Path(stages.__file__).with_name("run.sh"), folder / "stages" / "run.sh")
    in_git = any((parent / ".git").exists() for parent in [folder.resolve(), *folder.resolve().parents])
    for name, content in ((".gitignore", _IGNORED), (".dvc/.gitignore", "/config.local\n/tmp\n/cache\n"),
                          (".dvcignore", "__pycache__\n.venv\n.keycontrast\n.*.tmp\n.*.old\n"),
                          (".dvc/config", _DVC.format(scm="" if in_git else "    no_scm = true\n")),
                          (str(INSTALLED), described()),
                          ("dvc.yaml", without_code(shipped("dvc.yaml").read_text(encoding="utf-8")))):
        (folder / name).write_text(content, encoding="utf-8")
    apply(plan(RECIPE, root=folder), folder)


def without_code(text: str) -> str:
    """Return ``text`` of ``dvc.yaml`` with ``installed.yaml`` in place of the files of code of each stage."""
    lines: list[str] = []
    for line in text.split("\n"):
        if not _CODE.fullmatch(line):
            lines.append(line)
            continue
        dependency = f"{line[:line.index('-')]}- {INSTALLED}"
        if lines[-1] != dependency:
            lines.append(dependency)
    return "\n".join(lines)
