"""Train a model of the HCL table: HCL, one of its ablations, or a baseline on the same items."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from models.common.encoders import freeze_lower_layers, special_ids
from models.common.task import Parameters, Step, Task, batches_in_order
from models.common.training import CheckpointStore, History, fit
from models.hcl import hcl
from models.hcl.graph import KeywordGraph
from models.hcl.hcl import HclConfig
from models.hcl.model import HclModel, InitReport, init_from
from models.hcl.monitors import Validation, find_alarms, leak_of_graph
from stages.common.encoders import resolve_encoder
from stages.common.paths import DatasetPaths
from stages.common.schemas import CLUSTERS, EDGES, NODE_VECTORS, TEXT_VECTORS
from stages.common.seeds import derived_seed
from stages.common.settings import GIVEN
from stages.common.tables import read_frame, read_metadata, read_table
from stages.common.training import loop_settings, processes
from stages.run.process import run_stage
from stages.tracks.common import training as common
from stages.tracks.common.frame import split_of
from stages.tracks.common.training import OpenBar, SeedTraining
from stages.tracks.hcl import baselines, data
from stages.tracks.hcl.data import STAGE, TABLES, TrainedOn, TripleBatches, UnseenKeywords, conditioned
from stages.tracks.hcl.export import read_start
from stages.tracks.hcl.item_views import GraphTables, ItemViews, leaks, views_of_items

_GRAPH = (EDGES, NODE_VECTORS, CLUSTERS, TEXT_VECTORS)
_OF_PLAN = ("view", "unseen_vectors")  # tensors of a training batch that only its plan reads
_SEEN = 256  # training items whose KL is compared with that of validation items
_CHUNK = 4096  # items whose impostors are looked up at once: bounds memory


@dataclass(frozen=True)
class TrainedHcl:
    """The model of the best epoch, and the record of its start and training."""

    model: HclModel
    items: pd.DataFrame
    history: History
    start: InitReport | None = None
    item_views: ItemViews | None = None


def train_model(job: SeedTraining) -> None:
    """Train a row of HCL's table under one seed, and save it."""
    params, model, values = job.params, job.params.models.hcl[job.name], job.params.model(job.name).plain()
    paths, training = DatasetPaths(model.dataset), values["training"]
    examples, texts, keywords, nodes = (read_frame(paths.table(schema.name), schema) for schema in TABLES)
    items = data.joined_items(examples, texts, keywords, nodes)
    own = values.get(values["architecture"])  # an architecture of `transformers` may begin with a folder's weights
    start = (None if own is not None and own.get("source") == f"{GIVEN}{model.init}" else
             common.start_of(model, params, job.name, job.seed))
    if values["architecture"] != "hcl":
        baselines.train_baseline(job, values, items, start)
        return
    encoder = resolve_encoder(params.encoder.source)
    initial, described = None, dict[str, Any]()
    if start is not None and start.given:
        initial, described = read_start(start, encoder)
    elif start is not None:
        data.load_lookup(start.folder)
        initial, described = HclModel.from_pretrained(start.folder), start.described()
    if not job.begin(training, [paths.table(schema.name) for schema in (*TABLES, *_GRAPH)],
                     {"encoder": encoder.description, **described}):
        return
    vectors = params.node_vectors
    on = TrainedOn(dataset=paths.name, language=str(texts["language"].iloc[0]), encoder_source=params.encoder.source,
                   encoder=encoder.description, pooling=vectors.pooling, max_length=vectors.max_length,
                   keywords=read_metadata(paths.table("keywords")).get("models", {}),
                   **{name: training[name] for name in ("max_source", "max_target", "keep")})
    unseen = UnseenKeywords(on)
    graph = keyword_graph(nodes, *(read_frame(paths.table(schema.name), schema) for schema in (EDGES, NODE_VECTORS)))
    views = _item_views(job, values, graph, unseen, items, GraphTables(
        examples, keywords, nodes, read_frame(paths.table(CLUSTERS.name), CLUSTERS),
        read_table(paths.table(TEXT_VECTORS.name), TEXT_VECTORS)))
    trained = run(items, graph, values, encoder, unseen, job.seed, job.store, job.device, job.open_bar, initial, views)
    metrics = training_metrics(trained)
    warnings = [f"alarm {alarm['name']} since epoch {alarm['epoch']}: {alarm['message']}. What to try: "
                f"{alarm['advice']}." for alarm in metrics["alarms"]]
    card = training_card(job.name, trained, metrics, on, training["epochs"], None if start is None else start.name)
    job.save("hcl", trained.model, trained.history, common.ModelFolder(
        card, data.notes_of(nodes.sort_values("node_id")["keyword"].tolist(), on), [data.items_table(items)], metrics,
        AutoTokenizer.from_pretrained(encoder.location), warnings=warnings))


