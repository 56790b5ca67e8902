"""Tiny baselines of word pieces, by name, over ``tiny_bert``; tests that all of them share go over ``SIZES``."""

import pandas as pd
import tiny_bert
import torch

from models.common.decoding import Rules
from stages.tracks.hcl.baselines import batches_of, build, start_of

_TRANSFORMER = {"layers": 2, "heads": 2, "width": 16, "feed_forward": 32, "dropout": 0.0}
_SEQ2SEQ = {"embedding": 16, "width": 16, "dropout": 0.0}
_CVAE = {"embedding": 48, "encoder": 48, "context": 64, "width": 64, "latent": 6, "bag": 16,
         "annealing_share": 0.04}
_GROUP = {"pretrain_share": 0.4, "sample_k": 2, "speed": 1.0, "score": "tfidf"}
_PRETRAINED = {"source": None, "layers": 2, "heads": 2, "width": 16, "feed_forward": 32, "dropout": 0.0}
# By case: architecture and its block.
SIZES = {"transformer": ("transformer", _TRANSFORMER),
         "cvae": ("cvae", _CVAE),
         "group_wise": ("group_wise", {**_TRANSFORMER, **_GROUP}),
         "seq2seq_du": ("seq2seq_du", {"dropout": 0.0}),
         "seq2seq": ("seq2seq", _SEQ2SEQ),
         "dialogpt": ("dialogpt", {**_PRETRAINED, "positions": 40}),
         "simctg": ("simctg", {**_PRETRAINED, "positions": 40}), "t5": ("t5", _PRETRAINED),
         "t5_claps": ("t5_claps", _PRETRAINED)}

TRAINING = {"max_source": 12, "max_target": 8, "keep": "first", "freeze_layers": 0}
SOURCES = ["what is the best way to learn a language", "how do i find a good school", "can you tell me about the dog",
           "why do you run fast", "who can play the cat fast", "where can i find a language", "how do you learn fast",
           "what is a good way to run"]
TARGETS = ["how do i learn a language", "what is a good school", "tell me about a dog", "why run fast",
           "who can play cat", "where is the language", "how can you learn", "how do i run"]

KEYWORDS = ["language", "school", "dog", "run", "cat", "language", "learn", "run"]


def items():
    """Eight training items in the columns of ``joined_items`` that batches read."""
    nodes = {name: 0 for name in ("input_node", "output_node", "negative_node")}
    turned = [*TARGETS[1:], TARGETS[0]]
    return pd.DataFrame({"example_id": range(8), "split": "train", "source": SOURCES, "target": TARGETS,
                         "negatives": [[text] for text in turned], "negative": turned,
                         "keyword": KEYWORDS, "target_keyword": KEYWORDS, **nodes})


def values_of(name, sizes):
    """Plain values of the block ``train_hcl`` of a baseline."""
    return {"architecture": name, name: sizes, "training": TRAINING}


def start(encoder, name, sizes, structure="pairs"):
    """What a baseline begins with on ``items``, with word pieces of the encoder in a folder."""
    return start_of(values_of(name, sizes), items(), f"path:{encoder}", structure)


class Case:
    """A baseline with its tokenizer and batches; ``model`` is drawn from ``seed``."""

    def __init__(self, name, folder, seed=0, wide=0.0):
        self.name, (self.architecture, sizes) = name, SIZES[name]
        tiny_bert.save_encoder(folder)
        values, begun = values_of(self.architecture, sizes), start(folder, self.architecture, sizes)
        self.tokenizer, self.marks = begun.tokenizer, begun.marks
        self.batches = batches_of(items(), values, begun)
        torch.manual_seed(seed)
        self.model = build(values, begun, self.batches.mean_target_length).eval()
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
        wider = {name: torch.nn.functional.pad(part, (0, extra), value=fill[name])
                 if part.dim() == 2 and name.startswith(("x_", "y_")) else part for name, part in batch.items()}
        further = self.model.inputs([SOURCES[number] for number in numbers], self.tokenizer)
        noise = torch.randn(8, self.model.noise_size, generator=torch.Generator().manual_seed(1))
        return {**wider, **further, "eps": noise[list(numbers)]}

    def sources(self, **of_batch):
        """What decoding has of the items."""
        batch = self.batch(**of_batch)
        return {name: part for name, part in batch.items() if not name.startswith(("y_", "neg_"))}

    def rules(self, least=1, most=8):
        return Rules(self.marks.end, self.marks.pad, least, most, self.marks.banned)

