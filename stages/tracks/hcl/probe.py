"""Probe a trained HCL model: a picture of its latent space, and its outputs under other keywords (HCL section 4.5).

Reads the folder and the items of the probed model under its first seed; writes latent.parquet, keyword_swap.parquet,
metrics.json and the picture as SVG and PNG. Outputs are decoded by the defaults of `generate_hcl`, whatever the runs
do.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from keycontrast.errors import InputError
from keycontrast.files import atomic_folder, sha256_of
from stages.common.figures import Plot
from stages.common.manifest import write_manifest
from stages.common.paths import ModelPaths, ProbePaths
from stages.common.precision import computed_in, computing
from stages.common.seeds import derived_seed, seed_everything
from stages.common.tables import Provenance, read_frame, write_json, write_table
from stages.run.process import StageProcess, run_stage
from stages.tracks.common.schemas.items import ITEMS
from stages.tracks.hcl.data import node_ids
from stages.tracks.hcl.generate import Paraphraser
from stages.tracks.hcl.probing.figure import NAME, latent_plot, tsne
from stages.tracks.hcl.probing.measures import separation
from stages.tracks.hcl.probing.points import KINDS, has_impostor, latent_points, node_columns
from stages.tracks.hcl.probing.sample import Sample, draw
from stages.tracks.hcl.probing.schemas import KEYWORD_SWAP, LATENT
from stages.tracks.hcl.probing.swap import keyword_choices, swap_measures, swapped

if TYPE_CHECKING:
    from stages.tracks.hcl.params import ProbeHcl

STAGE = "probe_hcl"
# Beam search with the defaults of `generate_hcl`.
DECODING = {"search": "beam", "num_beams": 4, "min_length": 5, "max_length": 20, "length_penalty": 1.0, "top_k": 5,
            "alpha": 0.6, "z": "mean", "samples": 0, "batch_size": 32}
_DECIMALS = 6
_NO_KEYWORD = "the model has no keyword, so that a swap changes nothing: one output per item"


@dataclass(frozen=True)
class Probed:
    """What :func:`run` makes: two tables, the content of ``metrics.json`` and the picture."""

    latent: pd.DataFrame
    swap: pd.DataFrame
    metrics: dict[str, Any]
    plot: Plot


def run(name: str, paraphraser: Paraphraser, items: pd.DataFrame, params: "ProbeHcl", decode: Mapping[str, Any],
        seed: int) -> Probed:
    """Probe a model.

    Args:
        name: of the model.
        paraphraser: the model.
        items: table ``items`` of the model.
        params: block ``probe_hcl``.
        decode: how outputs are decoded.
        seed: of the project.

    Raises:
        InputError: the split is empty, or the keyword given is no node.
    """
    chosen = items[items["split"] == params.split].sort_values("example_id", ignore_index=True)
    if chosen.empty:
        raise InputError(f"items.parquet: the {params.split} split is empty. Choose another (probe_hcl.split), or give "
                         f"it a larger share (ingest.{params.split}).")
    latent, metrics, plot = _latent(name, paraphraser, chosen, params, seed)
    swap, swap_metrics = _swap(paraphraser, chosen, items[items["split"] == "train"], params, decode, seed)
    return Probed(latent, swap, {"latent": metrics, "keyword_swap": swap_metrics,
                                 "settings": {"model": name, "split": params.split}}, plot)


def _latent(name: str, paraphraser: Paraphraser, items: pd.DataFrame, params: "ProbeHcl",
            seed: int) -> tuple[pd.DataFrame, dict[str, Any], Plot]:
    """Return table ``latent``, its measures and the picture."""
    sample = draw(items, _whole(paraphraser, items), params.items, seed, "latent")
    found = latent_points(paraphraser, sample.first(params.items))
    rank = {kind: place for place, kind in enumerate(KINDS)}
    points = found.points.sort_values(["example_id", "kind"], key=lambda column: column.map(
        lambda value: rank.get(value, value)), ignore_index=True)
    vectors = np.stack(list(points["vector"])) if len(points) else np.zeros((0, 2))
    places, perplexity = tsne(vectors, params.perplexity, derived_seed(seed, STAGE, "tsne"))
    table = points.assign(x=places[:, 0], y=places[:, 1])
    measures = separation(points, found.pairs)
    metrics = {**_counts(sample), "points": {kind: int((points["kind"] == kind).sum()) for kind in KINDS},
               "left_out": found.left_out, "perplexity": perplexity, **measures}
    return table, metrics, latent_plot(name, table, params.split, _remark(found.left_out, measures))


def _whole(paraphraser: Paraphraser, items: pd.DataFrame) -> np.ndarray:
    """Return which items have every kind of point: a negative, and, for a model with keywords, nodes and impostor."""
    whole = np.array([len(texts) > 0 for texts in items["negatives"]])
    if not paraphraser.uses_keyword:
        return whole
    nodes = node_columns(paraphraser, items)
    return whole & (nodes["input_node"] >= 0) & (nodes["output_node"] >= 0) & has_impostor(
        paraphraser.model, nodes["output_node"], nodes["negative_node"])


def _counts(sample: Sample) -> dict[str, int]:
    return {"items": len(sample.items), "fitting_items": sample.fitting, "filled_with_others": sample.filled}


def _remark(left_out: dict[str, str], measures: dict[str, Any]) -> str:
    """Return a sentence or two for below the picture."""
    parts = []
    if measures.get("share_positive_nearer") is not None:
        parts.append(f"Target nearer to the input than the negative: {measures['share_positive_nearer']:.0%} of items.")
    if measures.get("share_same_kind") is not None:
        parts.append(f"Neighbours of the same kind: {measures['share_same_kind']:.0%} "
                     f"(by chance {measures['share_same_kind_by_chance']:.0%}).")
    parts += [f"Left out: {', '.join(kind.replace('_', ' ') for kind in left_out)} ({reason})."
              for reason in dict.fromkeys(left_out.values())]
    return " ".join(parts)


def _swap(paraphraser: Paraphraser, items: pd.DataFrame, training: pd.DataFrame, params: "ProbeHcl",
          decode: Mapping[str, Any], seed: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return table ``keyword_swap`` of the first items drawn, and the measures over all of them."""
    if not params.swaps:
        return pd.DataFrame({name: [] for name, _, _ in KEYWORD_SWAP.fields}, dtype=object), {}
    known = node_ids(paraphraser.keywords, items["keyword"]) >= 0
    sample = draw(items, known, max(params.items, params.swaps), seed, "swap")
    drawn = sample.first(len(sample.items))
    choices = keyword_choices(drawn, training, paraphraser.keywords, paraphraser.model.graph, params.given, seed)
    rows = swapped(paraphraser, drawn, choices, decode, seed)
    shown = rows[rows["example_id"].isin(sample.items["example_id"].head(params.swaps))]
    metrics: dict[str, Any] = {**_counts(sample), **swap_measures(rows)}
    return shown, metrics | ({} if paraphraser.uses_keyword else {"remark": _NO_KEYWORD})