def run(items: pd.DataFrame, graph: KeywordGraph, values: Mapping[str, Any], encoder: ResolvedEncoder,
        unseen: UnseenKeywords, seed: int, store: CheckpointStore, device: str = "cpu",
        open_bar: OpenBar | None = None, start: HclModel | None = None,
        item_views: ItemViews | None = None) -> TrainedHcl:
    """Train a model on the training items and keep the epoch of smallest validation loss."""
    training, latent = values["training"], values["latent"]
    tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    read = conditioned(items, values["keyword"]["condition"])
    cut = (training["max_source"], training["max_target"], training["keep"])
    batches = {split: TripleBatches(split_of(read, split, "examples"), tokenizer, *cut)
               for split in ("train", "validation")}
    torch.manual_seed(derived_seed(seed, STAGE, "weights"))
    model = _model(values, encoder, tokenizer, graph, batches["train"].mean_target_length)
    report = None
    if start is not None:
        try:
            report = init_from(model, start)
        except ValueError as error:
            raise InputError(f"models.hcl: {error}.") from error
    nn.Module.to(model, device)
    settings = loop_settings({**training, "bucket": True})
    steps = settings.total_steps(len(batches["train"]))
    annealing = hcl.annealed_by(latent["annealing_steps"], steps) if latent["enabled"] else 0
    fixed = {"eps": data.fixed_noise(batches["validation"].example_ids, latent["size"], seed, STAGE, "eps"),
             "unseen_vectors": unseen.vectors(read[read["split"] == "validation"])}
    task = HclTask(model, batches["train"], batches["validation"], fixed, training, annealing,
                   report.copied if report is not None else (), item_views)
    # Under annealing the selecting loss rises by itself, so patience starts after it.
    settings = replace(settings, final_from_step=annealing)
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    return TrainedHcl(model, items, history, report, item_views)


def _item_views(job: SeedTraining, values: Mapping[str, Any], graph: KeywordGraph, unseen: UnseenKeywords,
                items: pd.DataFrame, tables: GraphTables) -> ItemViews | None:
    """Return the views of the training items; None if they see the whole graph and no keyword is dropped."""
    settings, condition = values["graph"], values["keyword"]["condition"]
    if settings["own_edges"] == "leaking" and not settings["kw_dropout"]:
        return None
    read = conditioned(items, condition)
    views = views_of_items(read, graph, tables, job.params.graph.plain(), settings,
                           derived_seed(job.seed, STAGE, "kw_dropout"))
    if condition != "target":
        return views
    number, distinct = pd.factorize(read.loc[read["split"] == "train", "unseen_text"])
    return replace(views, vectors=unseen.embedded(list(distinct))[torch.from_numpy(number)])


def _model(values: Mapping[str, Any], encoder: ResolvedEncoder, tokenizer: PreTrainedTokenizerBase,
           graph: KeywordGraph, mean_target_length: float) -> HclModel:
    pretrained = baselines.bert_of(encoder.location, encoder.pretrained, values["training"])
    try:
        config = HclConfig.from_params(values, pretrained.config, special_ids(tokenizer), graph.num_nodes,
                                       graph.num_edges, mean_target_length)
    except ValueError as error:
        raise InputError(f"encoder.source: {error}.") from error
    model = HclModel.from_parts(config, pretrained, graph)
    try:
        freeze_lower_layers(model.encoder, values["training"]["freeze_layers"])
    except ValueError as error:
        raise InputError(f"train_hcl.training.freeze_layers: {error}.") from error
    return model


