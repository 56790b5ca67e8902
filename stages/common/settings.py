"""Params as plain values that ``dvc.yaml`` declares for a stage instance, and hashes of values, files and code."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from keycontrast.errors import InputError, nearest
from keycontrast.files import hash_values, sha256_of
from stages.common.paths import PARAMS
from stages.common.yaml_files import read_yaml

# Prefix of a setting that names a file or folder in place of an encoder or word vectors.
GIVEN = "path:"
# Value of an entry that names a file or folder for DVC to watch, if there is none.
NOTHING = "data/start/none"
_ROOT = Path(__file__).resolve().parents[2]
# Where and how a stage runs. Those values that decide bytes are also declared, one by one.
_ANYWHERE = ("runtime", "cluster")


class Values(dict[str, Any]):
    """A block of params: a dictionary whose keys are attributes too; attributes of a dictionary come first."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no param is called {name!r} here; a stage reads the params that dvc.yaml declares "
                                 f"for it, here {', '.join(self) or 'none'}") from None

    def plain(self) -> dict[str, Any]:
        """Return a copy made of dictionaries, lists and values alone."""
        copy: dict[str, Any] = json.loads(json.dumps(self))
        return copy


class Params(Values):
    """The params, or those that one stage instance reads."""

    def model(self, name: str) -> Values:
        """Return the settings of model ``name`` of any track: the training's block with the model's overrides."""
        track = _track(self.models, name)
        return _laid(self[f"train_{track}"], self.models[track][name].overrides)

    def decoding(self, name: str) -> Values:
        """Return the decoding settings of run ``name``: the block of its track with the run's own."""
        track = _track(self.runs, name)
        return _laid(self[f"generate_{track}"], self.runs[track][name].decode)

    def ingest_settings(self, name: str) -> Any:
        """Return the ingest settings of data set ``name``: the block ``ingest`` with its own."""
        return _laid(self.ingest, self.datasets[name].ingest)

    def model_seeds(self, name: str) -> list[int]:
        """Return the seeds that model ``name`` of any track is trained with."""
        return list(self.models[_track(self.models, name)][name].seeds)

    def run_model(self, name: str) -> str:
        """Return the model of run ``name`` of any track; where a stage declares no runs, models are runs."""
        return str(self.runs[_track(self.runs, name)][name].model) if "runs" in self else name

    def run_seeds(self, name: str) -> list[int]:
        """Return the seeds of run ``name`` of any track: those of its model."""
        return self.model_seeds(self.run_model(name))

    def earlier_seed(self, name: str, seed: int) -> int:
        """Return the seed of the model that ``name`` starts from, or takes its pairs from, under ``seed``."""
        row = self.models[_track(self.models, name)][name]
        return int(row.earlier_seeds[row.seeds.index(seed)])


def read_params(path: Path = PARAMS) -> Params:
    """Return all validated params of the project in the working folder."""
    # Imported by name, so that no stage depends on its code. The defaults are in the folders of the blocks, on which
    # the stages do depend.
    return Params(_as_values(import_module("stages.params").load_params(path).plain()))


def earlier_model(row: Any) -> str | None:
    """Return the model that a row of the models starts from, or takes its pairs of classes from."""
    for name, folder in (("init", "artifacts/models/"), ("pairs_of", "artifacts/confusing_pairs/")):
        place: str = getattr(row, name, NOTHING)
        if place.startswith(folder):
            return place.removeprefix(folder).rstrip("/")
    return None


def stage_params(params: Params, stage: str, key: str = "") -> Params:
    """Return the params that stage instance ``stage@key`` declares, and where and how it runs."""
    selected: dict[str, Any] = {name: params[name] for name in _ANYWHERE}
    for parts in declared_places(params, stage, key):
        value, block = value_at(params, parts), selected
        for part in parts[:-1]:
            block = block.setdefault(part, {})
        block[parts[-1]] = value
    return Params(_as_values(selected))


def stage_values(params: Mapping[str, Any], stage: str, key: str = "", seed: int | None = None) -> dict[str, Any]:
    """Return every declared param of ``stage@key`` by dotted name; with ``seed``, models have this seed alone."""
    values = {".".join(parts): value_at(params, parts) for parts in declared_places(params, stage, key)}
    return values if seed is None else {
        name: _under(seed, value) for name, value in values.items() if not name.endswith(".seeds")}


