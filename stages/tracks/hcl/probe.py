"""Probe a trained HCL model: a plot of its latent space, and its outputs under other keywords (HCL section 4.5).

Outputs are decoded with the defaults of `generate_hcl`, whatever the settings of the runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch

from keycontrast.files import atomic_folder, sha256_of
from models.hcl.graph import KeywordGraph
from stages.common.device import computed_in, computing
from stages.common.figures import Plot
from stages.common.manifest import write_manifest
from stages.common.paths import ModelPaths, ProbePaths
from stages.common.schemas import NO_KEYWORD
from stages.common.seeds import derived_seed, generator, seed_everything
from stages.common.tables import Provenance, read_frame, rounded, write_json, write_table
from stages.metrics.tokens import basic_tokens, keyword_retention
from stages.run.process import StageProcess, run_stage
from stages.tracks.common.frame import split_of
from stages.tracks.common.schemas import ITEMS, KEYWORD_SWAP, LATENT
from stages.tracks.hcl import latent_space
from stages.tracks.hcl.data import conditioned, node_ids
from stages.tracks.hcl.generate import Paraphraser
from stages.tracks.hcl.latent_space import KINDS, mean_interval
from stages.tracks.hcl.params import GenerateHcl

STAGE = "probe_hcl"
CHOICES = ("own", "random", "given")


@dataclass(frozen=True)
class Probed:
    """The results of :func:`run`: two tables, the content of ``metrics.json`` and the plot."""

    latent: pd.DataFrame
    swap: pd.DataFrame
    metrics: dict[str, Any]
    plot: Plot


def run(name: str, paraphraser: Paraphraser, items: pd.DataFrame, params: Any, decode: Mapping[str, Any],
        seed: int) -> Probed:
    """Probe a model by the block ``probe_hcl`` of the params."""
    chosen = conditioned(split_of(items, params.split, "items").sort_values("example_id", ignore_index=True),
                         paraphraser.condition)
    sample, counts = draw(chosen, _complete(paraphraser, chosen), params.items, seed, "latent")
    points, pairs = latent_space.latent_points(paraphraser, sample.sort_values("example_id", ignore_index=True))
    points = points.sort_values(["example_id", "kind"], ignore_index=True, key=lambda column: (
        column.map(KINDS.index) if column.name == "kind" else column))
    vectors = np.stack(list(points["vector"])) if len(points) else np.zeros((0, 2))
    places, perplexity = latent_space.tsne(vectors, params.perplexity, derived_seed(seed, STAGE, "tsne"))
    table = points.assign(x=places[:, 0], y=places[:, 1])
    measures, left_out = latent_space.separation(points, pairs), latent_space.left_out(paraphraser.model)
    metrics = {**counts, "points": {kind: int((points["kind"] == kind).sum()) for kind in KINDS},
               "left_out": left_out, "perplexity": perplexity, **measures}
    plot = latent_space.latent_plot(name, table, params.split, _remark(left_out, measures))
    swap, swap_metrics = _swap(paraphraser, chosen, items[items["split"] == "train"], params, decode, seed)
    return Probed(table, swap, {"latent": metrics, "keyword_swap": swap_metrics,
                                "settings": {"model": name, "split": params.split}}, plot)


def _complete(paraphraser: Paraphraser, items: pd.DataFrame) -> np.ndarray:
    """Return which items have every kind of point."""
    complete, model = np.array([len(texts) > 0 for texts in items["negatives"]]), paraphraser.model
    if not paraphraser.uses_keyword:
        return complete
    nodes = latent_space.node_columns(paraphraser, items)
    sides = (torch.from_numpy(nodes[f"{role}_node"]) for role in ("output", "negative"))
    impostor = model.planner().impostors(*sides)[2].numpy()
    return complete & (nodes["input_node"] >= 0) & (nodes["output_node"] >= 0) & impostor


def _remark(left_out: dict[str, str], measures: dict[str, Any]) -> str:
    parts = []
    if measures.get("share_positive_nearer") is not None:
        parts.append(f"Target nearer to the input than the negative: {measures['share_positive_nearer']:.0%} of items.")
    parts += [f"Left out: {', '.join(kind.replace('_', ' ') for kind in left_out)} ({reason})."
              for reason in dict.fromkeys(left_out.values())]
    return " ".join(parts)


def draw(items: pd.DataFrame, fits: np.ndarray, size: int, seed: int, name: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return ``size`` random ``items``, those marked in ``fits`` before any others, and counts."""
    order = np.argsort(items["example_id"].to_numpy(), kind="stable")
    shuffled = order[generator(seed, STAGE, name).permutation(len(order))]
    chosen = np.concatenate([shuffled[fits[shuffled]], shuffled[~fits[shuffled]]])[:size]
    return items.iloc[chosen].reset_index(drop=True), {
        "items": len(chosen), "fitting_items": int(fits.sum()), "filled_with_others": int((~fits[chosen]).sum())}


