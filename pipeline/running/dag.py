"""The DAG as DVC knows it, read once."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline.running.lockfile import LOCK, UnreadableLock, keep_lock_by_stages, read_lock
from stages.run.errors import InputError, nearest

_TRAIN = "train_"


class StageNode(BaseModel):
    """A stage instance.

    Attributes:
        name: as DVC writes it, ``stage@key`` or ``stage``.
        description: the ``desc`` of the stage.
        upstream: names of the stage instances it reads from directly.
        outs: what it makes, relative to the project's folder.
        metrics: those of them that are metrics.
        uncached: those of them that DVC does not keep, and git may.
        gpu: whether it computes on a GPU where there is one (``meta.gpu`` in ``dvc.yaml``).
        first: whether it, and what it needs, goes before everything else (``meta.first``).
        retries: further attempts after a crash (``meta.retries``); a training resumes from its checkpoint.
        changed: whether DVC would run it now. Its upstream may yet change it, or leave it as it is.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    description: str = ""
    upstream: tuple[str, ...] = ()
    outs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    uncached: tuple[str, ...] = ()
    gpu: bool = False
    first: bool = False
    retries: int = 0
    changed: bool = True

    @property
    def stage(self) -> str:
        """Name of the stage, without its key."""
        return self.name.partition("@")[0]

    @property
    def is_training(self) -> bool:
        """Whether it trains a model of a results table."""
        return self.stage.startswith(_TRAIN)

    @property
    def key(self) -> str:
        """``foreach`` key (data set, model or run); empty for a stage without instances."""
        return self.name.partition("@")[2]


class Dag(BaseModel):
    """Stage instances in an order in which each follows what it reads from."""

    model_config = ConfigDict(frozen=True)

    nodes: tuple[StageNode, ...]

    def __getitem__(self, name: str) -> StageNode:
        return next(node for node in self.nodes if node.name == name)

    def upstream(self, names: Iterable[str]) -> set[str]:
        """Return ``names`` and everything they need, directly or not."""
        wanted = set(names)
        for node in reversed(self.nodes):
            if node.name in wanted:
                wanted.update(node.upstream)
        return wanted

    def out_of_date(self) -> list[str]:
        """Return the instances that DVC would run now, and those after them, which may turn out to be unchanged."""
        found: list[str] = []
        for node in self.nodes:
            if node.changed or not set(found).isdisjoint(node.upstream):
                found.append(node.name)
        return found

    def subset(self, names: Iterable[str]) -> "Dag":
        """Return the DAG of ``names`` and everything they need."""
        wanted = self.upstream(names)
        return Dag(nodes=tuple(node for node in self.nodes if node.name in wanted))

    def only(self, names: Iterable[str]) -> "Dag":
        """Return the DAG of ``names`` without what they need."""
        wanted = set(names)
        return Dag(nodes=tuple(node for node in self.nodes if node.name in wanted))

    def resolve(self, targets: Sequence[str]) -> list[str]:
        """Return the instances that ``targets`` name: ``stage@key``, or ``stage`` for all its instances.

        Raises:
            InputError: lists every target that names nothing, with the nearest name.
        """
        names, found, problems = [node.name for node in self.nodes], [], []
        for target in targets:
            matches = [node.name for node in self.nodes if target in (node.name, node.stage)]
            if not matches:
                problems.append(f"no stage is called {target!r}; {nearest(target, self._likely(target))}")
            found += matches
        if problems:
            raise InputError("\n".join(problems))
        return sorted(set(found), key=names.index)

    def _likely(self, target: str) -> list[str]:
        stages = {node.stage for node in self.nodes}
        instances = [node.name for node in self.nodes if node.key]
        return instances if "@" in target else sorted(stages)


def read_dag(root: Path = Path(), targets: Sequence[str] = ()) -> Dag:
    """Read stages, their dependencies and their state from DVC; the repository is closed again.

    Args:
        root: the project's folder.
        targets: as of :meth:`Dag.resolve`, to read them and what they need; everything if empty.

    Raises:
        InputError: not a DVC project, or ``dvc.yaml`` and ``params.yaml`` do not make a DAG.
    """
    with _graph_of(root) as (repo, graph):
        return _dag(repo, graph, targets)


def read_and_restore(targets: Sequence[str], root: Path = Path()) -> tuple[Dag, list[str]]:
    """Read the DAG as :func:`read_dag` does, after its stages have what DVC's cache has of them.

    That is what they made from the same inputs before, and comes back without anything running. Outs that are there
    and differ are replaced, as they are before a stage runs.

    Returns:
        The DAG, and the stages whose outs were brought back.
    """
    with _graph_of(root) as (repo, graph):
        dag = _dag(repo, graph, targets)
        back = _restored(repo, graph, dag) if any(node.changed for node in dag.nodes) else []
    # DVC's stages that it looked up in vain say from then on that nothing has changed: they are read anew.
    return read_dag(root, targets) if back else dag, back


