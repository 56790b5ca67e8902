"""The card of an exported model as the Hugging Face hub reads it: licence, base model, figures, hash of the params.

It is the card that the training wrote beside its weights, with what is known since: how its runs were evaluated.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCardData

from stages.common.paths import ModelPaths, RunPaths
from stages.common.settings import Params, stage_hash
from stages.common.training import DIGESTS_FILE, seal
from stages.tracks.common.track import Track

_MARK = "---\n"
_HUB = "hub:"
_BUNDLED = "sentence-transformers/all-MiniLM-L6-v2"
_NO_LICENCE = ("No licence is stated: it depends on the texts that it was trained on and on what it began from. "
               "`keycontrast export --license ID` states one")


def write_card(params: Params, track: Track, paths: ModelPaths, folder: Path, licence: str | None = None) -> None:
    """Write ``README.md`` of an exported model into ``folder``.

    Args:
        params: in force.
        track: of the model.
        paths: of the model.
        folder: that it was exported into.
        licence: as the hub abbreviates it; None states none.
    """
    written = (paths.weights / "README.md").read_text(encoding="utf-8")
    head, body = written.removeprefix(_MARK).split(_MARK, 1) if written.startswith(_MARK) else ("", written)
    known = yaml.safe_load(head) or {}
    task = known.get("pipeline_tag", "text2text-generation")
    results = list(_results(params, track, paths, task))
    row = track.models(params)[paths.name]
    data = ModelCardData(
        language=params.datasets[row.dataset].language, license=licence, base_model=_base(params, track, paths.name),
        library_name=known.get("library_name", "keycontrast"), pipeline_tag=task, tags=["keycontrast", track.name],
        model_name=paths.name if results else None, eval_results=results or None)
    fingerprint = stage_hash(params.plain(), track.trained_by, paths.name, paths.seed)
    lines = ["", "## How it came about", "", f"- Seed {paths.seed}; hash of the params that it was trained with: "
             f"`{fingerprint}` (recipe `{params.recipe}`)"]
    lines += [f"- Run `{name}`, {len(found)} figures of the {found[0].dataset_split} split in the head of this card"
              for name, found in _by_run(results)]
    lines += [] if licence else [f"- {_NO_LICENCE}"]
    text = f"{_MARK}{data.to_yaml()}\n{_MARK}{body.rstrip()}\n" + "\n".join(lines) + "\n"
    (folder / "README.md").write_text(text, encoding="utf-8")
    if (folder / DIGESTS_FILE).exists():
        seal(folder)


def _base(params: Params, track: Track, name: str) -> str | None:
    """Return the model of the hub that it began from, if it did."""
    encoder = track.encoder(params, name) or ""
    return _BUNDLED if encoder == "bundled" else (
        encoder.removeprefix(_HUB).partition("@")[0] if encoder.startswith(_HUB) else None)


def _results(params: Params, track: Track, paths: ModelPaths, task: str) -> Iterator[EvalResult]:
    for run, entry in track.runs(params).items():
        file = RunPaths(run, paths.seed).metrics
        if entry.model != paths.name or not file.exists():
            continue
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        name = track.models(params)[paths.name].dataset
        for metric, value in found["run"].items():
            yield EvalResult(task_type=task, dataset_type=name, dataset_name=name, dataset_config=run,
                             dataset_split=found["settings"].get("split", "test"), metric_type=metric,
                             metric_value=value)


def _by_run(results: list[EvalResult]) -> list[tuple[str, list[EvalResult]]]:
    runs = dict.fromkeys(str(one.dataset_config) for one in results)
    return [(run, [one for one in results if one.dataset_config == run]) for run in runs]
