"""Packs for a GPU machine where nothing can be installed: all that trains models and generates runs, in one file.

A pack holds the project's code, the validated params as plain values, the prepared artifacts of the data sets and, for
models of HCL, the encoder in half precision, and a script that runs it all with torch, transformers, pandas and
pyarrow alone. Initial vectors of keywords are computed there again: at d = 384 in half precision they would take 768
bytes per keyword, and they should come from the same weights as those of keywords that the graph lacks.
"""

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.packed import params as packed_params
from pipeline.packed import run as packed_run
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import atomic_file, check_columns, read_metadata
from stages.encoders import resolve_encoder
from stages.params import Params, load_params, stage_hash, stage_values
from stages.params.hcl import HclModel, HclRun
from stages.params.pgkpr import PgkprModel, PgkprRun
from stages.runtime.errors import InputError, nearest
from stages.runtime.fingerprint import sha256_of

LIMIT = 60_000_000
FOLDER = "keycontrast-pack"
# What the models of a track are trained on: the table and the stage that makes it; and the last of these stages.
TABLES = {"hcl": {"examples": "ingest", "texts": "ingest", "keywords": "keywords", "nodes": "graph", "edges": "graph"},
          "pgkpr": {"paraphrase_items": "paraphrase_items", "vocabulary": "paraphrase_items"}}
_LAST = {"hcl": "graph", "pgkpr": "paraphrase_items"}
_ROOT = Path(__file__).resolve().parent.parent
_CODE = ("stages", "models")
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
        f"and here again: keycontrast unpack DIR/{packed_run.RESULTS}"), soft_wrap=True)


def pack(file: Path, models: Sequence[str] | None = None) -> Packed:
    """Write a pack of ``models`` (all, if None), of what they start from, and of all runs on them.

    Args:
        file: archive to write, tar.gz, whole or not at all.
        models: names of models of any track.

    Raises:
        InputError: no such model, artifacts that are missing or of other params, an encoder without weights, or a
            pack of more than 60 MB.
    """
    params = load_params()
    names = chosen_models(params, models)
    runs = [run for run, entry in all_runs(params).items() if entry.model in names]
    members: dict[str, bytes | Path] = {_SCRIPT: Path(packed_run.__file__),
                                        "params.json": _as_bytes(packed_values(params, names, runs)), **_code()}
    for track, known in (("hcl", params.models.hcl), ("pgkpr", params.models.pgkpr)):
        members |= _tables(params, track, list(dict.fromkeys(known[name].dataset for name in names if name in known)))
    if _needs_encoder(params, names):
        members |= _encoder(params.encoder.source)
    digest = _digest(members)
    members["pack.json"] = _as_bytes(_contents(params, names, runs, members, digest))
    with atomic_file(file) as temporary:
        _write(temporary, members)
        size = temporary.stat().st_size
        if size > LIMIT:
            raise InputError(_too_large(file, members, size))
    return Packed(digest, names, runs, _sizes(members), size)


def chosen_models(params: Params, models: Sequence[str] | None) -> list[str]:
    """Return ``models``, or all, after those that they start from.

    Raises:
        InputError: no such model, or there is none at all.
    """
    known = all_models(params)
    for name in models or []:
        if name not in known:
            raise InputError(f"no model is called {name!r}; {nearest(name, known)}")
    chosen: dict[str, None] = {}

    def add(name: str) -> None:
        start = _start(params, name)
        if start is not None:
            add(start)
        chosen.setdefault(name)

    for name in models or known:
        add(name)
    if not chosen:
        raise InputError("models names no model, so there is nothing to pack. Choose a recipe that has some with "
                         "`keycontrast use`.")
    return list(chosen)


def all_runs(params: Params) -> dict[str, HclRun | PgkprRun]:
    """Return the runs of every track by name; no two tracks have one of equal name."""
    return {**params.runs.hcl, **params.runs.pgkpr}


def _start(params: Params, name: str) -> str | None:
    """Return the model that model ``name`` starts from."""
    return params.models.hcl[name].init_from if name in params.models.hcl else None


def _model_track(params: Params, name: str) -> str:
    return "hcl" if name in params.models.hcl else "pgkpr"


def _run_track(params: Params, name: str) -> str:
    return "hcl" if name in params.runs.hcl else "pgkpr"


def _needs_encoder(params: Params, models: Sequence[str]) -> bool:
    return any(name in params.models.hcl for name in models)


def all_models(params: Params) -> dict[str, HclModel | PgkprModel]:
    """Return the models of every track by name; no two tracks have one of equal name."""
    return {**params.models.hcl, **params.models.pgkpr}


def packed_values(params: Params, models: Sequence[str], runs: Sequence[str]) -> dict[str, Any]:
    """Return the params as plain values: the tree, settings of each model and run, and each stage's own with a hash.

    See :mod:`pipeline.packed.params`, which reads them.
    """
    tree = params.model_dump(mode="json")
    tree["encoder"]["source"] = f"path:{packed_run.ENCODER}"
    known = params.models.hcl
    datasets = dict.fromkeys(known[name].dataset for name in models if name in known)
    instances = [*(("node_vectors", name) for name in datasets),
                 *((f"train_{_model_track(params, name)}", name) for name in models),
                 *((f"generate_{_run_track(params, name)}", name) for name in runs)]
    return {"params": tree,
            "models": {name: {"settings": _settings(params, name), "seed": params.model_seed(name)} for name in models},
            "runs": {name: {"decode": _decoding(params, name)} for name in runs},
            "stages": {f"{stage}@{key}": {"hash": stage_hash(params, stage, key),
                                          "values": stage_values(params, stage, key)} for stage, key in instances}}


