"""The DAG of DVC: stages, their inputs, and which of them are out of date; and the reading of ``dvc.lock``."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from keycontrast.errors import InputError, messages, nearest

LOCK = Path("dvc.lock")


@dataclass(frozen=True)
class StageNode:
    """A stage instance, ``stage@key`` or ``stage``; `gpu`, `parallel` and `retries` are its ``meta``."""

    name: str
    description: str = ""
    upstream: tuple[str, ...] = ()
    outs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    gpu: bool = False
    parallel: bool = False  # takes a GPU for each of runtime.processes
    retries: int = 0
    changed: bool = True    # DVC would run it now
    foreign: tuple[str, ...] = ()   # outs on disk whose bytes neither dvc.lock nor DVC's cache has


Dag = dict[str, StageNode]  # in topological order


def out_of_date(dag: Dag) -> list[str]:
    """Return the instances that DVC would run now, and all downstream of them, which may not need to run."""
    names: list[str] = []
    for node in dag.values():
        if node.changed or not set(names).isdisjoint(node.upstream):
            names.append(node.name)
    return names


def resolve(names: Iterable[str], targets: Sequence[str]) -> list[str]:
    """Return the instances among ``names`` that ``targets`` name, ``stage@key`` or ``stage``; all without targets."""
    stages = {name: name.partition("@")[0] for name in names}
    if problems := [f"no stage is called {target!r}; "
                    f"{nearest(target, stages if '@' in target else stages.values())}"
                    for target in targets if target not in {*stages, *stages.values()}]:
        raise InputError("\n".join(problems))
    return [name for name, stage in stages.items() if not targets or {name, stage} & set(targets)]


class UnreadableLock(InputError):
    """``dvc.lock`` is damaged."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{' '.join(problem.split())}. `git checkout dvc.lock` restores the last committed one, or "
                         f"in a merge `git checkout --ours dvc.lock` one side; then run `keycontrast run`. If git has "
                         f"none, delete the file.")


def read_lock(root: Path = Path()) -> dict[str, Any]:
    """Return the stages of ``dvc.lock`` by name; none if there is no such file."""
    return stages_of((root / LOCK).read_bytes()) if (root / LOCK).exists() else {}


def stages_of(content: bytes) -> dict[str, Any]:
    """Return the stages of a lock by name."""
    try:
        parsed = yaml.load(content, yaml.CSafeLoader)  # noqa: S506 - ten times as fast as safe_load
    except yaml.YAMLError as error:
        raise UnreadableLock(f"dvc.lock: not valid YAML ({error})") from error
    stages = parsed.get("stages") if isinstance(parsed, dict) else None
    if not isinstance(stages, dict) or not all(isinstance(entry, dict) for entry in stages.values()):
        raise UnreadableLock("dvc.lock: not what DVC writes, which is a mapping with `schema` and `stages`")
    return stages


@contextmanager
def open_repo() -> Iterator[Any]:
    """Yield DVC's ``Repo`` without its log; its errors become an ``InputError``."""
    read_lock()
    logging.getLogger("dvc").setLevel(logging.CRITICAL + 1)
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.repo import Repo

    try:
        with Repo(".") as repo:
            yield repo
    except NotDvcRepoError as error:
        raise InputError(f"{Path.cwd()}: not a DVC project. Go to the project's folder, or run `dvc "
                         f"init`.") from error
    except DvcException as error:
        kind = UnreadableLock if f"{LOCK}'" in str(error) else InputError
        raise kind(f"DVC: {messages(error)}") from error


def read_dag(targets: Sequence[str] = (), only: bool = False, restore: bool = False,
             say: Callable[[str], None] = print) -> Dag:
    """Return ``targets`` and (unless ``only``) the stages that they need, or all stages, and their state.

    With ``restore``, missing outs that are in DVC's cache are checked out first.
    """
    import networkx as nx

    with open_repo() as repo:
        graph = repo.index.graph  # an edge goes from a stage to the one whose out it reads
        # A `.dvc` file is a data source, and has no name.
        stages = {stage.name: stage for stage in nx.lexicographical_topological_sort(
            graph.reverse(copy=True), key=lambda stage: str(getattr(stage, "name", stage.addressing)))
            if not stage.is_data_source}
        upstream = {name: tuple(sorted(other.name for other in graph.successors(stage) if not other.is_data_source))
                    for name, stage in stages.items()}
        wanted = set(resolve(stages, targets))
        for name in () if only else reversed(stages):
            wanted.update(upstream[name] if name in wanted else ())
        missing = [out for name in wanted for out in stages[name].outs if restore and out.use_cache
                   and out.hash_info and not out.exists and not out.changed_cache()]
        if missing:
            repo.checkout([out.fs_path for out in missing])
            say(f"{len(missing)} missing artifacts were restored from DVC's cache")
        with repo.lock:
            return {name: _node(repo, stage, upstream[name]) for name, stage in stages.items() if name in wanted}


def _node(repo: Any, stage: Any, upstream: tuple[str, ...]) -> StageNode:
    meta, changed = stage.meta or {}, bool(stage.changed())
    outs = {Path(out.fs_path).relative_to(repo.root_dir).as_posix(): out for out in stage.outs}
    return StageNode(
        stage.name, stage.desc or "", upstream, tuple(outs), tuple(path for path in outs if outs[path].metric),
        bool(meta.get("gpu")), bool(meta.get("parallel")), int(meta.get("retries", 0)), changed,
        tuple(path for path, out in outs.items() if changed and _is_foreign(out)))


def _is_foreign(out: Any) -> bool:
    """Tell whether an out on disk has bytes that neither ``dvc.lock`` nor DVC's cache has."""
    from dvc_data.hashfile.build import build

    if not out.use_cache or not out.exists or out.hash_info == out.get_hash():
        return False
    content: Any = build(out.cache, out.fs_path, out.fs, out.hash_name, ignore=out.dvcignore, dry_run=True)[2]
    hashes = [info for _, _, info in content] if content.hash_info.isdir else [content.hash_info]
    return any(not out.cache.exists(info.value) for info in hashes)
