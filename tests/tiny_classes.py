"""A tiny data set of labelled texts, settings of its classifiers, and a project of them."""

from contextlib import chdir

import numpy as np
import pandas as pd
import tiny_bert
import torch
import yaml
from transformers import BertModel

from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.settings import laid_over
from stages.common.tables import Provenance, write_table
from stages.tracks.clld import evaluate as evaluate_clld
from stages.tracks.clld import linear_baseline
from stages.tracks.clld import train as train_clld
from stages.tracks.clld.params import TrainClld
from stages.tracks.clld.tables import labelled_texts
from stages.tracks.clld.train import with_own_rates

CLASSES = ["number", "person", "place"]
# Of each class; `run` and `eat` are of two, so that these are taken for each other.
_WORDS = {"number": ["best", "new", "run", "fast"], "person": ["who", "dog", "cat", "eat"],
          "place": ["where", "school", "run", "eat"]}
_COMMON = ["what", "is", "the", "a", "to", "i", "do", "you", "?"]
COUNTS = {"train": 24, "validation": 9, "test": 9}
BLOCK = {"max_length": 12, "textcnn": {"embedding": 12, "filters": 6, "min_count": 1},
         "training": {"epochs": 4, "batch_size": 8, "micro_batch": 4, "learning_rate": 0.01}}
# Every row of the results table, by name.
MODELS = {"ct": {}, "cl": {"contrast": "uniform"},
          "clsled": {"contrast": "static_tau_pairs", "pairs_of": "artifacts/confusing_pairs/ct"},
          "named": {"contrast": "static_tau_pairs", "pairs": [["number", "p*"]]},
          "clald": {"contrast": "adaptive"}, "supcl": {"contrast": "supcl_seq"}, "simcse": {"contrast": "simcse"}}


def text_of(number, random):
    words = list(random.choice(_WORDS[CLASSES[number % 3]], 2)) + list(random.choice(_COMMON, random.integers(1, 6)))
    return " ".join(random.permutation(words)) + " " * (number % 2)


def tables():
    """Tables ``labelled_examples`` and ``texts``; a test text has a word that no other has."""
    random, examples, texts = np.random.default_rng(3), [], []
    for split, count in COUNTS.items():
        for _ in range(count):
            number = len(examples)
            text = text_of(number, random) + (" zebra" if split == "test" and number % 3 == 0 else "")
            texts.append({"text_id": 100 + number, "text": text, "language": "en"})
            examples.append({"example_id": number, "split": split, "text_id": 100 + number,
                             "label": CLASSES[number % 3]})
    return {"labelled_examples": pd.DataFrame(examples), "texts": pd.DataFrame(texts)}


def items():
    """Rows of :func:`stages.tracks.clld.tables.labelled_texts`."""
    found = tables()
    return labelled_texts(found["labelled_examples"], found["texts"])


def settings(encoder="textcnn", **blocks):
    """Plain values of the block ``train_clld`` with rates; ``blocks`` are laid over those of ``BLOCK``."""
    values = TrainClld.model_validate(laid_over(BLOCK, blocks)).model_dump()
    return with_own_rates(values, encoder)


def write_params(folder, models=None, runtime=None, **more):
    models = MODELS if models is None else models
    found = {name: {"dataset": "tiny", "encoder": "textcnn", **model} for name, model in models.items()}
    params = {"recipe": "test", "encoder": {"source": "path", "path": "encoder"},
              "runtime": {"device": "cpu", "checkpoint_minutes": 0, **(runtime or {})},
              "datasets": {"tiny": {"source": "x", "layout": "labelled", "columns": {"label": "label"}}},
              "confusing_pairs": {"models": [name for name in found if any(
                  model.get("pairs_of", "").endswith(f"/{name}") for model in found.values())]},
              "evaluation": {"resamples": 50}, "linear_baseline": {"datasets": ["tiny"], "min_count": 1},
              "train_clld": BLOCK, "models": {"clld": found}, **more}
    (folder / "params.yaml").write_text(yaml.safe_dump(params))


def write_project(folder, models=None, **more):
    """Write encoder, params and tables into ``folder``, which must be the working folder."""
    tiny_bert.save_encoder(folder / "encoder")
    # weights at which texts differ, and such as half precision can hold
    torch.manual_seed(5)
    BertModel(tiny_bert.config(initializer_range=0.3)).half().float().save_pretrained(folder / "encoder")
    write_params(folder, models, **more)
    for kind, rows in tables().items():
        name = "examples" if kind == "labelled_examples" else kind
        write_table(DatasetPaths("tiny").table(name), SCHEMAS[kind], rows, Provenance("test", "0"))


def train(folder, *models, evaluate=False):
    """Train ``models`` of the project in ``folder``, and evaluate the runs of these names."""
    with chdir(folder):
        assert not evaluate or linear_baseline.main(["tiny"]) == 0
        for name in models:
            assert train_clld.main([name]) == 0
            assert not evaluate or evaluate_clld.main([name]) == 0
