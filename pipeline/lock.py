"""``dvc.lock``: is it whole, and what is committed where this machine only rounds differently?

Another kind of processor gives weights and metrics other last digits. Then ``dvc.lock`` and metrics stay as git has
them, and the bytes that DVC recorded here are kept in ``.keycontrast/local``, in force while a command runs.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from stages.common.tables import atomic_file
from stages.run.errors import InputError

LOCK = Path("dvc.lock")
_DIGEST = 32  # digits of an MD5; less was cut off
LOCAL = Path(".keycontrast", "local")
_OWN, _COMMITTED, _FILES = LOCAL / "dvc.lock", LOCAL / "committed.lock", LOCAL / "files"
_BEFORE = Path(".keycontrast", "lock-before-run")
_CONFLICT = re.compile(rb"^(<{7}|={7}|>{7})( |\r?$)", re.MULTILINE)
_RESTORE = ("`git checkout dvc.lock` brings back the last one that was committed, and `keycontrast run` then makes "
            "what has changed since. Where git has none, delete the file: everything is then made anew.")
_ONE_SIDE = ("Take one side whole, `git checkout --ours dvc.lock` or `git checkout --theirs dvc.lock`, and then "
             "`keycontrast run`: what does not fit the params is made anew.")


class UnreadableLock(InputError):
    """``dvc.lock`` is damaged; the message ends with the remedy."""

    def __init__(self, problem: str, remedy: str = _RESTORE) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem, self.remedy = problem, remedy


def read_lock(root: Path = Path()) -> dict[str, Any]:
    """Return the stages of ``dvc.lock`` by name; none if there is no such file."""
    return _stages_of((root / LOCK).read_bytes()) if (root / LOCK).exists() else {}


def machine_lock(root: Path = Path()) -> dict[str, Any]:
    """Return the stages of ``dvc.lock`` as this machine made them: :func:`read_lock`, but for the rounding."""
    return _stages_of((root / _OWN).read_bytes()) if _is_local(root) else read_lock(root)


def _stages_of(content: bytes) -> dict[str, Any]:
    mark = _CONFLICT.search(content)
    if mark is not None:
        line = content.count(b"\n", 0, mark.start()) + 1
        raise UnreadableLock(f"dvc.lock, line {line}: a mark of a conflict that git could not merge.", _ONE_SIDE)
    try:
        parsed = yaml.load(content, yaml.CSafeLoader)  # noqa: S506 - safe, and ten times as fast as safe_load
    except yaml.YAMLError as error:
        raise UnreadableLock(f"dvc.lock: not valid YAML ({' '.join(str(error).split())}).") from error
    stages = parsed.get("stages") if isinstance(parsed, dict) else None
    if not isinstance(stages, dict) or not all(isinstance(entry, dict) for entry in stages.values()):
        raise UnreadableLock("dvc.lock: not what DVC writes, which is a mapping with `schema` and `stages`.")
    return stages


@contextmanager
def own_lock(say: Callable[[str], None], save: bool = False) -> Iterator[None]:
    """Put the bytes of this machine in force during the block; afterwards what is committed, unless ``save``."""
    _mend(say)
    if _is_local(Path()):
        _copy(_OWN, LOCK)
        for path in _FILES.rglob("*"):
            if path.is_file():
                _copy(path, path.relative_to(_FILES))
    if LOCK.exists():
        _copy(LOCK, _BEFORE)
    try:
        yield
    finally:
        _keep_committed(say, save)
        _BEFORE.unlink(missing_ok=True)


def _mend(say: Callable[[str], None]) -> None:
    """Put ``dvc.lock`` back as it was before a run that was killed while DVC wrote it."""
    before = _stages_of(_BEFORE.read_bytes()) if _BEFORE.exists() else {}
    try:
        stages = read_lock()
        whole = before.keys() <= stages.keys() and all(
            len(str(item.get("md5"))) >= _DIGEST for entry in stages.values()
            for kind in ("deps", "outs") for item in entry.get(kind) or ())
    except UnreadableLock as error:
        if not _BEFORE.exists() or error.remedy == _ONE_SIDE:
            raise
        whole = False
    if _BEFORE.exists() and not whole:
        _copy(_BEFORE, LOCK)
        say("dvc.lock was cut off when a command was killed; it is again as it was before that command.")


def _is_local(root: Path) -> bool:
    """Tell whether ``dvc.lock`` is the committed one that stands for other bytes of this machine."""
    return ((root / _OWN).exists() and (root / LOCK).exists()
            and (root / LOCK).read_bytes() == (root / _COMMITTED).read_bytes())


def _keep_committed(say: Callable[[str], None], save: bool) -> None:
    known = _OWN.read_bytes() if _OWN.exists() else b""
    shutil.rmtree(LOCAL, ignore_errors=True)
    committed = _git("show", f"HEAD:./{LOCK}")
    if not committed or save or not LOCK.exists():
        return
    content = LOCK.read_bytes()
    before, after = _stages_of(committed), _stages_of(content)
    changed = [name for name in after if after[name] != before.get(name)]
    if not changed or not differs_by_rounding(before, after):
        return
    outs = [item["path"] for name in changed for item in after[name].get("outs", ())]
    files = _git("diff", "--name-only", "--relative", "HEAD", "--", *outs).decode().splitlines()
    _copy(LOCK, _OWN)
    for path in files:
        _copy(Path(path), _FILES / path)
        Path(path).write_bytes(_git("show", f"HEAD:./{path}"))
    for place in (_COMMITTED, LOCK):
        place.write_bytes(committed)
    if content != known:
        say(f"{len(changed)} of {len(after)} stages wrote other bytes from the same inputs, as another kind of "
            f"processor does. dvc.lock and {len(files)} metrics files stay as committed, so that git has no changes; "
            f"`keycontrast run --save` writes those of this machine.")


def differs_by_rounding(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Tell whether all stages of ``after`` had the inputs of ``before``: command, params and deps.

    A dep counts as the same if it was made by a stage whose own inputs are the same.
    """
    made: set[str] = set()
    rest = {name for name in after if after[name] != before.get(name)}
    while same := {name for name in rest if name in before and _same_inputs(before[name], after[name], made)}:
        made |= {path for name in same for path in _hashes(after[name], "outs")}
        rest -= same
    return not rest


def _same_inputs(one: dict[str, Any], other: dict[str, Any], made: set[str]) -> bool:
    deps, others = _hashes(one, "deps"), _hashes(other, "deps")
    return all(one.get(part) == other.get(part) for part in ("cmd", "params")) and deps.keys() == others.keys() and all(
        deps[path] == others[path] or any(_overlap(path, out) for out in made) for path in deps)


def _overlap(one: str, other: str) -> bool:
    return one == other or other.startswith(f"{one}/") or one.startswith(f"{other}/")


def _hashes(entry: dict[str, Any], kind: str) -> dict[str, Any]:
    return {item["path"]: item.get("md5") for item in entry.get(kind, ())}


def _copy(source: Path, target: Path) -> None:
    with atomic_file(target) as temporary:
        shutil.copyfile(source, temporary)


def _git(*words: str) -> bytes:
    """Return what git answers; nothing where there is no git, or no such thing in it."""
    try:
        return subprocess.run(["git", *words], capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return b""
