"""Train an HCL model, or one of its ablations (METHODS A.3-A.9).

Reads the examples, texts, keywords and keyword graph of the model's data set; writes the model in Hugging Face
layout, its training history, and the items that it was trained and will be evaluated on.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

import models
from models.encoders import freeze_lower_layers, load_encoder, special_ids
from models.hcl import HclConfig, HclModel, KeywordGraph
from models.training import Bar, CheckpointStore, History, Settings, fit
from stages import encoders, graphs, hcl
from stages.artifacts.paths import DatasetPaths, ModelPaths
from stages.artifacts.tables import Provenance, atomic_file, atomic_folder, read_frame, write_table
from stages.encoders import ResolvedEncoder, resolve_encoder
from stages.hcl.batches import TripleBatches
from stages.hcl.items import joined_items
from stages.hcl.lookup import TrainedOn, UnseenKeywords, save_lookup
from stages.hcl.task import HclTask, ValidationNoise
from stages.runtime.checkpoints import FolderCheckpoints
from stages.runtime.device import choose_device
from stages.runtime.errors import InputError
from stages.runtime.fingerprint import hash_files, hash_values
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.progress import progress_bar
from stages.runtime.seeds import derived_seed, seed_everything

STAGE = "train_hcl"
TABLES = ("examples", "texts", "keywords", "nodes", "edges", "node_vectors")
# A checkpoint goes on only under the code that began it.
_PACKAGES = (graphs, hcl, models.hcl, models.losses, models.training)
_CODE = (Path(__file__), Path(encoders.__file__), Path(str(models.encoders.__file__)),
         *(Path(str(package.__file__)).parent for package in _PACKAGES))


@dataclass(frozen=True)
class TrainedHcl:
    """What :func:`run` makes."""

    model: HclModel
    items: pd.DataFrame
    history: History


def run(items: pd.DataFrame, graph: KeywordGraph, values: Mapping[str, Any], encoder: ResolvedEncoder,
        unseen: UnseenKeywords, seed: int, store: CheckpointStore, device: str = "cpu",
        open_bar: Callable[[int, int], Bar] | None = None) -> TrainedHcl:
    """Train a model on the training items and keep the epoch of smallest validation loss.

    Args:
        items: from :func:`stages.hcl.items.joined_items`, all splits.
        graph: nodes, edges and initial vectors.
        values: plain values of the block ``train_hcl`` with the model's overrides.
        encoder: pre-trained encoder to start from.
        unseen: gives initial vectors to keywords outside the graph.
        seed: fans out by name into weights, order, dropout and noise.
        store: keeps the training's state.
        device: ``cpu`` or ``cuda``.
        open_bar: given steps in all and done, returns a progress bar.

    Raises:
        InputError: no training or no validation item, or more layers to freeze than there are.
    """
    training = values["training"]
    tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    batches = {split: _batches(items, split, tokenizer, training) for split in ("train", "validation")}
    torch.manual_seed(derived_seed(seed, STAGE, "weights"))
    model = _model(values, encoder, tokenizer, graph, batches["train"].mean_target_length)
    nn.Module.to(model, device)
    settings = Settings(
        epochs=training["epochs"], batch_size=training["batch_size"], micro_batch=training["micro_batch"],
        warmup=training["warmup"], clip=training["clip"], patience=training["patience"],
        checkpoint_steps=training["checkpoint_steps"])
    annealing = annealing_steps(values["latent"], settings.total_steps(len(batches["train"])))
    validation = items[items["split"] == "validation"]
    noise = ValidationNoise(_noise(batches["validation"], seed, values["latent"]["size"]), unseen.vectors(validation))
    task = HclTask(model, batches["train"], batches["validation"], noise, training, annealing)
    # Under annealing the selecting loss rises by itself, so patience starts after it.
    settings = replace(settings, patience_from=annealing)
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    return TrainedHcl(model, items, history)


def annealing_steps(latent: Mapping[str, Any], total_steps: int) -> int:
    """Return the steps over which beta rises to 1: the smaller of a count and a share of all (METHODS A.5)."""
    return min(latent["annealing_steps"], round(latent["annealing_share"] * total_steps))


def _batches(items: pd.DataFrame, split: str, tokenizer: PreTrainedTokenizerBase,
             training: Mapping[str, Any]) -> TripleBatches:
    chosen = items[items["split"] == split]
    if chosen.empty:
        raise InputError(f"examples.parquet: the {split} split is empty. Give more data, or a larger share "
                         f"(ingest.validation).")
    return TripleBatches(chosen, tokenizer, training["max_source"], training["max_target"])


def _model(values: Mapping[str, Any], encoder: ResolvedEncoder, tokenizer: PreTrainedTokenizerBase,
           graph: KeywordGraph, mean_target_length: float) -> HclModel:
    pretrained, _ = load_encoder(encoder.location, pretrained=encoder.pretrained)
    config = HclConfig.from_params(values, pretrained.config, special_ids(tokenizer), graph.num_nodes,
                                   graph.num_edges, mean_target_length)
    model = HclModel.from_parts(config, pretrained, graph)
    try:
        freeze_lower_layers(model.encoder, values["training"]["freeze_layers"])
    except ValueError as error:
        raise InputError(f"train_hcl.training.freeze_layers: {error}.") from error
    return model


def _noise(batches: TripleBatches, seed: int, size: int) -> Tensor:
    rows = []
    for example in batches.example_ids:
        source = torch.Generator().manual_seed(derived_seed(seed, STAGE, "eps", example))
        rows.append(torch.randn(size, generator=source))
    return torch.stack(rows)


def keyword_graph(nodes: pd.DataFrame, edges: pd.DataFrame, node_vectors: pd.DataFrame) -> KeywordGraph:
    """Return the graph of tables ``nodes``, ``edges`` and ``node_vectors`` as tensors.

    Raises:
        InputError: the tables are of different runs.
    """
    vectors = node_vectors.sort_values("node_id")
    if vectors["node_id"].tolist() != sorted(nodes["node_id"]):
        raise InputError("node_vectors.parquet does not have the nodes of nodes.parquet. Run the stages graph and "
                         "node_vectors again.")
    columns = [torch.from_numpy(edges[name].to_numpy(copy=True)) for name in ("target", "source", "sign")]
    return KeywordGraph.from_edges(torch.from_numpy(np.stack(vectors["vector"].to_numpy())), *columns)


def _card(name: str, trained: TrainedHcl, on: TrainedOn, values: Mapping[str, Any]) -> str:
    best = ", ".join(f"{key} {value:.4f}" for key, value in trained.history.best.items())
    counts = trained.items["split"].value_counts()
    return f"""---
