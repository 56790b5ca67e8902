"""The tracks, and the models, runs and seeds of all of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keycontrast.errors import InputError, nearest
from stages.common.settings import Params, earlier_model
from stages.tracks.clld import tables as clld
from stages.tracks.common import schemas
from stages.tracks.common.frame import forget
from stages.tracks.common.track import Track

if TYPE_CHECKING:
    from stages.params import Params as Validated


def _source(params: "Params | Validated", name: str) -> str | None:
    """Return the encoder or the pretrained baseline that model ``name`` of HCL starts from, if it has a name."""
    model: Any = params.model(name)
    if model.architecture in ("hcl", "seq2seq_du"):
        return params.encoder.source
    source: str | None = getattr(getattr(model, model.architecture), "source", None)
    return None if source == "path" else source


# Keyword-guided rewriting.
HCL = Track(
    "hcl", "HCL", encoder=_source, schemas={"predictions": schemas.PREDICTIONS, "scores": schemas.SCORES},
    unread={"n": "draw further outputs instead, with --samples"})
# Paraphrasing with the reconstruction of keywords and parts of speech.
PGKPR = Track(
    "pgkpr", "PGKPR", unread={"samples": "draw nothing"},
    schemas={"predictions": schemas.PREDICTIONS, "scores": schemas.PARAPHRASE_SCORES})
# Text classification with label-aware contrasts.
CLLD = Track(
    "clld", "CLLD", classifies=True,
    schemas={"predictions": clld.CLASS_PREDICTIONS, "scores": clld.CLASS_SCORES},
    encoder=lambda params, name: None if (source := clld.source_of(params, name)) == clld.TEXTCNN else source,
    predicts_in="export",
    unread=dict.fromkeys(("keyword", "samples", "n"), "classify"))
TRACKS: dict[str, Track] = {track.name: track for track in (HCL, PGKPR, CLLD)}


def all_runs(params: "Params | Validated") -> dict[str, Any]:
    """Return the runs of every track by name; no two tracks have one of equal name."""
    return {name: run for track in TRACKS.values() for name, run in track.runs(params).items()}


def track_of_model(params: "Params | Validated", name: str) -> Track:
    """Return the track of model ``name``."""
    return _having(name, {track.name: track.models(params) for track in TRACKS.values()}, "model")


def track_of_run(params: "Params | Validated", name: str) -> Track:
    """Return the track of run ``name``."""
    return _having(name, {track.name: track.runs(params) for track in TRACKS.values()}, "run")


def _having(name: str, known: Mapping[str, Mapping[str, Any]], kind: str) -> Track:
    for track, names in known.items():
        if name in names:
            return TRACKS[track]
    everything = [other for names in known.values() for other in names]
    raise InputError(f"no {kind} is called {name!r}; {nearest(name, everything)}")


def with_earlier(params: "Params | Validated", models: Iterable[str]) -> list[str]:
    """Return ``models`` preceded by those that they depend on."""
    ordered: dict[str, None] = {}

    def add(name: str) -> None:
        if (earlier := earlier_model(track_of_model(params, name).models(params)[name])) is not None:
            add(earlier)
        ordered.setdefault(name)

    for name in models:
        add(name)
    return list(ordered)


def seed_of(name: str, seeds: Sequence[int], wanted: int | None = None) -> int:
    """Return the seed ``wanted``, or the first of ``seeds``; InputError if ``wanted`` is none of them."""
    if wanted is not None and not seeds:
        raise InputError(f"--seed {wanted}: {name} works on no seed of a model; leave it out.")
    if wanted is not None and wanted not in seeds:
        raise InputError(f"--seed {wanted}: {name} has the seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}. "
                         f"Give one of these, or add {wanted} to its seeds in the recipe.")
    return seeds[0] if wanted is None else wanted


def seeds_of_stage(params: "Params | Validated", stage: str, key: str) -> list[int]:
    """Return the seeds of stage instance ``stage@key``; none for a stage without seeds."""
    for track in TRACKS.values():
        if stage == track.trained_by and key in track.models(params):
            return params.model_seeds(key)
        if stage in (track.computed_by, track.evaluated_by) and key in track.runs(params):
            return params.run_seeds(key)
    return []


def forget_seeds(params: "Params | Validated", names: Sequence[str], seed: int | None = None) -> None:
    """Delete the kept results of stage instances, for one seed or for all their seeds."""
    instances = [name.partition("@")[::2] for name in names]
    for stage, key in instances if seed is not None else ():
        seed_of(f"{stage}@{key}" if key else stage, seeds_of_stage(params, stage, key), seed)
    for stage, key in instances:
        if seeds_of_stage(params, stage, key):
            forget(stage, key, seed)
