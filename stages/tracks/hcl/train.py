"""Train an HCL model, or one of its ablations (METHODS A.3-A.9).

Reads the examples, texts, keywords and keyword graph of the model's data set, and the model that it starts from, if
any; writes the model in Hugging Face layout, its training history and metrics, and the items that it was trained and
will be evaluated on. With runtime.processes above 1, or under torchrun, several processes share the micro-batches.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

import models
import models.precision
from models.encoders import freeze_lower_layers, load_encoder, special_ids
from models.hcl import HclConfig, HclModel, KeywordGraph
from models.hcl.objective import annealing_end
from models.hcl.warm_start import InitReport, init_from
from models.training import Bar, CheckpointStore, fit
from models.training.parallel import place
from stages import encoders
from stages.artifacts.paths import DatasetPaths, ModelPaths
from stages.artifacts.tables import Provenance, read_frame
from stages.encoders import ResolvedEncoder, resolve_encoder
from stages.runtime.device import choose_device
from stages.runtime.distributed import process_group
from stages.runtime.errors import InputError
from stages.runtime.fingerprint import hash_files, hash_values, sha256_of
from stages.runtime.memory import keep_freed_memory
from stages.runtime.precision import settled_precision
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.seeds import derived_seed, seed_everything
from stages.runtime.training import (
    loop_settings,
    open_checkpoints,
    processes,
    training_bar,
    training_record,
    warn_of_idle_processes,
)
from stages.tracks import hcl
from stages.tracks.hcl.batches import TripleBatches
from stages.tracks.hcl.items import joined_items
from stages.tracks.hcl.lookup import TrainedOn, UnseenKeywords, load_lookup
from stages.tracks.hcl.task import HclTask, ValidationNoise
from stages.tracks.hcl.trained import TrainedHcl, model_card, training_metrics, write_trained

STAGE = "train_hcl"
TABLES = ("examples", "texts", "keywords", "nodes", "edges", "node_vectors")
# A checkpoint goes on only under the code that began it.
_PACKAGES = (hcl, models.hcl, models.losses, models.training)
_CODE = (Path(__file__), Path(encoders.__file__),
         *(Path(str(module.__file__)) for module in (models.encoders, models.bert, models.attention, models.precision)),
         *(Path(str(package.__file__)).parent for package in _PACKAGES))


def run(items: pd.DataFrame, graph: KeywordGraph, values: Mapping[str, Any], encoder: ResolvedEncoder,
        unseen: UnseenKeywords, seed: int, store: CheckpointStore, device: str = "cpu",
        open_bar: Callable[[int, int], Bar] | None = None, start: HclModel | None = None) -> TrainedHcl:
    """Train a model on the training items and keep the epoch of smallest validation loss.

    Args:
        items: from :func:`stages.tracks.hcl.items.joined_items`, all splits.
        graph: nodes, edges and initial vectors.
        values: plain values of the block ``train_hcl`` with the model's overrides.
        encoder: pre-trained encoder to start from.
        unseen: gives initial vectors to keywords outside the graph.
        seed: fans out by name into weights, order, dropout and noise.
        store: keeps the training's state.
        device: ``cpu`` or ``cuda``.
        open_bar: given steps in all and done, returns a progress bar.
        start: trained model whose weights this one takes over where both have them.

    Raises:
        InputError: no training or no validation item, more layers to freeze than there are, or a ``start`` of
            other sizes.
    """
    training, latent = values["training"], values["latent"]
    tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    batches = {split: _batches(items, split, tokenizer, training) for split in ("train", "validation")}
    torch.manual_seed(derived_seed(seed, STAGE, "weights"))
    model = _model(values, encoder, tokenizer, graph, batches["train"].mean_target_length)
    report = _begun(model, start)
    nn.Module.to(model, device)
    settings = loop_settings(training)
    total = settings.total_steps(len(batches["train"]))
    annealing, cycles = annealing_steps(latent, total), latent["annealing_cycles"]
    validation = items[items["split"] == "validation"]
    noise = ValidationNoise(_noise(batches["validation"], seed, latent["size"]), unseen.vectors(validation))
    task = HclTask(model, batches["train"], batches["validation"], noise, training, annealing, cycles,
                   report.copied if report is not None else ())
    # Under annealing the selecting loss rises by itself, so patience starts after it.
    settings = replace(settings, patience_from=annealing_end(annealing, cycles, total))
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    return TrainedHcl(model, items, history, report)


def annealing_steps(latent: Mapping[str, Any], total_steps: int) -> int:
    """Return the steps over which beta rises to 1: the smaller of a count and a share of all (METHODS A.5)."""
    return min(latent["annealing_steps"], round(latent["annealing_share"] * total_steps))


def _batches(items: pd.DataFrame, split: str, tokenizer: PreTrainedTokenizerBase,
             training: Mapping[str, Any]) -> TripleBatches:
    chosen = items[items["split"] == split]
    if chosen.empty:
        raise InputError(f"examples.parquet: the {split} split is empty. Give more data, or a larger share "
                         f"(ingest.validation).")
    return TripleBatches(chosen, tokenizer, training["max_source"], training["max_target"], training["keep"])


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


def _begun(model: HclModel, start: HclModel | None) -> InitReport | None:
    if start is None:
        return None
    try:
        return init_from(model, start)
    except ValueError as error:
        raise InputError(f"models.hcl: {error}.") from error


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


def _start(name: str | None) -> tuple[HclModel | None, dict[str, Any]]:
    """Return the model called ``name`` and its description; nothing for None.

    Raises:
        InputError: it is not trained yet.
    """
    if name is None:
        return None, {}
    folder = ModelPaths(name).weights
    load_lookup(folder)
    description = {"name": name, "sha256": sha256_of(folder / "model.safetensors")}
    return HclModel.from_pretrained(folder), {"init_from": description}


def _work(process: StageProcess) -> None:
    params, name = process.params, process.instance
    model = params.models.hcl[name]
    paths = DatasetPaths(model.dataset)
    tables = {kind: read_frame(paths.table(kind), kind) for kind in TABLES}
    items = joined_items(tables["examples"], tables["texts"], tables["keywords"], tables["nodes"])
    values, seed = params.model(name).plain(), params.model_seed(name)
    seed_everything(derived_seed(seed, STAGE), params.runtime.threads, params.runtime.deterministic,
                    params.runtime.tf32)
    encoder, (start, described) = resolve_encoder(params.encoder.source), _start(model.init_from)
    on = TrainedOn(dataset=model.dataset, encoder_source=params.encoder.source, encoder=encoder.description,
                   pooling=params.node_vectors.pooling, max_length=params.node_vectors.max_length,
                   language=str(tables["texts"]["language"].iloc[0]),
                   **{name: values["training"][name] for name in ("max_source", "max_target", "keep")})
    key = hash_values({**process.computed_values, "data": hash_files(paths.table(kind) for kind in TABLES),
                       "code": hash_files(_CODE), "encoder": encoder.description, "torch": torch.__version__,
                       **described})
    graph = keyword_graph(tables["nodes"], tables["edges"], tables["node_vectors"])
    with process_group(choose_device(params.runtime.device)) as device:
        precision = settled_precision(device, params.runtime, values["training"], f"{STAGE}.training")
        store, count = open_checkpoints(process, key, params.runtime.checkpoint_minutes), place()[1]
        warn_of_idle_processes(process, values["training"], count)
        trained = run(items, graph, values, encoder, UnseenKeywords(on), seed, store, device, training_bar(process),
                      start)
    if not process.first:
        return
    _say_alarms(process, trained)
    provenance = Provenance(process.name, process.params_hash,
                            {"encoder": encoder.description, **described}, precision=precision)
    trained.model.config.computed_in = precision
    card = model_card(name, trained, on, values, model.init_from)
    keywords = tables["nodes"].sort_values("node_id")["keyword"].tolist()
    write_trained(name, trained, card, on, keywords, encoder, provenance)
    process.measured["training"] = training_record(trained.history, precision, device, count)
    store.clear()


def _say_alarms(process: StageProcess, trained: TrainedHcl) -> None:
    for alarm in training_metrics(trained)["alarms"]:
        process.log.warning("%s: alarm %s since epoch %s: %s. What to try: %s.", process.name, alarm["name"],
                            alarm["epoch"], alarm["message"], alarm["advice"])


def main(argv: list[str] | None = None) -> int:
    """Train the model named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="MODEL", processes=processes)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
