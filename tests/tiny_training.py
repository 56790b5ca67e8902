"""A project whose data stages are done, for trainings of ``tiny_items`` with a BERT of width 16."""

import numpy as np
import pandas as pd
import tiny_bert
import tiny_items
import torch
import yaml
from memory_store import Killed
from transformers import AutoTokenizer

from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.tables import Provenance, write_table
from stages.common.training import save_notes
from stages.run.checkpoints import FolderCheckpoints
from stages.tracks.hcl.data import TrainedOn, notes_of
from stages.tracks.hcl.train import _model

TRAINING = {"epochs": 2, "batch_size": 4, "micro_batch": 2, "max_source": 12, "max_target": 8,
            "keep": "first", "learning_rate": 0.01}


class DyingStore(FolderCheckpoints):
    """A store that ends the training after so many checkpoints."""

    saves = 0

    def save(self, *state):
        super().save(*state)
        self.saves += 1
        if self.saves == 2:
            raise Killed


def save_hcl(folder, encoder, graph, values, max_target=8):
    """Save an HCL model of these values over an encoder and a graph of ``tiny_items``, as training does."""
    torch.manual_seed(3)
    tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    model = _model(values, encoder, tokenizer, graph, 5.0)
    with torch.no_grad():  # default weights make all outputs alike at this width
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    on = TrainedOn("tiny", "en", f"path:{encoder.location}", encoder.description, "mean", 32, 12, max_target, "first")
    save_notes(folder, notes_of(tiny_items.NODES, on))
    return folder


def edges():
    return pd.DataFrame({"target": [0, 1, 2, 3], "source": [1, 2, 3, 0], "sign": [1, -1, -1, 1], "count": 1})


def vectors(nodes):
    rows = np.random.default_rng(0).normal(size=(len(nodes), 16)).astype("f4")
    return pd.DataFrame({"node_id": nodes["node_id"], "vector": list(rows)})


def clusters():
    """Table clusters of the training items; the edges above are made up, and no cluster has them."""
    number = range(tiny_items.SPLITS.count("train"))
    return pd.DataFrame({"keyword": [tiny_items.KEYWORDS[n] for n in number], "example_id": number,
                         "output_keyword": [tiny_items.KEYWORDS[n] for n in number],
                         "negative_keyword": [tiny_items.OTHER[n] for n in number]})


def text_vectors():
    rows = np.random.default_rng(1).normal(size=(len(tiny_items.tables()["texts"]), 16)).astype("f4")
    return pd.DataFrame({"text_id": range(len(rows)), "vector": list(rows)})


def write_params(folder, models=None, runtime=None, **training):
    params = {"recipe": "test", "encoder": {"source": "path", "path": "encoder"},
              "runtime": {"device": "cpu", "checkpoint_minutes": 0, **(runtime or {})},
              "datasets": {"tiny": {"source": "x"}},
              **{name: {"datasets": ["tiny"]} for name in ("keywords", "graph", "node_vectors")},
              "train_hcl": {"latent": {"size": 6}, "decoder": {"layers": 1}, "training": {**TRAINING, **training}},
              "models": {"hcl": models or {"hcl": {"dataset": "tiny"}}}}
    (folder / "params.yaml").write_text(yaml.safe_dump(params))


def write_project(folder, models=None, **params):
    """Write encoder, params and tables into ``folder``, which must be the working folder."""
    tiny_bert.save_encoder(folder / "encoder")
    write_params(folder, models, **params)
    tables = tiny_items.tables()
    nodes, examples = tables["nodes"], tables["examples"]
    counts = dict.fromkeys(("cluster_size", "in_positive", "in_negative", "out_positive", "out_negative", "component",
                            "community"), 0)
    rows = {"examples": examples.assign(group=range(len(examples)), negative_origin=None),
            "texts": tables["texts"], "keywords": tables["keywords"].assign(method="textrank", score=1.0),
            "nodes": nodes.assign(**counts, centrality=0.1), "edges": edges(),
            "node_vectors": vectors(nodes).assign(origin="input"), "clusters": clusters(),
            "text_vectors": text_vectors()}
    for kind, content in rows.items():
        write_table(DatasetPaths("tiny").table(kind), SCHEMAS[kind], content, Provenance("test", "0"))
