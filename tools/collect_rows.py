"""Collect the results of the rows of a recipe: items in Parquet, without their texts, and values in CSV.

    python tools/collect_rows.py metrics/evidence

Run it in a project that uses the recipe. It collects the rows that were trained with its params and are evaluated.
FOLDER/RECIPE.parquet has a row for each run, seed and evaluated item, with all scores of the item. The PGKPR track also
has `released_sum_0` to 9 (the released BLEU is computed from their sums over items). The HCL track also has `nll` and
`tokens`; whether the output has the target's keyword (`target_keyword_kept`); whether that keyword is in the graph but
not in the source (`told`); whether it also is a positive neighbour of the source's keyword (`reachable`); and whether
training has the target's text (`target_seen`).

Scores of items have five decimals. FOLDER/RECIPE.csv has the values of each run and seed, how its training ended, and
the commit that was checked out. Runs and seeds of these files that this project does not have, because they were
trained elsewhere, are kept.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from keycontrast.errors import InputError
from keycontrast.files import atomic_file
from stages.common.paths import DatasetPaths, ModelPaths, RunPaths
from stages.common.schemas import EDGES, NO_KEYWORD, NODES
from stages.common.settings import read_params, stage_hash
from stages.common.tables import read_frame, read_metadata
from stages.metrics.bleu import corpus_columns, count_matches
from stages.metrics.tokens import keyword_retention
from stages.tracks.common.schemas import ITEMS, LIKELIHOODS
from stages.tracks.registry import TRACKS, track_of_run


def told_items(model: ModelPaths, dataset: str) -> pd.DataFrame:
    """Return the keyword of each item's target, whether it is `reachable` and `told`, and the target in training."""
    items, paths = read_frame(model.items, ITEMS), DatasetPaths(dataset)
    nodes, edges = (read_frame(paths.table(schema.name), schema) for schema in (NODES, EDGES))
    names = nodes.set_index("node_id")["keyword"]
    positive = edges[edges["sign"] == 1]
    known = pd.MultiIndex.from_arrays([positive["target"].map(names), positive["source"].map(names)])
    pairs = pd.MultiIndex.from_frame(items[["keyword", "target_keyword"]])
    new = np.array([not kept for kept in keyword_retention(items["source"].tolist(), items["target_keyword"].tolist())])
    told = new & items["target_keyword"].isin(names) & (items["target_keyword"] != NO_KEYWORD)
    reachable = told & pairs.isin(known) & (items["keyword"] != items["target_keyword"])
    train = items[items["split"] == "train"]
    seen = items["target"].isin({*train["source"], *train["target"]})
    return items[["example_id", "target_keyword"]].assign(reachable=reachable, told=told, target_seen=seen)


def items_of(params: Any, run: RunPaths, model: ModelPaths) -> pd.DataFrame:
    """Return the scores of the evaluated items of a run under one seed, without texts."""
    track = track_of_run(params, run.name)
    scores = read_frame(run.table("scores"), track.schemas["scores"])
    scores = scores[scores["system"] == "run"]
    if track.name == "hcl":
        told = told_items(model, params.models.hcl[model.name].dataset)
        scores = scores.merge(read_frame(run.generated("likelihoods"), LIKELIHOODS)).merge(told)
        scores["target_keyword_kept"] = keyword_retention(scores["output"].tolist(), scores["target_keyword"].tolist())
    if track.name == "pgkpr":
        words = scores["released_output"].str.split().tolist()
        references = [[text.split() for text in item] for item in scores["released_references"]]
        sums = corpus_columns(count_matches(words, references))
        scores = scores.join(pd.DataFrame(sums, index=scores.index).add_prefix("released_sum_"))
    texts = [name for name in scores if name.endswith(("output", "references", "text", "target_keyword"))]
    return scores.drop(columns=["system", *texts])


def values_of(run: RunPaths, model: ModelPaths) -> list[dict[str, Any]]:
    """Return the values of a run under one seed with their intervals, and how the training of its model ended."""
    metrics, trained = (json.loads(path.metrics.read_text(encoding="utf-8")) for path in (run, model))
    intervals = metrics["intervals"]["run"]
    rows = [{"metric": name, "value": value, **dict(zip(("low", "high"), intervals.get(name, ()), strict=False))}
            for name, value in metrics["run"].items() if isinstance(value, int | float)]
    epochs = len(pd.read_csv(model.history))
    return [*rows, {"metric": "epochs", "value": epochs}, {"metric": "best_epoch", "value": trained["best_epoch"]}]


def joined(file: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a file whose run and seed are not in ``rows``, and then those."""
    if not file.exists():
        return rows
    before = pd.read_csv(file, dtype={"commit": str}) if file.suffix == ".csv" else pd.read_parquet(file)
    new = pd.MultiIndex.from_frame(rows[["row", "seed"]])
    return pd.concat([before[~pd.MultiIndex.from_frame(before[["row", "seed"]]).isin(new)], rows], ignore_index=True)


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder, params = parser.parse_args().folder, read_params()
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], check=True, capture_output=True,
                            text=True).stdout.strip()
    items, values = [], []
    for track in TRACKS.values():
        for name in track.runs(params):
            for seed in params.run_seeds(name):
                run, model = RunPaths(name, seed), ModelPaths(params.run_model(name), seed)
                if not (run.metrics.exists() and model.metrics.exists()):
                    continue
                trained_with = read_metadata(model.items)["params_hash"]
                if trained_with == stage_hash(params.plain(), track.trained_by, model.name, seed):
                    items.append(items_of(params, run, model).assign(row=name, seed=seed))
                    values.append(pd.DataFrame(values_of(run, model)).assign(row=name, seed=seed, commit=commit))
    if not items:
        sys.exit("collect_rows: no run of the params is evaluated here")
    of_items, of_runs = (folder / f"{params['recipe']}.{kind}" for kind in ("parquet", "csv"))
    with atomic_file(of_items) as file:
        kept = joined(of_items, pd.concat(items)).round(5)
        kept.astype(dict.fromkeys(kept.select_dtypes("float64"), "float32")).to_parquet(
            file, compression="zstd", compression_level=19, index=False)
    with atomic_file(of_runs) as file:
        columns = ["row", "seed", "metric", "value", "low", "high", "commit"]
        joined(of_runs, pd.concat(values))[columns].to_csv(file, index=False, float_format="%.6g")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"collect_rows: {error}")