library_name: transformers
pipeline_tag: text-generation
---
# HCL model {name}

Rewrites a sentence under the guidance of its keyword (Keywords and Instances, ACL 2022). Trained by Keycontrast on the
data set `{on.dataset}`: {counts.get("train", 0)} triples, {counts.get("validation", 0)} for selection.

- Encoder at the start: {on.encoder["name"]} (version {on.encoder["version"]}, sha256 {on.encoder["sha256"]})
- Best epoch {trained.history.best_epoch} of {values["training"]["epochs"]}: {best}
- Graph: {trained.model.graph.num_nodes} keywords, {trained.model.graph.num_edges} edges, self loops included
- `config.json` holds the settings, `keywords.json` the keyword of each node, `trained_on.json` where it came from

Use it with `keycontrast predict RUN "a sentence"`, or `models.hcl.HclModel.from_pretrained(FOLDER).paraphrase(...)`.
"""


def _write(name: str, trained: TrainedHcl, on: TrainedOn, keywords: list[str], encoder: ResolvedEncoder,
           values: Mapping[str, Any], provenance: Provenance) -> None:
    paths = ModelPaths(name)
    with atomic_folder(paths.weights) as folder:
        nn.Module.to(trained.model, "cpu")
        trained.model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(encoder.location).save_pretrained(folder)
        save_lookup(folder, keywords, on)
        (folder / "README.md").write_text(_card(name, trained, on, values), encoding="utf-8")
    with atomic_file(paths.history) as file:
        pd.DataFrame(trained.history.rows).to_csv(file, index=False, float_format="%.9g", lineterminator="\n")
    columns = ["example_id", "split", "source", "keyword", "references"]
    write_table(paths.items, "items", trained.items[columns], provenance)


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash, stage_values

    params, name = load_params(), process.instance
    model = params.models.hcl[name]
    paths = DatasetPaths(model.dataset)
    tables = {kind: read_frame(paths.table(kind), kind) for kind in TABLES}
    items = joined_items(tables["examples"], tables["texts"], tables["keywords"], tables["nodes"])
    values, seed = params.hcl_model(name).model_dump(), params.model_seed(name)
    seed_everything(derived_seed(seed, STAGE), params.runtime.threads, params.runtime.deterministic)
    encoder = resolve_encoder(params.encoder.source)
    on = TrainedOn(dataset=model.dataset, encoder_source=params.encoder.source, encoder=encoder.description,
                   pooling=params.node_vectors.pooling, max_length=params.node_vectors.max_length,
                   max_source=values["training"]["max_source"], language=str(tables["texts"]["language"].iloc[0]))
    key = hash_values({**stage_values(params, STAGE, name), "data": hash_files(paths.table(kind) for kind in TABLES),
                       "code": hash_files(_CODE), "encoder": encoder.description, "torch": torch.__version__})
    store = FolderCheckpoints(process.scratch, key)
    graph = keyword_graph(tables["nodes"], tables["edges"], tables["node_vectors"])
    trained = run(items, graph, values, encoder, UnseenKeywords(on), seed, store,
                  choose_device(params.runtime.device),
                  lambda total, done: progress_bar(process.name, total, "step", done))
    provenance = Provenance(process.name, stage_hash(params, STAGE, name), {"encoder": encoder.description})
    _write(name, trained, on, tables["nodes"].sort_values("node_id")["keyword"].tolist(), encoder, values, provenance)
    store.clear()


def main(argv: list[str] | None = None) -> int:
    """Train the model named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="MODEL")


if __name__ == "__main__":
    sys.exit(main())
