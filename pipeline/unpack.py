"""What a GPU machine has made of a pack, put where the pipeline's own stages would have put it."""

import json
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile, disk_usage
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text

from pipeline.packed.run import CONTENTS, MODEL_FILES, RESULTS
from pipeline.schemas import schema_of
from stages.common.encoders import resolve_encoder
from stages.common.fingerprint import sha256_of
from stages.common.model_folder import TRAINED_ON_FILE, save_notes, seal
from stages.common.paths import ModelPaths, RunPaths
from stages.common.schemas import TableSchema
from stages.common.settings import Params, read_params, stage_hash
from stages.common.tables import (
    ROW_GROUP,
    WRITTEN,
    atomic_file,
    atomic_folder,
    check_columns,
    read_metadata,
    read_table,
    stored_metadata,
)
from stages.run.errors import InputError, unwritten
from stages.run.process import RECORDS
from stages.tracks.common.track import Track
from stages.tracks.registry import TRACKS

# A clock may be a little off, and archives count in seconds.
_CLOCK = 1.0
# Weights hardly shrink, tables and histories to a tenth or so; a hundredth is an attack, or zeros.
_PACKED_TO, _SLACK, _MEMBERS = 50, 64 * 2**20, 20_000
# Plain text that names the encoder which a classifier started from.
_NAMING = ("metrics.json", TRAINED_ON_FILE, "README.md")


@dataclass(frozen=True)
class Unpacked:
    """What :func:`unpack` has written.

    Attributes:
        models: names.
        runs: name and track; those of ``clld`` are scored already.
        unfinished: jobs of the pack that were begun and are not done, with their state.
        machine: device and versions that it was computed with.
        overrides: what the machine had in another way than the params.
        other_weights: models whose folder here holds the weights of another training.
    """

    models: list[str]
    runs: dict[str, str]
    unfinished: dict[str, str]
    machine: dict[str, Any]
    overrides: dict[str, Any]
    other_weights: list[str]


@dataclass(frozen=True)
class _Part:
    """A file or folder of the results and its place here.

    Attributes:
        source: where it is.
        target: where it is to be.
        schema: of a table; None for anything else.
        stage: stage instance that made it.
        model: that it is, or was made with.
        seed: of that model.
    """

    source: Path
    target: Path
    schema: TableSchema | None = None
    stage: str = ""
    model: str = ""
    seed: int | None = None

    @property
    def made(self) -> float:
        """When it was computed; archives keep no age of folders."""
        files = [self.source] if self.source.is_file() else list(self.source.iterdir())
        return max(file.stat().st_mtime for file in files)


def show_unpacked(file: Path, force: bool, console: Console) -> None:
    """Put the results in ``file`` into ``artifacts/`` and say what to do next."""
    done = unpack(file, force)
    lines = [f"{len(done.models)} models and {len(done.runs)} runs from {done.machine['device']}, torch "
             f"{done.machine['torch']}: {', '.join(done.runs) or 'no run'}"]
    if done.overrides.get("precision"):
        lines.append(f"Computed with --precision {done.overrides['precision']}; the tables say so.")
    lines += [f"Not done: {name} ({state})" for name, state in done.unfinished.items()]
    if done.other_weights:
        lines.append(f"The weights in artifacts/models of {', '.join(done.other_weights)} are of another training; "
                     f"those of this one stayed on the machine (run_packed.py --weights brings them).")
    scoring = {run: TRACKS[track] for run, track in done.runs.items()}
    unscored = [f"  keycontrast stage {track.evaluated_by}@{run}" for run, track in scoring.items()
                if not track.classifies]
    if unscored:
        lines += ["Now score them, stage by stage; `keycontrast run` would train again what has no weights here:",
                  *unscored]
    if len(unscored) < len(scoring):
        lines += [f"{'The others' if unscored else 'They'} are scored. Tests and page of what is there: keycontrast "
                  f"stage compare, then keycontrast stage report; `keycontrast run` would train again."]
    console.print(Text("\n".join(lines)), soft_wrap=True)


