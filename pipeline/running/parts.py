"""A run in parts, on machines with folders of their own.

Each part runs in a clone: git brings code, params and ``dvc.lock``, DVC's remote what the stages of the part read. What
they make goes back by the same two ways, so that the ``dvc.lock`` in the end is that of a run in one folder.
"""

import logging
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from pipeline.running.dag import Dag, open_repo, read_dag, reason
from pipeline.running.lockfile import LOCK, read_lock
from stages.common.paths import METRICS
from stages.run.errors import InputError

PROCESSOR, GPU = "processor", "gpu"


@dataclass(frozen=True)
class Part:
    """Stage instances that run one after another, or side by side, on machines of one kind.

    Attributes:
        place: ``processor`` or ``gpu``.
        names: of the stage instances, each after those that it reads from.
    """

    place: str
    names: tuple[str, ...]


def parts_of(dag: Dag) -> list[Part]:
    """Cut ``dag`` into parts: each has all that can run at its place once the parts before it are done.

    Stages that compute on a GPU where there is one (``meta.gpu``) go to the GPU, all others to a processor.
    """
    pending, found, place = list(dag.nodes), list[Part](), PROCESSOR
    while pending:
        waiting = {node.name for node in pending}
        taken: list[str] = []
        for node in pending:
            if node.gpu == (place == GPU) and waiting.isdisjoint(node.upstream):
                taken.append(node.name)
                waiting.remove(node.name)
        if taken:
            found.append(Part(place, tuple(taken)))
        pending = [node for node in pending if node.name in waiting]
        place = GPU if place == PROCESSOR else PROCESSOR
    return found


def published_commit() -> str:
    """Return the commit of the working folder.

    Raises:
        InputError: files differ from it, or the branch that this one follows does not have it.
    """
    own = (str(LOCK), f"{METRICS}/")
    changed = [path for line in _git("status", "--porcelain", "--untracked-files=no", "--no-renames").splitlines()
               if not (path := line[3:]).startswith(own)]
    if changed:
        raise InputError(f"{', '.join(changed)}: not as committed, so other machines have it in another way. Commit "
                         f"and push, or `git checkout` what was committed.")
    commit = _git("rev-parse", "HEAD").strip()
    if commit not in _git("rev-list", "@{upstream}").split():
        raise InputError(f"commit {commit[:10]} is not on the branch that this one follows, so other machines do not "
                         f"have it. Give `git push`.")
    return commit


def run_part(targets: Sequence[str], commit: str, run: Callable[[], bool], console: Console) -> bool:
    """Fetch what stages read, run them, and hand on what they made, also if some have failed.

    Args:
        targets: the stage instances of the part.
        commit: that this clone must have.
        run: brings the stages up to date; says whether all succeeded.
        console: where progress is shown.

    Returns:
        What ``run`` has.

    Raises:
        InputError: git, or DVC's remote, does not do its part.
    """
    published_commit()
    if commit not in _git("rev-list", "HEAD").split():
        raise InputError(f"{Path.cwd()}: does not have commit {commit[:10]}, with which the run began. Let it follow "
                         f"the same branch as the other clones.")
    dag = read_dag(targets=targets)
    names = dag.resolve(targets)
    fetch(dag, names)
    done = run()
    push(names)
    if (paths := _commit(dag.only(names))):
        console.print(f"Handed on: {', '.join(paths)}", highlight=False, soft_wrap=True)
    return done


def fetch(dag: Dag, names: Sequence[str], root: Path = Path()) -> None:
    """Take from DVC's remote what the stages ``names`` read, and what they have made before, if it is there.

    Raises:
        InputError: a stage that one of them reads from has not run, or the remote lacks what it made.
    """
    lock = read_lock(root)
    needed = {name: other for other in names for name in dag[other].upstream if name not in names}
    if missing := sorted(name for name in needed if name not in lock):
        raise InputError(f"dvc.lock has no {missing[0]}, which {needed[missing[0]]} reads from. Run it first, and "
                         f"bring its dvc.lock here by git.")
    with _remote(root) as repo:
        if needed:
            repo.pull(targets=sorted(needed), force=True)
        if own := [name for name in names if name in lock]:
            repo.pull(targets=own, force=True, allow_missing=True)


def push(names: Sequence[str], root: Path = Path()) -> None:
    """Give DVC's remote what the stages ``names`` have made.

    Raises:
        InputError: the remote does not take it.
    """
    lock = read_lock(root)
    if made := [name for name in names if name in lock]:
        with _remote(root) as repo:
            repo.push(targets=made)


class _Causes(logging.Handler):
    """Keeps why files could not be transferred: DVC's exception has only their number."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the exception of ``record``."""
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(reason(record.exc_info[1]))


@contextmanager
def _remote(root: Path) -> Iterator[Any]:
    """Yield DVC's repository; what its remote refuses comes in words."""
    causes, logger = _Causes(), logging.getLogger("dvc_data")
    with open_repo(root) as repo:
        from dvc.exceptions import DvcException

        logger.addHandler(causes)
        propagates, logger.propagate = logger.propagate, False
        try:
            yield repo
        except (DvcException, OSError) as error:
            why = f" ({causes.found[0]})" if causes.found else ""
            raise InputError(f"DVC's remote: {reason(error).rstrip('.')}{why}. `dvc remote list` says which it is.") \
                from error
        finally:
            logger.removeHandler(causes)
            logger.propagate = propagates


def _commit(dag: Dag) -> list[str]:
    """Commit ``dvc.lock`` and what git keeps of the stages of ``dag``, push it, and return what has changed."""
    paths = [path for path in (str(LOCK), *(out for node in dag.nodes for out in node.uncached)) if Path(path).exists()]
    if not paths:
        return []
    _git("add", "--force", "--", *paths)
    changed = _git("diff", "--cached", "--name-only", "--relative", "--", *paths).splitlines()
    if changed:
        _git("commit", "--quiet", "--message", f"Run {', '.join(sorted({node.stage for node in dag.nodes}))}", "--",
             *paths)
        _git("push", "--quiet")
    return changed


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], capture_output=True, check=True, text=True).stdout
    except FileNotFoundError as error:
        raise InputError("git: not found. Parts of a run hand dvc.lock on by it.") from error
    except subprocess.CalledProcessError as error:
        raise InputError(f"git {' '.join(words[:2])}: {error.stderr.strip()}. Mend that in {Path.cwd()}, and start the "
                         f"run again: what is done is kept.") from error