def keyword_graph(nodes: pd.DataFrame, edges: pd.DataFrame, node_vectors: pd.DataFrame) -> KeywordGraph:
    """Return the graph of tables ``nodes``, ``edges`` and ``node_vectors`` as tensors."""
    vectors = node_vectors.sort_values("node_id")
    if vectors["node_id"].tolist() != sorted(nodes["node_id"]):
        raise InputError("table node_vectors does not have the nodes of table nodes. Run the stages graph and "
                         "node_vectors again.")
    columns = [torch.from_numpy(edges[name].to_numpy(copy=True)) for name in ("target", "source", "sign")]
    return KeywordGraph.from_edges(torch.from_numpy(np.stack(vectors["vector"].to_numpy())), *columns)


class HclTask(Task):
    """Trains an :class:`models.hcl.model.HclModel` on triples.

    ``fixed`` holds the noise ``eps`` (n, dz) and ``unseen_vectors`` (n, d) of validation.
    """

    train: TripleBatches
    validation: TripleBatches

    def __init__(self, model: HclModel, train: TripleBatches, validation: TripleBatches, fixed: Mapping[str, Tensor],
                 settings: Mapping[str, Any], annealing_steps: int,
                 restarted: Collection[str] = (), item_views: ItemViews | None = None) -> None:
        self.module: nn.Module = model
        self.model, self.train, self.validation, self.fixed = model, train, validation, fixed
        self.settings, self.annealing_steps = settings, annealing_steps
        self.restarted = frozenset(restarted)
        self.item_views = item_views if model.config.uses_keyword else None
        self.planner = model.planner(item_views.views if item_views is not None else None)
        chunks = zip(train.nodes["ky"].split(_CHUNK), train.nodes["kneg"].split(_CHUNK), strict=True)
        self.has_impostor = torch.cat([self.planner.impostors(of_y, of_neg)[2] for of_y, of_neg in chunks])

    def parameter_groups(self) -> Sequence[Parameters]:
        """Return the parameters of the encoder, those copied from another model, and all others, each with its rate."""
        rate = self.settings["learning_rate"]
        groups: dict[str, list[nn.Parameter]] = {"encoder": [], "restarted": [], "rest": []}
        for name, parameter in self.model.named_parameters():
            inside = name.startswith("encoder.")
            groups["encoder" if inside else "restarted" if name in self.restarted else "rest"].append(parameter)
        return [Parameters("encoder", groups["encoder"], self.settings["encoder_rate"]),
                Parameters("restarted", groups["restarted"], self.settings["restart_learning_rate"] or rate),
                Parameters("rest", groups["rest"], rate)]

    def lengths(self) -> list[int]:
        """Return the tokens of each training triple's texts, special tokens included."""
        texts = [self.train.sources, self.train.targets]
        if self.model.config.latent.enabled:  # the deterministic backbone reads no negatives
            texts.append(self.train.negatives)
        return [sum(len(row) + 2 for row in rows) for rows in zip(*texts, strict=True)]

    def load(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the padded tensors of ``items``, see ``TripleBatches.batch``, with their part of the graph."""
        batch = self.train.batch(items)
        if self.item_views is not None:
            batch |= self.item_views.of(items)
        return {name: part for name, part in {**batch, **self.planner.plan(batch, True)}.items()
                if name not in _OF_PLAN}

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor | float]]:
        """Return the share of a micro-batch in the objective of the step's batch, and its parts."""
        if self.item_views is not None and "draw" in batch:
            batch = {**batch, "dropped": self.item_views.dropped(batch["draw"], step.epoch)}
        output = self.model(batch)
        chosen = torch.tensor(step.batch)
        totals = hcl.BatchTotals(len(chosen), int(self.train.has_negative[chosen].sum()),
                                 int(self.has_impostor[chosen].sum()))
        beta = hcl.kl_weight(step.number, self.annealing_steps)
        loss, parts = hcl.objective(output, self.model.config, beta, totals)
        parts.pop("loss")
        share = len(batch["x_ids"]) / totals.items
        return loss, {**parts, "beta": beta * share, **hcl.training_monitors(output, totals)}

    def validate(self) -> dict[str, float]:
        """Return the loss that selects checkpoints, and the monitors; see ``models.hcl.monitors``."""
        validation = Validation(self.model)
        with torch.autocast(self.model.device.type, enabled=False):
            self.model.keyword_vectors()  # of the whole graph, once and in full, whatever the precision of the rest
        for batch in batches_in_order(self.load_validation, len(self.validation), self.settings["micro_batch"],
                                      self.model.device):
            validation.add(batch)
        if self.model.config.latent.enabled:
            places = range(0, self.n_train, -(-self.n_train // _SEEN))
            for batch in batches_in_order(lambda numbers: self.load([places[number] for number in numbers]),
                                          len(places), self.settings["micro_batch"], self.model.device):
                validation.add_seen(batch)
        return validation.values()

    def load_validation(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the same of validation items, with their fixed noise."""
        batch = self.validation.batch(items) | {name: part[list(items)] for name, part in self.fixed.items()}
        return {**batch, **self.planner.plan(batch, False)}


def training_metrics(trained: TrainedHcl) -> dict[str, Any]:
    """Return ``metrics.json`` of a model.

    ``keywords`` is the share of inputs whose keyword is a node, ``graph`` the result of
    :func:`stages.tracks.hcl.item_views.leaks` and the share of items that lost their keyword.
    """
    known = trained.items["input_node"] >= 0
    shares = {split: float(known[trained.items["split"] == split].mean()) for split in ("validation", "test")
              if (trained.items["split"] == split).any()}
    kept, config = trained.history.rows[:trained.history.best_epoch], trained.model.config
    alarms = find_alarms(kept or trained.history.rows, config)
    dropout = trained.item_views.dropout if trained.item_views is not None and config.uses_keyword else 0.0
    leaked = leaks(trained.items, trained.model.graph.structure(), trained.item_views)
    leak = leak_of_graph(leaked["train"]["target_is_neighbour"], leaked["validation"]["target_is_neighbour"], config)
    if leak is not None and all(alarm.name != leak.name for alarm in alarms):
        alarms.append(leak)
    return {"alarms": [asdict(alarm) for alarm in alarms], "keywords": shares,
            "graph": {**leaked, "kw_dropout": round(dropout, 6)}}


def training_card(name: str, trained: TrainedHcl, metrics: Mapping[str, Any], on: TrainedOn, epochs: int,
                  start: str | None) -> str:
    """Return the README of the saved model; ``start`` names the model that it was initialised from."""
    counts, graph = trained.items["split"].value_counts(), trained.model.graph
    begun = [] if start is None or trained.start is None else [
        f"Initialised from model {start}: {len(trained.start.copied)} parameters taken over, "
        f"{len(trained.start.left)} left as drawn"]
    alarms = "\n".join(f"- **{alarm['name']}** (since epoch {alarm['epoch']}): {alarm['message']}. What to try: "
                       f"{alarm['advice']}." for alarm in metrics["alarms"]) or "- none"
    by = ", ".join(f"{kind.replace('_', ' ')} {about['name']} (sha256 {about['sha256']})"
                   for kind, about in on.keywords.items() if "sha256" in about)
    known = ", ".join(f"{share:.1%} of {split}" for split, share in metrics["keywords"].items())
    return common.model_card(
        f"HCL model {name}", "text-generation",
        f"Rewrites a sentence{' under its keyword' if trained.model.config.uses_keyword else ''} (HCL, ACL 2022). "
        f"Trained by Keycontrast on the\ndata set `{on.dataset}`: {counts.get('train', 0)} triples, "
        f"{counts.get('validation', 0)} for selection.",
        [f"Encoder at the start: {on.encoder['name']} (version {on.encoder['version']}, sha256 {on.encoder['sha256']})",
         *begun,
         f"Best epoch {trained.history.best_epoch} of {epochs}: {common.best_values(trained.history)}",
         f"Graph: {graph.num_nodes} keywords, {graph.num_edges} edges, self loops included; inputs whose keyword it "
         f"knows: {known}",
         *([f"Keywords were found by {by}; prediction finds those of new texts by the same"] if by else []),
         "`config.json` holds the settings, `keywords.json` the keyword of each node, `trained_on.json` where it came "
         "from"],
        '`keycontrast predict RUN "a sentence"`, or '
        '`models.hcl.model.HclModel.from_pretrained(FOLDER).paraphrase(...)`',
        f"Alarms of the training:\n{alarms}")


main = partial(run_stage, STAGE, lambda process: common.train(process, train_model),
               instance="MODEL", processes=processes)