def unpack(file: Path, force: bool = False) -> Unpacked:
    """Put predictions, histories, items and metrics from ``file`` into ``artifacts/``, and records beside those here.

    Runs of the CLLD track come with their scores.

    The metadata of each table says on which device, with which versions and from which pack it was computed; each
    record (durations, memory, throughput) names the device.

    Args:
        file: ``results.tar.gz`` of the packed runner.
        force: also in the place of artifacts that are newer than the results.

    Raises:
        InputError: another kind of file, results of other params or other data, or newer artifacts in the way.
    """
    params = read_params()
    with tempfile.TemporaryDirectory() as name:
        folder = _extracted(file, Path(name))
        try:
            contents = json.loads((folder / CONTENTS).read_text(encoding="utf-8"))
            _check(file, contents, params)
            parts = list(_parts(folder, contents))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, FileNotFoundError) as error:
            raise InputError(f"{file}: its results/{CONTENTS} is damaged, or of another version of Keycontrast "
                             f"({type(error).__name__}: {str(error)[:200]}). Fetch it again, or unpack it with that "
                             f"version.") from error
        if not force:
            _refuse_newer(file, parts)
        for part in parts:
            _put(part, contents, params)
    unfinished = {name: job["state"] for name, job in contents["jobs"].items() if job["state"] != "done"}
    brought = {part.target for part in parts}
    others = [name for name in contents["models"] if any(
        paths.weights.exists() and paths.weights not in brought for paths in _trained(contents, name))]
    runs = {run: _track(contents, "runs", run).name for run in contents["runs"]}
    return Unpacked(contents["models"], runs, unfinished, contents["machine"], contents["overrides"], others)


def _extracted(file: Path, folder: Path) -> Path:
    if not file.is_file():
        raise InputError(f"{file}: no such file. It should be the {RESULTS} that run_packed.py has left.")
    try:
        with tarfile.open(file) as archive:
            archive.extractall(folder, members=_bounded(file, archive, folder), filter="data")
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        if unwritten(error):
            raise
        raise InputError(f"{file}: not a readable tar archive ({error}). It should be the {RESULTS} that "
                         f"run_packed.py has left.") from error
    found = folder / "results"
    if not (found / CONTENTS).is_file():
        kind = "a pack, which is to be run first" if list(folder.glob("*/pack.json")) else "some other archive"
        raise InputError(f"{file}: has no results/{CONTENTS}; it is {kind}. Give the {RESULTS} that run_packed.py has "
                         f"left.")
    return found