def _under(seed: int, value: Any) -> Any:
    """Return a row of the models with one seed in place of all; other values are returned unchanged."""
    if not isinstance(value, Mapping) or "seeds" not in value:
        return value
    row, place = dict(value), value["seeds"].index(seed)
    del row["seeds"]
    earlier = row.pop("earlier_seeds", [])
    return {**row, "seed": seed, **({"earlier_seed": earlier[place]} if earlier else {})}


def stage_hash(params: Mapping[str, Any], stage: str, key: str = "", seed: int | None = None) -> str:
    """Return the hash of :func:`stage_values`, as stored in the metadata of the stage's artifacts."""
    return hash_values(stage_values(params, stage, key, seed))


@cache
def declared(stage: str) -> tuple[str, ...]:
    """Return the params that ``dvc.yaml`` declares for ``stage``, with ``{key}``, ``{model}`` and ``{dataset}``."""
    return tuple(name.replace("${key}", "{key}").replace("${item}", "{key}").replace("${item.", "{")
                 for name in _body(stage).get("params", ()))


def module_of(stage: str) -> str:
    """Return the dotted name of the module that runs ``stage``."""
    return "stages." + _body(stage)["cmd"].split()[2]


def code_of(stage: str) -> list[Path]:
    """Return the files of the folders of code that ``dvc.yaml`` has as deps of ``stage``."""
    code = ("stages/", "models/", "keycontrast/")
    places = [_ROOT / dep for dep in _body(stage)["deps"] if dep.startswith(code)]
    return sorted(path for place in places for path in ([place] if place.is_file() else place.rglob("*"))
                  if path.is_file() and "__pycache__" not in path.parts)


def laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the nested ``changes`` in place of its values; neither is altered."""
    result = dict(base)
    for name, value in changes.items():
        inner = base.get(name)
        result[name] = laid_over(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return result


@cache
def stages_of_dvc() -> dict[str, Any]:
    """Return the stages of ``dvc.yaml``, not resolved."""
    stages: dict[str, Any] = read_yaml(_ROOT / "dvc.yaml")["stages"]
    return stages


def _body(stage: str) -> dict[str, Any]:
    entry: dict[str, Any] = stages_of_dvc()[stage]
    return dict(entry.get("do", entry))


def declared_places(params: Mapping[str, Any], stage: str, key: str) -> Iterator[list[str]]:
    """Yield the place of each param that ``stage@key`` declares."""
    for name in declared(stage):
        # Instance names may have dots, so they are filled in after the template is split.
        parts = [key if part == "{key}" else part for part in name.split(".")]
        for place, part in enumerate(parts):
            if part in ("{model}", "{dataset}"):
                rows = str(stages_of_dvc()[stage]["foreach"]).strip("${}").split(".")
                parts[place] = value_at(params, [*rows, key])[part.strip("{}")]
        yield parts


def value_at(tree: Mapping[str, Any], parts: Sequence[str]) -> Any:
    """Return the value at a place in nested params; an InputError names a part that is missing."""
    node: Any = tree
    for number, part in enumerate(parts):
        if part not in node:
            raise InputError(f"{PARAMS}: {'.'.join(parts[:number])} has no {part!r}; {nearest(part, node)}")
        node = node[part]
    return node


def _laid(block: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
    return _as_values(laid_over(block, own))


def _as_values(content: Any) -> Any:
    if isinstance(content, list):
        return [_as_values(item) for item in content]
    if isinstance(content, Mapping):
        return Values({name: _as_values(value) for name, value in content.items()})
    return content


def _track(tracks: Mapping[str, Any], name: str) -> str:
    return next(track for track, entries in tracks.items() if name in entries)


def hash_files(paths: Iterable[Path]) -> str:
    """Return a 16-digit hash of the names and bytes of files, and of the files in folders."""
    digest = hashlib.sha256()
    for path in sorted(map(Path, paths)):
        inside = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        for file in inside if path.is_dir() else [path]:
            digest.update(f"{file.as_posix()}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as handle:
                digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()[:16]


def hash_code(files: Iterable[Path]) -> str:
    """Return a hash of files of this project's code, which does not depend on the project's place on the disk."""
    return hash_values({path.relative_to(_ROOT).as_posix(): sha256_of(path) for path in files})
