"""A project of the CLLD track: a few texts in three classes, prepared by the stages themselves."""

from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import tiny_bert
import torch
import yaml
from transformers import BertModel

from stages.ingest import ingest
from stages.tracks.clld import confusing_pairs, linear_floor
from stages.tracks.clld import evaluate as evaluate_clld
from stages.tracks.clld import train as train_clld

DATASET = "tiny"
CLASSES = ["animal", "place", "person"]
_WORDS = {"animal": ["dog", "cat", "run", "eat"], "place": ["where", "school", "way", "find"],
          "person": ["who", "you", "tell", "me"]}
_SHARED = ["what", "is", "the", "a", "how", "can", "about"]
MODELS = {"ct": {}, "clsled": {"contrast": "static_tau_pairs", "pairs_of": "artifacts/confusing_pairs/ct"},
          "words": {"encoder": "textcnn", "contrast": "adaptive", "overrides": {"training": {"learning_rate": 0.03}}}}


def texts(count=60, seed=0):
    """Texts whose words mostly tell their class; some have words of another one."""
    random = np.random.default_rng(seed)
    labels = [CLASSES[number % len(CLASSES)] for number in range(count)]
    rows = []
    for number, label in enumerate(labels):
        own = _WORDS[label if number % 7 else CLASSES[(number + 1) % len(CLASSES)]]
        words = [*random.choice(own, 2), *random.choice(_SHARED, random.integers(1, 5))]
        rows.append(" ".join([*random.permutation(words), f"x{number}", "?"]))
    return pd.DataFrame({"text": rows, "label": labels})


def params(models=None, **changes):
    models = MODELS if models is None else models
    training = {"epochs": 6, "batch_size": 12, "micro_batch": 12, "learning_rate": 0.005, "schedule": "constant"}
    return {"recipe": "classified", "seed": 3, "runtime": {"device": "cpu", "checkpoint_minutes": 0},
            "encoder": {"source": "path", "path": "encoder"},
            "datasets": {DATASET: {"source": "texts.csv", "layout": "labelled", "columns": {"label": "label"}}},
            "linear_floor": {"datasets": [DATASET]},
            "confusing_pairs": {"models": [name for name in models if any(
                model.get("pairs_of", "").endswith(f"/{name}") for model in models.values())]},
            "ingest": {"validation": 0.2, "test": 0.2},
            "train_clld": {"max_length": 16, "training": training,
                           "textcnn": {"embedding": 8, "filters": 4, "min_count": 1}},
            "evaluation": {"resamples": 20},
            "models": {"clld": {name: {"dataset": DATASET, **model} for name, model in models.items()}}, **changes}


def write_params(folder, **changes):
    (Path(folder) / "params.yaml").write_text(yaml.safe_dump(params(**changes)))


def write_project(folder, **changes):
    """Write params, an encoder and texts into ``folder``, and prepare the data."""
    tiny_bert.save_encoder(folder / "encoder")
    # weights at which texts differ, and such as half precision can hold
    torch.manual_seed(5)
    BertModel(tiny_bert.config(initializer_range=0.3)).half().float().save_pretrained(folder / "encoder")
    texts().to_csv(folder / "texts.csv", index=False)
    write_params(folder, **changes)
    with chdir(folder):
        for stage in (ingest, linear_floor):
            assert stage.main([DATASET]) == 0


def train(folder, *models, evaluate=False):
    """Train ``models`` of the project in ``folder``, and evaluate the runs of these names."""
    with chdir(folder):
        for name in models:
            assert train_clld.main([name]) == 0
            if name == "ct":
                assert confusing_pairs.main([name]) == 0
            if evaluate:
                assert evaluate_clld.main([name]) == 0
