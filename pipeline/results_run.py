"""What the results document is made from, and its first section: what was run, how large it was, how long it took."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from keycontrast.errors import InputError
from pipeline.estimate import duration
from pipeline.markdown import escaped, table
from stages.common.paths import DatasetPaths, ProbePaths
from stages.common.schemas import SPLITS
from stages.common.settings import Params
from stages.results.gather import read_json, read_results, require_comparison, require_trained
from stages.results.model import Block, Results
from stages.results.page.labels import settings_text
from stages.results.tracks import TRACKS
from stages.run.process import RECORDS
from stages.tracks.registry import all_models, all_runs, track_of_model


@dataclass(frozen=True)
class Material:
    """Everything the document shows.

    Attributes:
        results: models, runs and systems.
        probes: model, data set and metrics of each probe that has been made.
        counts: of each data set, the metrics of the data stages that its tracks tell of.
        seconds: recorded duration of each stage instance.
        devices: where those ran that did not run on this machine.
    """

    params: Params
    results: Results
    counts: dict[str, dict[str, dict[str, Any]]]
    seconds: dict[str, float]
    devices: list[str]
    probes: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)


def read_material(params: Params) -> Material:
    """Read what the project in the working folder has made.

    Raises:
        InputError: something is missing or broken; the message names the stage to run.
    """
    stages: dict[str, dict[str, None]] = {}
    for track in TRACKS.values():
        for run in track.runs(params).values():
            stages.setdefault(track.models(params)[run.model].dataset, {}).update(dict.fromkeys(track.counts))
    if not stages:
        raise InputError("params.yaml: runs.hcl, runs.pgkpr and models.clld are empty, so that there are no results. "
                         "Take a recipe with runs: `keycontrast use cpu-hcl-qqp --data DIR`.")
    counts = {name: {stage: read_json(DatasetPaths(name).metrics(stage), f"{stage}@{name}") for stage in own}
              for name, own in stages.items()}
    require_comparison(params, TRACKS.values())
    require_trained(params, TRACKS.values())
    names = {*all_models(params), *all_runs(params)}
    records = _records({*stages, *names, "all"})
    return Material(params, read_results(params), counts,
                    {name: float(record["seconds"]) for name, record in records.items() if "seconds" in record},
                    sorted({str(record["device"]) for record in records.values() if "device" in record}),
                    [(probe.model, params.models.hcl[probe.model].dataset, read_json(path, f"probe_hcl@{name}"))
                     for name, probe in params.probes.hcl.items() if (path := ProbePaths(name).metrics).exists()])


def _records(instances: set[str]) -> dict[str, dict[str, Any]]:
    """Return what is recorded of each stage instance (duration, memory, device); records are no artifacts.

    Args:
        instances: those of the params; records of other recipes may lie beside theirs.
    """
    return {path.stem: read_json(path, path.stem.removesuffix("@all")) for path in sorted(RECORDS.glob("*.json"))
            if path.stem.partition("@")[2] in instances}


def unique(blocks: Iterable[Block]) -> list[Block]:
    """Return the first of each data set and track."""
    return list({(one.dataset, one.track.name): one for one in reversed(list(blocks))}.values())[::-1]


def sizes(material: Material, block: Block) -> str:
    """Return how many items each split has."""
    examples = material.counts[block.dataset].get("ingest", {}).get("examples", {})
    return ", ".join(f"{examples[split]:,} {split}" for split in SPLITS if split in examples)


def percent(share: float) -> str:
    """Return a share in per cent."""
    return f"{100 * share:.1f} %"


def rows_run(material: Material) -> list[str]:
    """Return each row: what it is, what differs from the recipe, its seeds, and the epochs that it was trained."""
    trained = {model.name: model for model in material.results.models}
    models = {run.name: trained[run.model] for run in material.results.runs}
    rows = []
    for block in material.results.blocks:
        for system in block.systems:
            own = list({models[run].name: models[run] for run in system.runs}.values())
            epochs = " ".join(f"{model.metrics.get('best_epoch')}/{model.metrics.get('epochs')}" for model in own)
            starts = dict.fromkeys(_start(material.params, model.paths.name) for model in own)
            changes = [settings_text(system.changes), *(f"starts from {name}" for name in starts if name)]
            rows.append([escaped(system.name), escaped(system.label),
                         escaped("; ".join(filter(None, changes)) or "nothing"), ", ".join(map(str, system.seeds)),
                         epochs])
    return table(["row", "what it is", "what differs from the recipe", "seeds", "epoch kept/run"], rows, left=3)


def _start(params: Params, model: str) -> str | None:
    return track_of_model(params, model).follows(params, model).get("init")


def durations(material: Material) -> list[str]:
    """Return how long stages took, by what they do."""
    sums: dict[str, float] = {}
    for name, seconds in material.seconds.items():
        stage = name.partition("@")[0]
        kind = "training" if stage.startswith("train_") else "decoding" if stage.startswith("generate_") else (
            "evaluation" if stage.startswith(("evaluate_", "compare")) else "data, keywords and the rest")
        sums[kind] = sums.get(kind, 0.0) + seconds
    if not sums:
        return ["No durations were recorded here: the artifacts were made elsewhere."]
    trained = dict.fromkeys((model.track, model.paths.name) for model in material.results.models)
    missing = [name for track, name in trained if f"train_{track}@{name}" not in material.seconds]
    said = ", ".join(f"{kind} {duration(seconds)}" for kind, seconds in sorted(sums.items()))
    line = f"Durations of the stages, summed ({duration(sum(sums.values()))}; some ran side by side): {said}."
    if material.devices:
        line += f" Some of it was computed on another machine: {', '.join(map(escaped, material.devices))}."
    return [line + (f" Trained elsewhere: {', '.join(map(escaped, missing))}." if missing else "")]