def _swap(paraphraser: Paraphraser, items: pd.DataFrame, training: pd.DataFrame, params: Any,
          decode: Mapping[str, Any], seed: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return table ``keyword_swap`` of the first items drawn, and the measures over all of them."""
    if not params.swaps:
        return pd.DataFrame({name: [] for name, _, _ in KEYWORD_SWAP.fields}, dtype=object), {}
    known = node_ids(paraphraser.keywords, items["keyword"]) >= 0
    sample, counts = draw(items, known, max(params.items, params.swaps), seed, "swap")
    drawn = sample.sort_values("example_id", ignore_index=True)
    choices = keyword_choices(drawn, training, paraphraser.keywords, paraphraser.model.graph, seed)
    rows = swapped(paraphraser, drawn, choices, decode, seed)
    metrics: dict[str, Any] = {**counts, **swap_measures(rows)}
    if not paraphraser.uses_keyword:
        metrics["remark"] = "the model has no keyword, so that a swap changes nothing: one output per item"
    return rows[rows["example_id"].isin(sample["example_id"].head(params.swaps))], metrics


def keyword_choices(sample: pd.DataFrame, training: pd.DataFrame, keywords: Sequence[str], graph: KeywordGraph,
                    seed: int) -> pd.DataFrame:
    """Return the keyword of each item under each choice, columns as :data:`CHOICES`; None where there is none.

    The given keyword is the most frequent negative neighbour of the item's own, or else its negative's keyword.
    """
    own, nodes, others = sample["keyword"].tolist(), set(keywords) - {NO_KEYWORD}, []
    for word, example in zip(own, sample["example_id"].tolist(), strict=True):
        source, drawn = generator(seed, STAGE, "random", example), None
        while nodes - {word} and drawn in (None, word, NO_KEYWORD):
            drawn = keywords[int(source.integers(len(keywords)))]
        others.append(drawn)
    negatives = frequent_negatives(own, training, keywords, graph)
    chosen = [negatives.get(word) or (negative if negative in nodes and negative != word else None)
              for word, negative in zip(own, sample["negative_keyword"].tolist(), strict=True)]
    return pd.DataFrame({"own": own, "random": others, "given": chosen}, dtype=object)


def frequent_negatives(wanted: Sequence[str], training: pd.DataFrame, keywords: Sequence[str],
                       graph: KeywordGraph) -> dict[str, str]:
    """Return the most frequent negative neighbour of each of ``wanted`` in ``graph``; ties by id.

    The frequency is counted anew from the items, since a model's graph keeps only signs.
    """
    words = sorted(set(wanted))
    targets = training[training["target_keyword"].isin(words)].groupby(["keyword", "target_keyword"]).size()
    negatives = training.dropna(subset=["negative_keyword"]).groupby(["keyword", "negative_keyword"]).size()
    pairs = targets.rename("one").reset_index().merge(negatives.rename("other").reset_index(), on="keyword")
    products = (pairs["one"] * pairs["other"]).groupby([pairs["target_keyword"], pairs["negative_keyword"]])
    counts = products.sum().to_dict()
    node = {word: number for number, word in enumerate(keywords)}
    chosen = {}
    for word in words:
        sources = graph.negative_neighbours(torch.tensor([node.get(word, -1)], device=graph.h0.device))[1].tolist()
        if sources:
            chosen[word] = keywords[min(sources, key=lambda source: (-counts.get((word, keywords[source]), 0), source))]
    return chosen


def swapped(paraphraser: Paraphraser, sample: pd.DataFrame, choices: pd.DataFrame, decode: Mapping[str, Any],
            seed: int) -> pd.DataFrame:
    """Return rows of table ``keyword_swap``; a model without keyword has one output per item, choice ``own``."""
    uses = paraphraser.uses_keyword
    frames = []
    for choice in CHOICES if uses else CHOICES[:1]:
        available = choices[choice].notna().to_numpy()
        if available.any():
            items = sample[available].assign(keyword=choices[choice][available].to_numpy())
            outputs = pd.concat(list(paraphraser.rewrite(items, decode, seed)), ignore_index=True)
            target = items.set_index("example_id")["target"]
            frames.append(outputs[["example_id", "keyword", "keyword_known", "source", "prediction"]].assign(
                choice=choice, reference=target.loc[outputs["example_id"]].to_numpy())[outputs["sample"] == 0])
    table = pd.concat(frames, ignore_index=True)
    if not uses:
        table["keyword"] = None
    own = table[table["choice"] == "own"].set_index("example_id")["prediction"]
    table["same_as_own"] = table["prediction"].to_numpy() == own.loc[table["example_id"]].to_numpy()
    table["shows_keyword"] = keyword_retention(table["prediction"].tolist(), _words(table))
    return table.sort_values(["example_id", "choice"], ignore_index=True)


def swap_measures(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return for each choice the number of items, and means over their outputs with intervals.

    Outputs are compared with those under the input's own keyword; ``share_shows_unasked`` is the share of the latter
    that show the other keyword.
    """
    own = table[table["choice"] == "own"].set_index("example_id")["prediction"]
    measures: dict[str, dict[str, Any]] = {}
    for choice in CHOICES:
        rows = table[table["choice"] == choice]
        before, keywords = own.loc[rows["example_id"]].tolist(), _words(rows)
        values = {"share_changed": (~rows["same_as_own"].astype(bool)).to_numpy(),
                  "edit_distance": np.array(list(map(edit_distance, before, rows["prediction"]))),
                  "share_shows_keyword": rows["shows_keyword"].dropna().to_numpy(dtype=bool),
                  "share_shows_unasked": pd.Series(keyword_retention(before, keywords),
                                                   dtype=object).dropna().to_numpy(dtype=bool)}
        measures[choice] = {"items": len(rows),
                            **{name: float(value.mean()) if len(value) else None for name, value in values.items()},
                            "intervals": {name: mean_interval(value) for name, value in values.items()}}
    return measures


def edit_distance(left: str, other: str) -> float:
    """Return the Levenshtein distance of two texts in basic tokens, over the length of the longer one."""
    from nltk.metrics.distance import edit_distance as levenshtein  # a second to import

    first, second = basic_tokens(left), basic_tokens(other)
    return float(levenshtein(first, second)) / max(len(first), len(second), 1)


def _words(rows: pd.DataFrame) -> list[str | None]:
    return [word if isinstance(word, str) else None for word in rows["keyword"]]


def _write(probe: str, probed: Probed, provenance: Provenance) -> None:
    paths = ProbePaths(probe)
    write_table(paths.table("latent"), LATENT, probed.latent, provenance)
    write_table(paths.table("keyword_swap"), KEYWORD_SWAP, probed.swap, provenance)
    with atomic_folder(paths.figures) as folder:
        (folder / f"{latent_space.NAME}.svg").write_text(probed.plot.svg, encoding="utf-8")
    write_json(paths.metrics, rounded(probed.metrics))


def _work(process: StageProcess) -> None:
    params = process.params
    model = params.probes.hcl[process.instance].model
    paths = ModelPaths(model, params.model_seeds(model)[0])
    seed_everything(params.seed, params.runtime.threads, params.runtime.deterministic, params.runtime.tf32)
    items = read_frame(paths.items, ITEMS)
    with computing(params.runtime) as device:
        settings: Any = SimpleNamespace(**params.probe_hcl)  # one of them is called `items`
        probed = run(model, Paraphraser(paths.weights, device), items, settings, GenerateHcl().plain(), params.seed)
    _write(process.instance, probed, Provenance(
        process.name, process.params_hash,
        {"model": {"name": paths.weights.as_posix(), "sha256": sha256_of(paths.weights / "model.safetensors")}},
        fallbacks=[f"{kind}: {reason}" for kind, reason in probed.metrics["latent"]["left_out"].items()],
        precision=computed_in(params.runtime.precision, params.runtime.tf32)))
    write_manifest(process, "probes", [ProbePaths(process.instance).folder])


main = partial(run_stage, STAGE, _work, instance="PROBE")
