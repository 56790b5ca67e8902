"""HCL and its ablations (Table 2): a CVAE over a pre-trained encoder and the keyword graph, with contrasts."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from models.common.encoders import freeze_lower_layers, load_encoder, special_ids
from models.common.training import CheckpointStore, fit
from models.hcl.config import HclConfig
from models.hcl.graph import KeywordGraph
from models.hcl.model import HclModel, InitReport, init_from
from stages.common.columns.clusters import CLUSTERS
from stages.common.columns.graph import EDGES, NODE_VECTORS, TEXT_VECTORS
from stages.common.columns.items import EXAMPLES
from stages.common.columns.keywords import KEYWORDS
from stages.common.encoders import resolve_encoder
from stages.common.seeds import derived_seed
from stages.common.tables import read_frame, read_metadata, read_table
from stages.common.training import loop_settings
from stages.tracks.common.starts import GivenStart, Start
from stages.tracks.common.trained import ModelFolder
from stages.tracks.common.training import OpenBar, Training
from stages.tracks.hcl.architecture import TABLES, Architecture, HclRow
from stages.tracks.hcl.batches import TripleBatches
from stages.tracks.hcl.lookup import TrainedOn, UnseenKeywords, load_lookup, notes_of
from stages.tracks.hcl.sight import GraphTables, Sight, sight_of
from stages.tracks.hcl.starts import read_start
from stages.tracks.hcl.task import HclTask, ValidationNoise
from stages.tracks.hcl.trained import TrainedHcl, items_table, training_card, training_metrics

# Names the seeds of what is drawn.
STAGE = "train_hcl"
_GRAPH = (EDGES, NODE_VECTORS)
_HIDING = (CLUSTERS, TEXT_VECTORS)


def prepared(row: HclRow) -> Training[TrainedHcl]:
    """Return the training of ``row``.

    Raises:
        InputError: encoder, graph or the model that it starts from is not to be had.
    """
    encoder = resolve_encoder(row.encoder)
    start, described = _start(row.init_from, encoder)
    training = row.values["training"]
    on = TrainedOn(dataset=row.paths.name, language=row.language, encoder_source=row.encoder,
                   encoder=encoder.description, pooling=row.node_vectors["pooling"],
                   max_length=row.node_vectors["max_length"],
                   keywords=read_metadata(row.paths.table("keywords")).get("models", {}),
                   **{name: training[name] for name in ("max_source", "max_target", "keep")})
    graph = keyword_graph(row.nodes, *(read_frame(row.paths.table(schema.name), schema) for schema in _GRAPH))
    return Training("hcl", training,
                    [row.paths.table(schema.name) for schema in (*TABLES, *_GRAPH, *_HIDING)],
                    partial(run, row.items, graph, row.values, encoder, UnseenKeywords(on), row.seed, start=start,
                            sight=_sight(row, graph)),
                    partial(_folder, row, on, encoder), {"encoder": encoder.description, **described})


def run(items: pd.DataFrame, graph: KeywordGraph, values: Mapping[str, Any], encoder: ResolvedEncoder,
        unseen: UnseenKeywords, seed: int, store: CheckpointStore, device: str = "cpu",
        open_bar: OpenBar | None = None, start: HclModel | None = None, sight: Sight | None = None) -> TrainedHcl:
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
        sight: what the training items see of the graph; None for the whole.

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
    settings = loop_settings({**training, "bucket": True})
    total = settings.total_steps(len(batches["train"]))
    annealing = annealing_steps(latent, total)
    validation = items[items["split"] == "validation"]
    noise = ValidationNoise(_noise(batches["validation"], seed, latent["size"]), unseen.vectors(validation))
    task = HclTask(model, batches["train"], batches["validation"], noise, training, annealing,
                   report.copied if report is not None else (), sight)
    # Under annealing the selecting loss rises by itself, so patience starts after it.
    settings = replace(settings, patience_from=annealing)
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    return TrainedHcl(model, items, history, report, sight)


def _sight(row: HclRow, graph: KeywordGraph) -> Sight | None:
    """Return what the training items see of the graph; None where that is all of it, and no keyword is dropped."""
    settings = row.values["graph"]
    if settings["own_edges"] == "leaking" and not settings["kw_dropout"]:
        return None
    examples, keywords, clusters = (read_frame(row.paths.table(schema.name), schema)
                                    for schema in (EXAMPLES, KEYWORDS, CLUSTERS))
    tables = GraphTables(examples, keywords, row.nodes, clusters,
                         read_table(row.paths.table(TEXT_VECTORS.name), TEXT_VECTORS))
    return sight_of(row.items, graph, tables, row.graph, settings, derived_seed(row.seed, STAGE, "kw_dropout"))


def annealing_steps(latent: Mapping[str, Any], total_steps: int) -> int:
    """Return the steps over which beta rises to 1: the smaller of a count and a share of all."""
    return min(latent["annealing_steps"], round(latent["annealing_share"] * total_steps))


def _batches(items: pd.DataFrame, split: str, tokenizer: PreTrainedTokenizerBase,
             training: Mapping[str, Any]) -> TripleBatches:
    chosen = items[items["split"] == split]
    if chosen.empty:
        raise InputError(f"table examples: the {split} split is empty. Give more data, or a larger share "
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
        raise InputError("table node_vectors does not have the nodes of table nodes. Run the stages graph and "
                         "node_vectors again.")
    columns = [torch.from_numpy(edges[name].to_numpy(copy=True)) for name in ("target", "source", "sign")]
    return KeywordGraph.from_edges(torch.from_numpy(np.stack(vectors["vector"].to_numpy())), *columns)


def _start(paths: Start | None, encoder: ResolvedEncoder) -> tuple[HclModel | None, dict[str, Any]]:
    """Return a trained model and its description; nothing for None.

    Raises:
        InputError: it is not trained yet, or is not to be had.
    """
    if paths is None:
        return None, {}
    if isinstance(paths, GivenStart):
        return read_start(paths, encoder)
    folder = paths.weights
    load_lookup(folder)
    description = {"name": paths.name, "sha256": sha256_of(folder / "model.safetensors")}
    return HclModel.from_pretrained(folder), {"init_from": description}


def _folder(row: HclRow, on: TrainedOn, encoder: ResolvedEncoder, trained: TrainedHcl) -> ModelFolder:
    metrics = training_metrics(trained)
    keywords = row.nodes.sort_values("node_id")["keyword"].tolist()
    remarks = [f"alarm {alarm['name']} since epoch {alarm['epoch']}: {alarm['message']}. What to try: "
               f"{alarm['advice']}." for alarm in metrics["alarms"]]
    start = None if row.init_from is None else row.init_from.name
    return ModelFolder(training_card(row.name, trained, on, row.values, start), notes_of(keywords, on),
                       [items_table(trained.items)], metrics, AutoTokenizer.from_pretrained(encoder.location),
                       remarks=remarks)


ARCHITECTURE = Architecture("hcl", "HCL", prepared)