@contextmanager
def _graph_of(root: Path) -> Iterator[tuple[Any, Any]]:
    """Yield DVC's repository, locked, and its graph of stages."""
    with open_repo(root) as repo:
        graph = repo.index.graph
        with repo.lock:
            yield repo, graph


def _dag(repo: Any, graph: Any, targets: Sequence[str]) -> Dag:
    dag = Dag(nodes=tuple(_node(repo, stage, graph.successors(stage)) for stage in _ordered(graph)))
    return dag.subset(dag.resolve(targets)) if targets else dag


def _ordered(graph: Any) -> list[Any]:
    """Return the stages of DVC's graph, each after those it reads from."""
    import networkx as nx

    # An edge goes from a stage to the one whose output it reads.
    order = nx.lexicographical_topological_sort(graph.reverse(copy=True), key=_address)
    return [stage for stage in order if not _is_data_source(stage)]


def _restored(repo: Any, graph: Any, dag: Dag) -> list[str]:
    """Restore what the run cache has of ``dag``; return the stages that it had."""
    from dvc.exceptions import DvcException
    from dvc_data.hashfile.hash_info import HashInfo

    names = {node.name for node in dag.nodes}
    back = []
    for stage in _ordered(graph):
        if _address(stage) not in names or not all(dep.exists for dep in stage.deps) or not stage.changed():
            continue
        try:
            try:
                repo.stage_cache.restore(stage)
            except (NotADirectoryError, IsADirectoryError, FileExistsError):  # a table in parts was a file, or will be
                stage.remove_outs(ignore_remove=True)
                for out in stage.outs:
                    out.hash_info = HashInfo()  # else DVC, which has noted new deps, takes what was there for theirs
                repo.stage_cache.restore(stage)
        except DvcException:  # not there, or something stands in the way that running the stage will name
            continue
        stage.save()
        stage.dump(update_pipeline=False)
        back.append(_address(stage))
    return back


@contextmanager
def open_repo(root: Path = Path()) -> Iterator[Any]:
    """Yield DVC's ``Repo``, quiet, with errors in words.

    Raises:
        UnreadableLock: ``dvc.lock`` is not whole.
        InputError: whatever else DVC objects to.
    """
    read_lock(root)
    cache_parsed_params()
    keep_lock_by_stages()
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


def cache_parsed_params() -> None:
    """Let DVC parse a params file once, and not once for each stage that depends on it, a third of its time."""
    from dvc.utils import serialize

    serialize.LOADERS[".yaml"] = _parsed_once


def _parsed_once(path: str, fs: Any = None, **options: Any) -> Any:
    from dvc.utils.serialize import load_yaml

    if options or getattr(fs, "protocol", "local") != "local":  # of a commit
        return load_yaml(path, fs=fs, **options)
    state = Path(path).stat()
    return _parsed(path, state.st_mtime_ns, state.st_size)


@lru_cache
def _parsed(path: str, modified: int, size: int) -> Any:  # noqa: ARG001 - a file is another one after a change
    from dvc.utils.serialize import load_yaml

    return load_yaml(path)


def reason(error: BaseException) -> str:
    """Return the message of ``error`` and of what caused it, on one line each."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None:
        text = str(current).strip()
        if text and text not in parts:
            parts.append(text)
        current = current.__cause__
    return "\n  ".join(parts)


def _node(repo: Any, stage: Any, successors: Iterable[Any]) -> StageNode:
    meta = stage.meta or {}
    paths = {Path(out.fs_path).relative_to(repo.root_dir).as_posix(): bool(out.metric) for out in stage.outs}
    return StageNode(
        name=_address(stage), description=stage.desc or "", gpu=bool(meta.get("gpu", False)),
        first=bool(meta.get("first", False)),
        upstream=tuple(sorted(_address(other) for other in successors if not _is_data_source(other))),
        outs=tuple(paths), metrics=tuple(path for path, metric in paths.items() if metric),
        uncached=tuple(path for path, out in zip(paths, stage.outs, strict=True) if not out.use_cache),
        retries=int(meta.get("retries", 0)), changed=bool(stage.changed()))


def _address(stage: Any) -> str:
    # The addressing of a stage is relative to the working folder, its name is not; a `.dvc` file has no name.
    return str(getattr(stage, "name", None) or stage.addressing)


def _is_data_source(stage: Any) -> bool:
    """Tell whether this is a ``.dvc`` file, which DVC tracks but does not run."""
    return bool(stage.is_data_source)
