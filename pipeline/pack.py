"""Packs for a GPU machine where nothing can be installed: all that trains models and computes runs, in one file.

A pack holds the project's code, the validated params as plain values, the prepared artifacts of the data sets, the
encoders of models that start from one, in half precision, and a script that runs it all with torch, transformers,
pandas and pyarrow alone. Runs of HCL and PGKPR are generated there and scored at home; those of CLLD are scored there,
beside a linear floor that was computed at home. Initial vectors of keywords are computed there again: at d = 384 in
half precision they would take 768 bytes per keyword, and they should come from the same weights as those of keywords
that the graph lacks.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.text import Text

from pipeline.pack_encoders import PackedEncoder, encoders_of
from pipeline.packed import run as packed_run
from pipeline.schemas import schema_of
from stages.common.fingerprint import sha256_of
from stages.common.parts import LIST, listed
from stages.common.paths import PARAMS, DatasetPaths
from stages.common.settings import GIVEN, Params, read_params, stage_hash
from stages.common.storage import fetch
from stages.common.tables import atomic_file, check_columns, read_metadata
from stages.run.errors import InputError
from stages.tracks.registry import TRACKS, all_models, all_runs, track_of_model, track_of_run, with_earlier

LIMIT = 60_000_000
FOLDER = "keycontrast-pack"
_ROOT = Path(__file__).resolve().parent.parent
_CODE = ("stages", "models", "benchmarks/gpu")
_BESIDE = ("__init__", "decoding", "graph_attention", "harness", "trainings")  # what `--check` imports
_SCRIPT = "run_packed.py"


@dataclass(frozen=True)
class Packed:
    """What a pack holds.

    Attributes:
        digest: of its content; the same for the same project.
        models, runs: names.
        sizes: bytes of each group of members before compression.
        size: bytes of the file.
    """

    digest: str
    models: list[str]
    runs: list[str]
    sizes: dict[str, int]
    size: int


def show_pack(file: Path, models: Sequence[str] | None, console: Console) -> None:
    """Write a pack and say what is in it and what to do with it."""
    made = pack(file, models)
    parts = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in made.sizes.items())
    console.print(Text(
        f"{file}: pack {made.digest}, {made.size / 1e6:.1f} MB (before compression: {parts})\n"
        f"{len(made.models)} models: {', '.join(made.models)}\n{len(made.runs)} runs: {', '.join(made.runs)}\n"
        f"On the machine: tar xzf {file.name} && python {FOLDER}/{_SCRIPT} --out DIR\n"
        f"(before, with --check: measures its GPU within ten minutes)\n"
        f"and here again: keycontrast unpack DIR/{packed_run.RESULTS}"), soft_wrap=True)


def pack(file: Path, models: Sequence[str] | None = None) -> Packed:
    """Write a pack of ``models`` (all, if None), of what they start from, and of all runs on them.

    Args:
        file: archive to write, tar.gz, whole or not at all.
        models: names of models of any track.

    Raises:
        InputError: no such model, artifacts that are missing or of other params, an encoder without weights, label
            distances from a file, or a pack of more than 60 MB.
    """
    params = read_params()
    names = with_earlier(params, models or all_models(params))
    if not names:
        raise InputError("models names no model, so there is nothing to pack. Choose a recipe that has some with "
                         "`keycontrast use`.")
    _refuse_distances(params, names)
    runs = [run for run, entry in all_runs(params).items() if entry.model in names]
    encoders = encoders_of(params, names)
    members: dict[str, bytes | Path] = {_SCRIPT: Path(packed_run.__file__), **_code(), PARAMS.name: _params(params)}
    tables = _tables(params, names)
    for path in tables:
        members |= _table_members(path)
    for encoder in encoders.values():
        members |= encoder.members()
    members |= _starts(params, names)
    digest = _digest(members)
    members["pack.json"] = _as_bytes(_contents(params, names, runs, encoders, tables, digest))
    with atomic_file(file) as temporary:
        _write(temporary, members)
        size = temporary.stat().st_size
        if size > LIMIT:
            raise InputError(_too_large(file, members, size))
    return Packed(digest, names, runs, _sizes(members), size)


def _refuse_distances(params: Params, names: Sequence[str]) -> None:
    """Refuse models that read a file which is not in a pack, before the machine that it is for finds it missing."""
    for name, block in TRACKS["clld"].models(params).items():
        if name in names and block.contrast == "given":
            raise InputError(f"models.clld.{name}: its label distances are in {block.distances_from}, and a pack has "
                             f"no such files. Train it here, and name the others: keycontrast pack FILE --model NAME")


def _consulted(params: Params, models: Sequence[str]) -> list[str]:
    """Return the models whose confusing pairs others of ``models`` take."""
    taken = (track_of_model(params, name).follows(params, name).get("pairs_of") for name in models)
    return list(dict.fromkeys(other for other in taken if other is not None))


def _differences(params: Params, encoders: Mapping[str, PackedEncoder]) -> dict[str, Any]:
    """Return the params that a pack has in another way: encoders are its own folders, and its machine is alone."""
    own: dict[str, Any] = {}
    for name, encoder in encoders.items():
        track = track_of_model(params, name)
        if hasattr(track.models(params)[name], "encoder"):
            own.setdefault(track.name, {})[name] = {"encoder": f"path:{encoder.folder}"}
    return {"encoder": {"source": f"path:{packed_run.ENCODER}"}, "models": own, "runtime": {"rendezvous": None},
            "artifacts": {"url": None}}


def _contents(params: Params, models: Sequence[str], runs: Sequence[str], encoders: Mapping[str, PackedEncoder],
              tables: Sequence[Path], digest: str) -> dict[str, Any]:
    """Return what the runner and `unpack` go by."""
    return {"pack": digest, "here": _differences(params, encoders),
            "models": {name: _model_contents(params, name, encoders.get(name)) for name in models},
            "confusing_pairs": {name: _hashes(params, "confusing_pairs", name, params.model_seeds(name))
                                for name in _consulted(params, models)},
            "runs": {name: _run_contents(params, name) for name in runs},
            "tables": {file.as_posix(): sha256_of(file) for path in tables for file in _files(path)}}


def _model_contents(params: Params, name: str, encoder: PackedEncoder | None) -> dict[str, Any]:
    track = track_of_model(params, name)
    source = track.source(params, name)
    beginning = None if source is None else {"source": source, "folder": None, "description": {"name": source}}
    return {"track": track.name, "dataset": track.models(params)[name].dataset, "init_from": None, "pairs_of": None,
            **track.follows(params, name), "encoder": beginning if encoder is None else encoder.contents(),
            "seeds": params.model_seeds(name),
            "params_hash": _hashes(params, track.trained_by, name, params.model_seeds(name))}


def _run_contents(params: Params, name: str) -> dict[str, Any]:
    track = track_of_run(params, name)
    return {"track": track.name, "model": track.runs(params)[name].model, "stage": track.computed_by,
            "params_hash": _hashes(params, track.computed_by, name, params.run_seeds(name))}


def _hashes(params: Params, stage: str, name: str, seeds: Sequence[int]) -> dict[str, str]:
    """Return the hash of the params of a stage instance for each of its seeds."""
    return {str(seed): stage_hash(params, stage, name, seed) for seed in seeds}


def _code() -> dict[str, bytes | Path]:
    """Return the modules that run there, and what they read; params are validated here, and there read as they are."""
    found: dict[str, bytes | Path] = {}
    for package in _CODE:
        for path in sorted((_ROOT / package).rglob("*.py")):
            name = path.relative_to(_ROOT).as_posix()
            if not name.startswith("stages/params/"):
                found[name] = path
    found |= {f"benchmarks/{name}.py": _ROOT / "benchmarks" / f"{name}.py" for name in _BESIDE}
    return found | {"dvc.yaml": _ROOT / "dvc.yaml"}


def _tables(params: Params, models: Sequence[str]) -> list[Path]:
    """Return the tables that ``models`` are trained on, of each data set and track once."""
    found: list[Path] = []
    pairs = [(name, block.dataset) for name, track in TRACKS.items() for model, block in track.models(params).items()
             if model in models]
    for name, dataset in dict.fromkeys(pairs):
        track = TRACKS[name]
        for kind, stage in track.tables.items():
            path = DatasetPaths(dataset).table(kind)
            if not path.exists():
                raise InputError(f"{path}: no such artifact, and a pack needs it. Prepare the data first: "
                                 f"keycontrast run {track.prepared_by}@{dataset}")
            check_columns(path, schema_of(kind, track))
            if read_metadata(path).get("params_hash") != stage_hash(params, stage, dataset):
                raise InputError(f"{path}: made under other params than params.yaml has now. Bring it up to date "
                                 f"first: keycontrast run {track.prepared_by}@{dataset}")
            found.append(path)
    return found


def _files(table: Path) -> list[Path]:
    """Return the files of a table that lie in this project."""
    return sorted(table.iterdir()) if table.is_dir() else [table]


def _table_members(table: Path) -> dict[str, bytes | Path]:
    """Return a table's files; one whose parts lie elsewhere becomes a folder of them, for they may be out of reach."""
    found = listed(table)
    if found is None or found.url is None:
        return {file.as_posix(): file for file in _files(table)}
    home = replace(found, url=None).as_json()
    return {f"{table.as_posix()}/{LIST}": home.encode(),
            **{f"{table.as_posix()}/{part.place.rpartition('/')[2]}": fetch(part.place) for part in found.parts}}


