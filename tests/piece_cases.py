"""Tiny baselines of word pieces, by name, over ``tiny_bert``; tests that all of them share go over ``SIZES``."""

import pandas as pd
import tiny_bert
import torch

from models.decoding import Rules
from stages.artifacts.paths import DatasetPaths
from stages.tracks.hcl.architecture import HclRow
from stages.tracks.hcl.architectures import ARCHITECTURES
from stages.tracks.hcl.piece_baselines import Making

_TRANSFORMER = {"layers": 2, "heads": 2, "width": 16, "feed_forward": 32, "dropout": 0.0, "norm": "pre"}
_SEQ2SEQ = {"embedding": 16, "width": 16, "dropout": 0.0, "pointer": True}
_PRETRAINED = {"source": None, "layers": 2, "heads": 2, "width": 16, "feed_forward": 32, "dropout": 0.0}
# By case: architecture and its block.
SIZES = {"transformer": ("transformer", _TRANSFORMER),
         "transformer-post": ("transformer", {**_TRANSFORMER, "norm": "post"}),
         "seq2seq": ("seq2seq", _SEQ2SEQ), "seq2seq-no-pointer": ("seq2seq", {**_SEQ2SEQ, "pointer": False}),
         "dialogpt": ("dialogpt", {**_PRETRAINED, "positions": 40}),
         "simctg": ("simctg", {**_PRETRAINED, "positions": 40, "margin": 0.5}),
         "t5": ("t5", {**_PRETRAINED, "prefix": None}),
         "t5_claps": ("t5_claps", {**_PRETRAINED, "prefix": "what is ", "eps_neg": 1.0, "eps_pos": 3.0,
                                   "temperature": 0.1, "claps_tau_both": True})}

LENGTHS = {"max_source": 12, "max_target": 8}
SOURCES = ["what is the best way to learn a language", "how do i find a good school", "can you tell me about the dog",
           "why do you run fast", "who can play with the cat", "where can i find a language", "how do you learn fast",
           "what is a good way to run"]
TARGETS = ["how do i learn a language", "what is a good school", "tell me about a dog", "why run fast",
           "who can play cat", "where is the language", "how can you learn", "how do i run"]


def items():
    """Eight training items in the columns of ``joined_items`` that batches read."""
    nodes = {name: 0 for name in ("input_node", "output_node", "negative_node")}
    turned = [*TARGETS[1:], TARGETS[0]]
    return pd.DataFrame({"example_id": range(8), "split": "train", "source": SOURCES, "target": TARGETS,
                         "negatives": [[text] for text in turned], "negative": turned,
                         "keyword": ["language", "school", "dog", "run", "cat", "language", "learn", "run"], **nodes})


def row(encoder, structure="pairs"):
    """A row of the table that is trained on ``items``, with word pieces of the encoder in a folder."""
    paths = DatasetPaths("tiny")
    return HclRow("row", paths, 13, {}, items(), pd.DataFrame(), "en", f"path:{encoder}", {}, {}, structure)


class Case:
    """A baseline with its tokenizer and batches; ``model`` is drawn from ``seed``."""

    def __init__(self, name, folder, seed=0, wide=0.0):
        self.architecture, sizes = SIZES[name]
        self.baseline, self.items = ARCHITECTURES[self.architecture].prepared.args[0], items()
        tiny_bert.save_encoder(folder)
        start = self.baseline.start(row(folder), sizes)
        self.tokenizer, self.marks = start.tokenizer, start.marks
        self.batches = self.baseline.batches(self.items, self.tokenizer, 12, 8, "first", self.marks)
        making = Making(self.architecture, sizes, start, self.batches.mean_target_length, self.items, LENGTHS)
        torch.manual_seed(seed)
        self.model = self.baseline.built(making).eval()
        if wide:  # small weights make every output alike
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for parameter in self.model.parameters():
                    if parameter.dim() > 1:
                        parameter.normal_(std=wide, generator=generator)

    def batch(self, numbers=range(8), extra=0):
        """Tensors of items, with so many columns of padding on every text."""
        batch = self.batches.batch(list(numbers))
        fill = {name: self.marks.pad if name.endswith("ids") or name in ("y_in", "y_out") else False for name in batch}
        wider = {name: torch.nn.functional.pad(part, (0, extra), value=fill[name]) if part.dim() == 2 else part
                 for name, part in batch.items()}
        further = self.model.inputs([SOURCES[number] for number in numbers], self.tokenizer)
        noise = torch.randn(8, self.model.noise_size, generator=torch.Generator().manual_seed(1))
        return {**wider, **further, "eps": noise[list(numbers)]}

    def sources(self, **of_batch):
        """What decoding has of the items."""
        batch = self.batch(**of_batch)
        return {name: part for name, part in batch.items() if not name.startswith(("y_", "neg_"))}

    def rules(self, least=1, most=8):
        return Rules(self.marks.end, self.marks.pad, least, most, self.marks.banned)

