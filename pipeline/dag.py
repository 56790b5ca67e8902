"""The DAG as DVC has it: stages, what they read, and which of them DVC would run now."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.lock import LOCK, UnreadableLock, read_lock
from stages.run.errors import InputError, nearest


@dataclass(frozen=True)
class StageNode:
    """A stage instance, ``stage@key`` or ``stage``; `gpu`, `parallel`, `first` and `retries` are its ``meta``.

    A parallel stage takes a GPU for each of ``runtime.processes``. `changed` is whether DVC would run it now, and
    `foreign` are its outs on disk whose bytes neither ``dvc.lock`` nor DVC's cache has.
    """

    name: str
    description: str = ""
    upstream: tuple[str, ...] = ()
    outs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    gpu: bool = False
    parallel: bool = False
    first: bool = False
    retries: int = 0
    changed: bool = True
    foreign: tuple[str, ...] = ()

    @property
    def stage(self) -> str:
        """Name of the stage, without its key."""
        return self.name.partition("@")[0]

    @property
    def key(self) -> str:
        """``foreach`` key; empty for a stage without instances."""
        return self.name.partition("@")[2]


@dataclass(frozen=True)
class Dag:
    """Stage instances, each after those it reads from."""

    nodes: tuple[StageNode, ...]

    def __getitem__(self, name: str) -> StageNode:
        return next(node for node in self.nodes if node.name == name)

    def upstream(self, names: Iterable[str]) -> set[str]:
        """Return ``names`` and everything they need."""
        wanted = set(names)
        for node in reversed(self.nodes):
            if node.name in wanted:
                wanted.update(node.upstream)
        return wanted

    def out_of_date(self) -> list[str]:
        """Return the instances that DVC would run now and all downstream of them, which may turn out unchanged."""
        found: list[str] = []
        for node in self.nodes:
            if node.changed or not set(found).isdisjoint(node.upstream):
                found.append(node.name)
        return found

    def only(self, names: Iterable[str]) -> "Dag":
        """Return the DAG of ``names`` alone."""
        wanted = set(names)
        return Dag(tuple(node for node in self.nodes if node.name in wanted))

    def resolve(self, targets: Sequence[str]) -> list[str]:
        """Return the instances that ``targets`` name: ``stage@key``, or ``stage`` for all its instances."""
        found = [node.name for node in self.nodes if {node.name, node.stage} & set(targets)]
        known = {name for node in self.nodes for name in (node.name, node.stage)}
        if problems := [f"no stage is called {target!r}; "
                        f"{nearest(target, (name for name in known if ('@' in name) == ('@' in target)))}"
                        for target in targets if target not in known]:
            raise InputError("\n".join(problems))
        return found


@contextmanager
def open_repo(root: Path = Path()) -> Iterator[Any]:
    """Yield DVC's ``Repo`` without its log; its errors become an ``InputError``."""
    read_lock(root)
    logging.getLogger("dvc").setLevel(logging.CRITICAL + 1)
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.repo import Repo

    try:
        with Repo(os.fspath(root)) as repo:
            yield repo
    except NotDvcRepoError as error:
        raise InputError(f"{root.resolve()}: not a DVC project. Go to the project's folder, or run "
                         f"`dvc init`.") from error
    except DvcException as error:
        if f"{LOCK}'" in str(error):
            raise UnreadableLock(f"{reason(error)}.") from error
        raise InputError(f"DVC: {reason(error)}") from error


def read_dag(root: Path = Path(), targets: Sequence[str] = (), restore: bool = False,
             say: Callable[[str], None] = lambda _: None) -> Dag:
    """Return ``targets`` and what they need, or all stages, and their state.

    With ``restore``, outs that are not on disk and are in DVC's cache are checked out first, and nothing else.
    """
    with open_repo(root) as repo:
        graph = repo.index.graph
        stages = {_address(stage): stage for stage in _ordered(graph)}
        dag = Dag(tuple(StageNode(name, upstream=tuple(sorted(_address(other) for other in graph.successors(stage)
                                                              if not other.is_data_source)))
                        for name, stage in stages.items()))
        dag = dag.only(dag.upstream(dag.resolve(targets))) if targets else dag
        missing = [out for node in dag.nodes for out in stages[node.name].outs if restore and out.use_cache
                   and out.hash_info and not out.exists and not out.changed_cache()]
        if missing:
            repo.checkout([out.fs_path for out in missing])
            say(f"{len(missing)} missing artifacts brought back from DVC's cache")
        with repo.lock:
            return Dag(tuple(_described(repo, stages[node.name], node) for node in dag.nodes))


def _ordered(graph: Any) -> list[Any]:
    """Return DVC's stages, each after those it reads from, without ``.dvc`` files, which DVC does not run."""
    import networkx as nx

    # An edge goes from a stage to the one whose out it reads.
    order = nx.lexicographical_topological_sort(graph.reverse(copy=True), key=_address)
    return [stage for stage in order if not stage.is_data_source]


def _described(repo: Any, stage: Any, node: StageNode) -> StageNode:
    meta, changed = stage.meta or {}, bool(stage.changed())
    outs = {Path(out.fs_path).relative_to(repo.root_dir).as_posix(): out for out in stage.outs}
    return replace(
        node, description=stage.desc or "", outs=tuple(outs), metrics=tuple(path for path in outs if outs[path].metric),
        gpu=bool(meta.get("gpu")), parallel=bool(meta.get("parallel")), first=bool(meta.get("first")),
        retries=int(meta.get("retries", 0)), changed=changed,
        foreign=tuple(path for path, out in outs.items() if changed and _is_foreign(out)))


def _is_foreign(out: Any) -> bool:
    """Tell whether an out on disk has bytes that neither ``dvc.lock`` nor DVC's cache has."""
    from dvc_data.hashfile.build import build

    if not out.use_cache or not out.exists or out.hash_info == out.get_hash():
        return False
    content: Any = build(out.cache, out.fs_path, out.fs, out.hash_name, ignore=out.dvcignore, dry_run=True)[2]
    hashes = [info for _, _, info in content] if content.hash_info.isdir else [content.hash_info]
    return any(not out.cache.exists(info.value) for info in hashes)


def _address(stage: Any) -> str:
    # The addressing of a stage is relative to the working folder, its name is not; a `.dvc` file has no name.
    return str(getattr(stage, "name", None) or stage.addressing)


def causes(error: BaseException | None) -> list[BaseException]:
    """Return ``error`` and what caused it."""
    return [] if error is None else [error, *causes(error.__cause__)]


def reason(error: BaseException) -> str:
    """Return the messages of ``error`` and of its causes, one a line."""
    return "\n  ".join(dict.fromkeys(text for cause in causes(error) if (text := str(cause).strip())))