def _starts(params: Params, models: Sequence[str]) -> dict[str, bytes | Path]:
    """Return the files of the folders from elsewhere that ``models`` start from; all lie in the project's."""
    named = (getattr(model, track.after) for track in TRACKS.values() if track.after is not None
             for name, model in track.models(params).items() if name in models)
    folders = {Path(other.removeprefix(GIVEN)) for other in named if other is not None and other.startswith(GIVEN)}
    return {file.as_posix(): file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()}


def _write(path: Path, members: Mapping[str, bytes | Path]) -> None:
    """Write a tar.gz whose bytes depend on nothing but names and contents."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(members.items()):
            data = _content(content)
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))


def _sizes(members: Mapping[str, bytes | Path]) -> dict[str, int]:
    sizes = {"encoder": 0, "artifacts": 0, "code and params": 0}
    for name, content in members.items():
        group = name.partition("/")[0]
        group = "encoder" if group.startswith("encoder") else group
        sizes[group if group in sizes else "code and params"] += len(_content(content))
    return sizes


def _too_large(file: Path, members: Mapping[str, bytes | Path], size: int) -> str:
    largest = sorted(members, key=lambda name: (-len(_content(members[name])), name))[:3]
    shown = ", ".join(f"{name} ({len(_content(members[name])) / 1e6:.1f} MB before compression)" for name in largest)
    return (f"{file}: the pack would have {size / 1e6:.1f} MB, and {LIMIT / 1e6:.0f} MB are the most. Largest are "
            f"{shown}. Take a smaller encoder (encoder.source), fewer examples (ingest.max_train), or fewer models "
            f"(--model).")


def _digest(members: Mapping[str, bytes | Path]) -> str:
    lines = "".join(f"{name} {_sha256(content)}\n" for name, content in sorted(members.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def _sha256(content: bytes | Path) -> str:
    return sha256_of(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest()


def _content(content: bytes | Path) -> bytes:
    return content.read_bytes() if isinstance(content, Path) else content


def _params(params: Params) -> bytes:
    return yaml.safe_dump(params.plain(), sort_keys=False, allow_unicode=True).encode()


def _as_bytes(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