def _settings(params: Params, name: str) -> dict[str, Any]:
    found = params.hcl_model(name) if name in params.models.hcl else params.pgkpr_model(name)
    return found.model_dump(mode="json")


def _decoding(params: Params, name: str) -> dict[str, Any]:
    found = params.hcl_decoding(name) if name in params.runs.hcl else params.pgkpr_decoding(name)
    return found.model_dump(mode="json")


def _contents(params: Params, models: Sequence[str], runs: Sequence[str], members: Mapping[str, bytes | Path],
              digest: str) -> dict[str, Any]:
    """Return what the runner and `unpack` go by."""
    encoder = resolve_encoder(params.encoder.source).description if _needs_encoder(params, models) else None
    of_models = {name: _model_track(params, name) for name in models}
    of_runs = {name: _run_track(params, name) for name in runs}
    return {"pack": digest, "encoder": encoder,
            "models": {name: {"track": track, "dataset": all_models(params)[name].dataset,
                              "init_from": _start(params, name),
                              "params_hash": stage_hash(params, f"train_{track}", name)}
                       for name, track in of_models.items()},
            "runs": {name: {"track": track, "model": all_runs(params)[name].model,
                            "params_hash": stage_hash(params, f"generate_{track}", name)}
                     for name, track in of_runs.items()},
            "tables": {name: _sha256(content) for name, content in members.items() if name.startswith("artifacts/")}}


def _code() -> dict[str, bytes | Path]:
    """Return the modules of stages and models, with the plain params in the place of the validated ones."""
    found: dict[str, bytes | Path] = {}
    for package in _CODE:
        for path in sorted((_ROOT / package).rglob("*.py")):
            name = path.relative_to(_ROOT).as_posix()
            if not name.startswith("stages/params/"):
                found[name] = path
    found["stages/params/__init__.py"] = Path(packed_params.__file__)
    return found


def _tables(params: Params, track: str, datasets: Sequence[str]) -> dict[str, bytes | Path]:
    found: dict[str, bytes | Path] = {}
    for dataset in datasets:
        for kind, stage in TABLES[track].items():
            path = DatasetPaths(dataset).table(kind)
            if not path.exists():
                raise InputError(f"{path}: no such artifact, and a pack needs it. Prepare the data first: "
                                 f"keycontrast run {_LAST[track]}@{dataset}")
            check_columns(path, kind)
            if read_metadata(path).get("params_hash") != stage_hash(params, stage, dataset):
                raise InputError(f"{path}: made under other params than params.yaml has now. Bring it up to date "
                                 f"first: keycontrast run {_LAST[track]}@{dataset}")
            found[path.as_posix()] = path
    return found


def _encoder(source: str) -> dict[str, bytes | Path]:
    """Return configuration and tokenizer of the encoder, and its weights, without pooler, in half precision."""
    import torch
    from safetensors.torch import save

    from models.encoders import load_encoder

    resolved = resolve_encoder(source)
    if not resolved.pretrained:
        raise InputError(f"encoder.source: {source} has no weights to pack; name an encoder that has.")
    encoder, tokenizer = load_encoder(resolved.location)
    half = {name: tensor.half().contiguous() if tensor.dtype == torch.float32 else tensor
            for name, tensor in encoder.state_dict().items()}
    members: dict[str, bytes | Path] = {packed_run.HALF.as_posix(): save(half, metadata={"format": "pt"})}
    with tempfile.TemporaryDirectory() as folder:
        assert tokenizer is not None    # a location always has one
        tokenizer.save_pretrained(folder)
        # `dtype` would be read as that of the weights on disk.
        config = {**encoder.config.to_dict(), "dtype": "float32"}
        config.pop("_name_or_path", None)
        members |= {f"{packed_run.ENCODER}/{path.name}": path.read_bytes() for path in sorted(Path(folder).iterdir())}
    members[f"{packed_run.ENCODER}/config.json"] = _as_bytes(config)
    return members


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
        sizes[group if group in sizes else "code and params"] += len(_content(content))
    return sizes


def _too_large(file: Path, members: Mapping[str, bytes | Path], size: int) -> str:
    largest = sorted(members, key=lambda name: (-len(_content(members[name])), name))[:3]
    shown = ", ".join(f"{name} ({len(_content(members[name])) / 1e6:.1f} MB before compression)" for name in largest)
    return (f"{file}: the pack would have {size / 1e6:.1f} MB, and {LIMIT / 1e6:.0f} MB are the most. Largest are "
            f"{shown}. Take a smaller encoder (encoder.source), or fewer examples (ingest.max_train).")


def _digest(members: Mapping[str, bytes | Path]) -> str:
    lines = "".join(f"{name} {_sha256(content)}\n" for name, content in sorted(members.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def _sha256(content: bytes | Path) -> str:
    return sha256_of(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest()


def _content(content: bytes | Path) -> bytes:
    return content.read_bytes() if isinstance(content, Path) else content


def _as_bytes(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
