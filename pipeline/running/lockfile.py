"""``dvc.lock``, which git merges line by line: is it whole, and which stages wrote other bytes than it had?"""

import pickle
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from stages.common.paths import METRICS
from stages.common.tables import atomic_file
from stages.run.errors import InputError

LOCK = Path("dvc.lock")
_CONFLICT = re.compile(rb"^(<{7}|={7}|>{7})( |\r?$)", re.MULTILINE)
# What stands in a lock of DVC's before its stages, where each of them begins, and what only the whole file can tell.
_HEAD = "schema: '2.0'\nstages:\n"
_STAGE = re.compile(r"^(?=  \S)", re.MULTILINE)
_ALIAS = re.compile(r"[&*]id\d")
_RESTORE = ("`git checkout dvc.lock` brings back the last one that was committed, and `keycontrast run` then makes "
            "what has changed since. Where git has none, delete the file: everything is then made anew.")
_ONE_SIDE = ("Take one side whole, `git checkout --ours dvc.lock` or `git checkout --theirs dvc.lock`, and then "
             "`keycontrast run`: what does not fit the params is made anew.")


class UnreadableLock(InputError):
    """``dvc.lock`` is not whole; the message ends with the remedy.

    Attributes:
        problem, remedy: the two parts of the message.
    """

    def __init__(self, problem: str, remedy: str = _RESTORE) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem, self.remedy = problem, remedy


def read_lock(root: Path = Path()) -> dict[str, Any]:
    """Return the stages of ``dvc.lock`` by name; none if there is no such file.

    Raises:
        UnreadableLock: it holds the marks of a conflict, or is not what DVC writes.
    """
    return stages_of((root / LOCK).read_bytes()) if (root / LOCK).exists() else {}


def stages_of(content: bytes) -> dict[str, Any]:
    """Return the stages by name of a ``dvc.lock`` with this content; see :func:`read_lock`."""
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


def keep_lock_by_stages() -> None:
    """Let DVC, in this process, take ``dvc.lock`` stage by stage, and write it whole or not at all.

    DVC parses and writes all of it for each stage, at forty stages for more than a second of a processor, and a kill
    would cut off what it writes.
    """
    import dvc.dvcfile
    from dvc.utils import strictyaml

    dvc.dvcfile.modify_yaml = _modified_whole
    strictyaml.parse_yaml = _parsed


@contextmanager
def _modified_whole(path: str, fs: Any = None) -> Iterator[Any]:
    """Yield the content of a YAML file, to be changed; the file is replaced if the block succeeds.

    Of a lock, an entry that DVC has replaced is written as DVC writes it, and all else is left as it stands.
    """
    from dvc.utils.serialize import dumps_yaml, modify_yaml

    text = Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""
    entries = _entries(text)
    with atomic_file(Path(path)) as temporary:
        if entries is None:
            if text:
                shutil.copyfile(path, temporary)
            with modify_yaml(temporary, fs=fs) as content:
                yield content
            return
        had = {name: parsed for name, (_, parsed) in entries.items()}
        content = {"schema": "2.0", "stages": dict(had)}
        yield content
        if content.keys() != {"schema", "stages"}:
            temporary.write_text(dumps_yaml(content), encoding="utf-8")
            return
        temporary.write_text(_HEAD + "".join(
            entries[name][0] if entry is had.get(name) else dumps_yaml({"stages": {name: entry}}).partition("\n")[2]
            for name, entry in content["stages"].items()), encoding="utf-8")


def _parsed(text: str, path: str, typ: str = "safe") -> Any:
    """Parse a file of DVC's."""
    from dvc.utils.serialize import parse_yaml

    entries = _entries(text) if typ == "safe" else None
    if entries is None:
        return parse_yaml(text, path, typ)
    return {"schema": "2.0", "stages": {name: entry for name, (_, entry) in entries.items()}}


def _entries(text: str) -> dict[str, tuple[str, Any]] | None:
    """Return text and content of each stage of a lock, new objects each time; None if DVC would not write it so."""
    if not text.startswith(_HEAD) or not text.endswith("\n") or _ALIAS.search(text):
        return None
    blocks = [block for block in _STAGE.split(text.removeprefix(_HEAD)) if block]
    parsed = [pickle.loads(_parsed_entry(block)) for block in blocks]  # noqa: S301 - our own
    found = {name: (block, content[name]) for block, content in zip(blocks, parsed, strict=True) for name in content}
    return found if len(found) == len(blocks) > 0 else None


@cache
def _parsed_entry(block: str) -> bytes:
    from dvc.utils.serialize import YAMLFileCorruptedError, parse_yaml

    try:
        content = parse_yaml(block, LOCK)
    except YAMLFileCorruptedError:  # DVC, which then reads the file as a whole, says so
        content = None
    return pickle.dumps(content if isinstance(content, dict) else {})


def other_bytes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the stages whose outs have other content though their inputs are the same, sorted by name.

    Inputs are the command, params and deps; a dep that such a stage has made counts as the same.

    Args:
        before, after: stages of two locks, as :func:`read_lock` returns them.
    """
    both = [name for name in after if name in before]
    found: set[str] = set()
    made: set[str] = set()
    while True:
        new = {name for name in both if name not in found and _same_inputs(before[name], after[name], made)
               and _content(before[name], "outs") != _content(after[name], "outs")}
        if not new:
            return sorted(found)
        found |= new
        made |= {path for name in new for path in _content(after[name], "outs")}


def _same_inputs(one: dict[str, Any], other: dict[str, Any], made: set[str]) -> bool:
    if any(one.get(part) != other.get(part) for part in ("cmd", "params")):
        return False
    deps, others = _content(one, "deps"), _content(other, "deps")
    return deps.keys() == others.keys() and all(
        deps[path] == others[path] or any(_overlap(path, own) for own in made) for path in deps)


def _overlap(one: str, other: str) -> bool:
    return one == other or other.startswith(f"{one}/") or one.startswith(f"{other}/")


def _content(entry: dict[str, Any], kind: str) -> dict[str, Any]:
    return {item["path"]: item.get("md5") for item in entry.get(kind, ())}


def committed_lock() -> dict[str, Any]:
    """Return the stages of the ``dvc.lock`` that git has committed; none if it has none, or none that can be read."""
    try:
        return stages_of(_git("show", f"HEAD:./{LOCK}"))
    except UnreadableLock:
        return {}


def changed_results() -> list[str]:
    """Return which of ``dvc.lock`` and the committed metrics are no longer as git has them; none outside of git."""
    return _git("diff", "--name-only", "--relative", "HEAD", "--", str(LOCK), str(METRICS)).decode().splitlines()


def _git(*words: str) -> bytes:
    """Return what git answers, or nothing where it has none."""
    try:
        return subprocess.run(["git", *words], capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return b""