def _rounded(content: Any) -> Any:
    if isinstance(content, list):
        return [_rounded(value) for value in content]
    if isinstance(content, dict):
        return {name: _rounded(value) for name, value in content.items()}
    return round(content, _DECIMALS) if isinstance(content, float) else content


def _write(probe: str, probed: Probed, provenance: Provenance) -> None:
    paths = ProbePaths(probe)
    write_table(paths.table("latent"), LATENT, probed.latent, provenance)
    write_table(paths.table("keyword_swap"), KEYWORD_SWAP, probed.swap, provenance)
    with atomic_folder(paths.figures) as folder:
        _write_picture(folder, probed.plot)
    write_json(paths.metrics, _rounded(probed.metrics))


def _write_picture(folder: Path, plot: Plot) -> None:
    (folder / f"{NAME}.svg").write_text(plot.svg, encoding="utf-8")
    (folder / f"{NAME}.png").write_bytes(plot.png)


def _work(process: StageProcess) -> None:
    params = process.params
    model = params.probes.hcl[process.instance].model
    paths = ModelPaths(model, params.model_seeds(model)[0])
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    items = read_frame(paths.items, ITEMS)
    with computing(params.runtime) as device:
        settings: Any = SimpleNamespace(**params.probe_hcl)  # one of them is called `items`
        probed = run(model, Paraphraser(paths.weights, device), items, settings, DECODING, params.seed)
    _write(process.instance, probed, Provenance(
        process.name, process.params_hash,
        {"model": {"name": paths.weights.as_posix(), "sha256": sha256_of(paths.weights / "model.safetensors")}},
        fallbacks=[f"{kind}: {reason}" for kind, reason in probed.metrics["latent"]["left_out"].items()],
        precision=computed_in(params.runtime.precision, params.runtime.tf32)))
    write_manifest(process, "probes", [ProbePaths(process.instance).folder])


def main(argv: list[str] | None = None) -> int:
    """Probe the model that the probe named in ``argv`` names."""
    return run_stage(STAGE, _work, argv, instance="PROBE")


if __name__ == "__main__":
    sys.exit(main())