def _bounded(file: Path, archive: tarfile.TarFile, folder: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an archive as long as they are what results may be, and fit on the disk.

    Raises:
        InputError: they are more, or larger than results that have been packed to the size of ``file``.
    """
    most = _PACKED_TO * file.stat().st_size + _SLACK
    free, size = disk_usage(folder).free, 0
    for number, member in enumerate(archive):
        size += member.size
        if number >= _MEMBERS or size > most:
            raise InputError(f"{file}: unpacks to more than {_MEMBERS:,} files or {most // 2**20:,} MiB, which no "
                             f"results of that size do. Fetch it again, or ask whoever made it.")
        if size > free:
            raise InputError(f"{file}: {folder} has {free // 2**20:,} MiB free, and the results need more. Free some "
                             f"space, or set TMPDIR to a larger disk.")
        yield member


def _check(file: Path, contents: Mapping[str, Any], params: Params) -> None:
    """Make sure that models, runs and data are those of this project."""
    if "tables" not in contents or any("seeds" not in model for model in contents["pack"]["models"].values()):
        raise InputError(f"{file}: results of another version of Keycontrast. Unpack them with that one, or make a new "
                         f"pack.")
    packed = contents["pack"]
    problems = []
    for block in ("models", "runs"):
        for name in contents[block]:
            track = _track(contents, block, name)
            stage = track.trained_by if block == "models" else _run_stage(contents, name)
            known = track.models(params) if block == "models" else track.runs(params)
            seeds_of = params.model_seeds if block == "models" else params.run_seeds
            if name not in known:
                problems.append(f"{block}.{track.name}.{name}: not in params.yaml")
            elif any(seed not in seeds_of(name) or stage_hash(params, stage, name, seed) != digest
                     for seed, digest in _hashes(packed[block][name])):
                problems.append(f"{block}.{track.name}.{name}: params.yaml has other params for it now")
    problems += [f"{path}: is another table now" for path, digest in packed["tables"].items()
                 if Path(path).exists() and sha256_of(Path(path)) != digest]
    if problems:
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise InputError(f"{file}: results of pack {packed['pack']} do not belong to this project as it is:{listed}\n"
                         f"Go back to the params and data that it was made from, or make a new pack.")


def _track(contents: Mapping[str, Any], block: str, name: str) -> Track:
    """Return the track of a model or run of a pack."""
    return TRACKS[contents["pack"][block][name]["track"]]


def _run_stage(contents: Mapping[str, Any], run: str) -> str:
    """Return the stage that computed a run of a pack."""
    return str(contents["pack"]["runs"][run]["stage"])


def _hashes(entry: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield each seed of a model or run of a pack, and the hash of its params."""
    return ((int(seed), digest) for seed, digest in entry["params_hash"].items())


def _trained(contents: Mapping[str, Any], model: str) -> list[ModelPaths]:
    """Return where the model of a pack belongs here, under each of its seeds."""
    return [ModelPaths(model, seed) for seed in contents["pack"]["models"][model]["seeds"]]


def _parts(folder: Path, contents: Mapping[str, Any]) -> Iterator[_Part]:
    parts = [part for name in contents["models"] for paths in _trained(contents, name)
             for part in _parts_of_model(folder, contents, paths)]
    parts += [part for run in contents["runs"] for part in _parts_of_run(folder, contents, run)]
    yield from parts
    for stage in dict.fromkeys(part.stage for part in parts):
        record = f"{stage}.json"
        if (folder / "records" / record).exists():
            yield _Part(folder / "records" / record, RECORDS / record, None, stage)


def _parts_of_model(folder: Path, contents: Mapping[str, Any], paths: ModelPaths) -> Iterator[_Part]:
    place, track = f"{paths.name}/{paths.seed}", _track(contents, "models", paths.name)
    source, stage = folder / "models" / place, f"{track.trained_by}@{paths.name}"
    for kind, digest in contents["tables"][place].items():
        pairs = kind == "confusing_pairs"
        yield _Part(folder / kind / f"{digest}.parquet", paths.confusing_pairs if pairs else paths.table(kind),
                    schema_of(kind, track), f"{kind}@{paths.name}" if pairs else stage, paths.name, paths.seed)
    for file in MODEL_FILES:
        if (source / file).exists():
            yield _Part(source / file, paths.folder / file, None, stage, paths.name, paths.seed)
    if (folder / "weights" / place).exists():
        yield _Part(folder / "weights" / place, paths.weights, None, stage, paths.name, paths.seed)


def _parts_of_run(folder: Path, contents: Mapping[str, Any], run: str) -> Iterator[_Part]:
    stage, model = _run_stage(contents, run), contents["pack"]["runs"][run]["model"]
    track = _track(contents, "runs", run)
    for seed in (paths.seed for paths in _trained(contents, model)):
        for file in map(Path, track.run_files):
            schema = schema_of(file.stem, track) if file.suffix == ".parquet" else None
            yield _Part(folder / "runs" / run / str(seed) / file, RunPaths(run, seed).file(file.name), schema,
                        f"{stage}@{run}", model, seed)


def _refuse_newer(file: Path, parts: list[_Part]) -> None:
    newer = [part.target for part in parts
             if part.target.exists() and part.target.stat().st_mtime > part.made + _CLOCK]
    if newer:
        shown = ", ".join(map(str, newer[:3])) + (f" and {len(newer) - 3} more" if len(newer) > 3 else "")
        raise InputError(f"{file}: {shown} {'is' if len(newer) == 1 else 'are'} newer than these results. To replace "
                         f"what is there, give --force.")


def _put(part: _Part, contents: Mapping[str, Any], params: Params) -> None:
    if part.source.is_dir():
        _put_weights(part, contents, params)
    else:
        with atomic_file(part.target) as temporary:
            if part.schema is not None:
                check_columns(part.source, part.schema)
                _write_table(part, temporary, contents)
            elif part.target.parent == RECORDS:
                record = {**json.loads(part.source.read_text()), "device": contents["machine"]["device"]}
                temporary.write_text(json.dumps(record) + "\n")
            else:
                _put_file(part.source, temporary, _encoder(contents, part.model))
    # The age of what was computed, so that the same results can be unpacked twice.
    os.utime(part.target, (part.made, part.made))


def _encoder(contents: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """Return source, folder and description of the encoder that a model of a pack started from; nothing for none."""
    return contents["pack"]["models"][model]["encoder"] or {}


def _put_file(source: Path, target: Path, encoder: Mapping[str, Any]) -> None:
    """Copy a file; where a classifier's says which encoder it started from, it says so as the params do."""
    if source.name not in _NAMING or not encoder.get("folder"):
        copyfile(source, target)
        return
    there, here = f"path:{encoder['folder']}", str(encoder["source"])
    if source.suffix == ".json":  # in quotation marks, so that encoder is not taken for the beginning of encoder-2
        there, here = json.dumps(there), json.dumps(here, ensure_ascii=False)
    else:
        there, here = f"`{there}`", f"`{here}`"
    target.write_text(source.read_text(encoding="utf-8").replace(there, here), encoding="utf-8")


def _params_hash(packed: Mapping[str, Any], part: _Part) -> str:
    """Return the hash of the params of what made a part of a pack."""
    name, _, key = part.stage.partition("@")
    hashes = (packed["confusing_pairs"][key] if name == "confusing_pairs" else
              packed["models" if name.startswith("train_") else "runs"][key]["params_hash"])
    return str(hashes[str(part.seed)])


def _write_table(part: _Part, target: Path, contents: Mapping[str, Any]) -> None:
    """Write a table as it is, with metadata that say where it was computed."""
    table, packed = read_table(part.source), contents["pack"]
    metadata = read_metadata(part.source)
    models, encoder = metadata.get("models", {}), _encoder(contents, part.model)
    if "encoder" in models and encoder:
        models["encoder"] = {**encoder["description"], **({"stored_as": "float16"} if encoder["folder"] else {})}
    metadata |= {"stage": part.stage, "params_hash": _params_hash(packed, part), "models": models,
                 "computed_elsewhere": {"pack": packed["pack"], **contents["machine"],
                                        "overrides": contents["overrides"]}}
    stored = {**(table.schema.metadata or {})}
    stored |= stored_metadata(stored.get(b"description", b"").decode(), metadata)
    pq.write_table(table.replace_schema_metadata(stored), target, row_group_size=ROW_GROUP, **WRITTEN)


def _put_weights(part: _Part, contents: Mapping[str, Any], params: Params) -> None:
    """Put a model's folder here; one that embeds keywords it lacks does so with this project's encoder."""
    encoder = _encoder(contents, part.model)
    with atomic_folder(part.target) as folder:
        for file in sorted(part.source.iterdir()):
            _put_file(file, folder / file.name, encoder)
        place = folder / TRAINED_ON_FILE
        on = json.loads(place.read_text(encoding="utf-8"))
        if "encoder_source" in on:
            source = params.encoder.source
            on |= {"encoder_source": source, "encoder": resolve_encoder(source).description}
            save_notes(folder, {TRAINED_ON_FILE: on})
        seal(folder)
