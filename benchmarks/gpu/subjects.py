"""What is measured of each track: a task to train, and outputs of its model, at the sizes of a job.

Models come from a seed and are built on the CPU, so that every device begins with the same weights. Without dropout,
and with the noise of HCL's latent variable fixed per item, nothing in them is drawn while they compute, and two
devices can be compared. Texts are words by Zipf's law.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from torch import Tensor, nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from models.clld.clld import ClldModel, ClldTask, LabelledTexts
from models.common import EOS, PAD
from models.common.decoding import Rules
from models.common.encoders import special_ids
from models.hcl.graph import KeywordGraph
from models.hcl.hcl import HclConfig
from models.hcl.model import HclModel
from models.pgkpr.pgkpr import Rewriter, RewriterConfig
from models.pgkpr.rewriters import rewriter_of
from stages.common.seeds import derived_seed
from stages.tracks.hcl.data import TripleBatches
from stages.tracks.hcl.train import HclTask
from stages.tracks.pgkpr.items import Vocabulary
from stages.tracks.pgkpr.train import PairBatches, RewriteTask

SEED = 13
_SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
            "mask_token": "[MASK]"}
# Lengths are log-normal: median words and deviation of the logarithm. Questions of Quora have 10 words in the middle
# and about 11 on average; posts and reviews are longer and more uneven.
_QUESTIONS, _TEXTS = (10.0, 0.4), (16.0, 0.6)

Batch = dict[str, Tensor]  # input tensors of some texts


@dataclass(frozen=True)
class Sizes:
    """Sizes of all three tracks.

    Attributes:
        encoder: of the BERT that HCL and CLLD start from.
        decoder_layers: of HCL.
        nodes: of HCL's keyword graph.
        rewriter: of PGKPR's Transformer.
        words: of PGKPR's vocabulary.
        longest: tokens of a text that CLLD reads at most.
        batch: items of an optimiser step, and of a forward pass, by track.
        steps: most optimiser steps of a training; fewer where the time does not allow it.
        compared: items on which losses, gradients and outputs are compared with the CPU.
    """

    encoder: dict[str, int]
    decoder_layers: int
    nodes: int
    rewriter: dict[str, int]
    words: int
    longest: int
    batch: dict[str, tuple[int, int]]
    steps: int
    compared: int

    def __str__(self) -> str:
        bert, rewriter = self.encoder, self.rewriter
        return (f"HCL and CLLD over a BERT of {bert['num_hidden_layers']} layers {bert['hidden_size']} wide, HCL's "
                f"decoder of {self.decoder_layers} and graph of {self.nodes:,} keywords, PGKPR of "
                f"{rewriter['layers']}+{rewriter['layers']} layers {rewriter['width']} wide with {self.words:,} words")


def _bert(width: int, layers: int, heads: int, words: int = 30_522) -> dict[str, int]:
    return {"vocab_size": words, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
            "intermediate_size": 4 * width}


def _rewriter(width: int, layers: int, heads: int) -> dict[str, int]:
    return {"layers": layers, "heads": heads, "width": width, "feed_forward": 4 * width}


SIZES = {
    "paper": Sizes(_bert(768, 12, 12), 6, 8000, _rewriter(512, 6, 8), 8000, 128,
                   {"hcl": (256, 64), "pgkpr": (128, 128), "clld": (128, 128)}, 300, 16),
    "small": Sizes(_bert(384, 6, 12), 2, 2000, _rewriter(256, 2, 4), 8000, 128,
                   {"hcl": (32, 16), "pgkpr": (64, 64), "clld": (32, 32)}, 40, 8),
    "tiny": Sizes(_bert(32, 1, 2, 300), 1, 40, _rewriter(16, 1, 2), 60, 16,
                  {"hcl": (8, 4), "pgkpr": (8, 8), "clld": (8, 8)}, 8, 4)}


@dataclass(frozen=True)
class Job:
    """What a part is asked for; plain values, so that it reaches another process.

    Attributes:
        track: ``hcl``, ``pgkpr`` or ``clld``.
        precision: ``fp32`` or ``bf16``.
        device: ``cuda`` or ``cpu``.
        sizes: name in :data:`SIZES`.
        seconds: that a training should take.
        steps: of a training; None for as many as fit into ``seconds``.
        folder: for checkpoints, in which a training goes on.
        kill_at: step at which the training's process kills itself.
        settings: of HCL's model, beside its defaults.
    """

    track: str
    precision: str
    device: str
    sizes: str = "paper"
    seconds: float = 30.0
    steps: int | None = None
    folder: str | None = None
    kill_at: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> Sizes:
        """The sizes by that name."""
        return SIZES[self.sizes]

    @property
    def batch(self) -> tuple[int, int]:
        """Items of an optimiser step, and of a forward pass."""
        return self.size.batch[self.track]


class Subject:
    """A track at the sizes of a job.

    Subclasses have a ``model`` on the CPU, the same each time; a ``task`` of some training items, and as many
    validation items as a forward pass takes; and ``outputs``, which are generated or classes, of a batch of the task.

    Attributes:
        training: settings of the training loop, batches and precision aside; rates are the task's.
    """

    training: dict[str, Any]

    def __init__(self, job: Job) -> None:
        self.job, self.size = job, job.size

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """A tokenizer that splits at blanks, of as many made-up words as the encoder has."""
        numbers = {token: number for number, token in enumerate([*_SPECIAL.values(), *self._words])}
        tokenizer = Tokenizer(WordLevel(numbers, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[(token, numbers[token]) for token in ("[CLS]", "[SEP]")])
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=["input_ids", "attention_mask"],
                                       **_SPECIAL)

    def texts(self, name: str, count: int, kind: tuple[float, float], most: int) -> list[str]:
        """Return ``count`` texts of made-up words, 3 to ``most`` each."""
        seed = derived_seed(SEED, self.job.track, name)
        return [" ".join(row) for row in drawn(np.array(self._words), count, kind, most, seed)]

    @property
    def _words(self) -> list[str]:
        return [f"w{number}" for number in range(self.size.encoder["vocab_size"] - len(_SPECIAL))]


def drawn(words: np.ndarray, count: int, kind: tuple[float, float], most: int, seed: int) -> list[list[str]]:
    """Return ``count`` texts as words, the first of ``words`` more often than the last."""
    rng = np.random.default_rng(seed)
    median, deviation = kind
    lengths = np.clip(np.rint(rng.lognormal(np.log(median), deviation, count)), min(3, most), most).astype(int)
    weights = 1.0 / (np.arange(len(words)) + 10.0)
    numbers = rng.choice(len(words), int(lengths.sum()), p=weights / weights.sum())
    return [part.tolist() for part in np.split(words[numbers], np.cumsum(lengths)[:-1])]


class Hcl(Subject):
    """HCL as the paper has it: 20 word pieces on either side."""

    training = {"warmup": 0.1, "schedule": "linear", "bucket": True}
    _longest = 20

    def model(self, dropout: bool = True) -> HclModel:
        """Return the model with random weights."""
        bert = BertConfig(**self.size.encoder)  # type: ignore[arg-type]
        if not dropout:
            bert.hidden_dropout_prob = bert.attention_probs_dropout_prob = 0.0
        graph = random_graph(self.size.nodes, 10, bert.hidden_size)
        config = HclConfig.from_params({"decoder": {"layers": self.size.decoder_layers}, **self.job.settings}, bert,
                                       special_ids(self.tokenizer), graph.num_nodes, graph.num_edges, 11.0)
        if not dropout:
            config.decoder = replace(config.decoder, dropout=0.0)
        torch.manual_seed(SEED)
        return HclModel.from_parts(config, None, graph)

    def task(self, count: int, device: str, dropout: bool = True) -> Any:
        """Return the task of stage train_hcl; without dropout the noise of z is fixed per item."""
        micro = self.job.batch[1]
        model = self.model(dropout)
        nn.Module.to(model, device)
        train, validation = (TripleBatches(self._rows(split, items), self.tokenizer, self._longest, self._longest)
                             for split, items in (("train", count), ("validation", micro)))
        fixed = {"eps": _noise(micro, model.config.latent.size),
                 "unseen_vectors": torch.zeros(micro, model.config.hidden_size)}
        rates = {"learning_rate": 2e-4, "encoder_rate": 5e-5, "taken_rate": None, "micro_batch": micro}
        task: Any = HclTask(model, train, validation, fixed, rates, annealing_steps=0)
        if not dropout:
            load, eps = task.load, _noise(count, model.config.latent.size)
            task.load = lambda items: {**load(items), "eps": eps[list(items)]}
        return task

    def outputs(self, model: HclModel, batch: Batch) -> Tensor:
        """Return 5 to 20 tokens for each source."""
        return model.paraphrase(batch["x_ids"], batch["x_mask"], batch["kx"], num_beams=1, max_length=self._longest)

    def _rows(self, split: str, count: int) -> pd.DataFrame:
        source, target, negative = (self.texts(f"{split}/{side}", count, _QUESTIONS, self._longest)
                                    for side in ("source", "target", "negative"))
        nodes = np.random.default_rng(SEED).integers(0, self.size.nodes, (count, 3))
        return pd.DataFrame({"example_id": range(count), "source": source, "target": target,
                             "negatives": [[text] for text in negative], "input_node": nodes[:, 0],
                             "output_node": nodes[:, 1], "negative_node": nodes[:, 2]})


def _noise(count: int, size: int) -> Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(SEED))


def random_graph(nodes: int, degree: int, width: int) -> KeywordGraph:
    """Return a graph in which every node receives from ``degree`` others, of random signs."""
    rng = np.random.default_rng(SEED)
    steps = rng.integers(1, (nodes - 1) // degree, size=(nodes, degree)).cumsum(1)  # distinct, and not the node itself
    source = (np.arange(nodes)[:, None] + steps) % nodes
    sign = rng.choice(np.array([-1, 1], dtype=np.int8), nodes * degree)
    vectors = torch.from_numpy(rng.standard_normal((nodes, width), dtype=np.float32))
    target = np.repeat(np.arange(nodes), degree)
    return KeywordGraph.from_edges(vectors, *(torch.from_numpy(part) for part in (target, source.ravel(), sign)))


class Pgkpr(Subject):
    """PGKPR as the paper and its code have it: 17 words on either side, greedy decoding of 16 words."""

    training = {"optimiser": "adam", "betas": (0.9, 0.98), "eps": 1e-9, "schedule": "constant", "bucket": True}
    _longest, _outputs, _tags = 17, 16, 45

    def model(self, dropout: bool = True) -> Rewriter:
        """Return the model with random weights."""
        sizes = {**self.size.rewriter, "dropout": 0.1 if dropout else 0.0}
        torch.manual_seed(SEED)
        return rewriter_of(RewriterConfig("pgkpr", self._vocabulary.size, self._longest, sizes=sizes))

    def task(self, count: int, device: str, dropout: bool = True) -> RewriteTask:
        """Return the task of stage train_pgkpr, keywords fixed."""
        micro, model = self.job.batch[1], self.model(dropout)
        nn.Module.to(model, device)
        return RewriteTask(model, self._pairs("train", count), self._pairs("validation", micro), 1e-4, micro)

    def outputs(self, model: Rewriter, batch: Batch) -> Tensor:
        """Return 16 words for each source."""
        return model.rewrite(batch, batch["p"].bool(), Rules(EOS, PAD, self._outputs, self._outputs), num_beams=1)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary.counted({f"word{number}": 1 for number in range(self.size.words)},
                                  {f"TAG{number}": 1 for number in range(self._tags)}, self.size.words)

    def _pairs(self, name: str, count: int) -> PairBatches:
        """Return pairs of random words and tags; each word of a source is a keyword with probability 0.5."""
        seed = derived_seed(SEED, self.job.track, name)
        rng = np.random.default_rng(seed)
        tokens, kinds = np.array(self._vocabulary.tokens), np.array(self._vocabulary.kinds)
        tags = np.array([tag.strip("[]") for tag in tokens[kinds == "tag"]])
        columns: dict[str, Any] = {"example_id": range(count), "reference": 0, "group": range(count)}
        for side in ("source", "target"):
            words = drawn(tokens[kinds == "word"], count, _QUESTIONS, self._longest, derived_seed(seed, side))
            columns |= {f"{side}_words": words, f"{side}_tags": [rng.choice(tags, len(row)).tolist() for row in words]}
        keywords = [rng.integers(0, 2, len(row)).astype("f4") for row in columns["source_words"]]
        scores = ("score_xx", "score_xy", "primary_xx", "primary_xy", "primary_s", "primary_textrank")
        frame = pd.DataFrame(columns | dict.fromkeys(scores, keywords))
        return PairBatches(frame, self._vocabulary, self._longest, [keywords])


class Clld(Subject):
    """CLLD's contrast of two views of each text (CT+CL), six classes, at most 128 tokens of a text."""

    training = {"schedule": "constant", "weight_decay": 0.1}
    _classes = 6

    def model(self, dropout: bool = True) -> ClldModel:
        """Return the model with random weights."""
        torch.manual_seed(SEED)
        encoder = BertModel(BertConfig(**self.size.encoder), add_pooling_layer=False)  # type: ignore[arg-type]
        model = ClldModel.over(encoder, [f"class {number}" for number in range(self._classes)],
                               contrast={"kind": "label_distance"})
        for part in model.modules() if not dropout else ():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
        return model

    def task(self, count: int, device: str, dropout: bool = True) -> ClldTask:
        """Return the task of stage train_clld."""
        micro, model = self.job.batch[1], self.model(dropout)
        nn.Module.to(model, device)
        return ClldTask(model, self._labelled("train", count), self._labelled("validation", micro), 2e-5, micro)

    @torch.no_grad()
    def outputs(self, model: ClldModel, batch: Batch) -> Tensor:
        """Return the best class of each text."""
        return model(batch["input_ids"], batch["attention_mask"]).argmax(-1, keepdim=True)

    def _labelled(self, name: str, count: int) -> LabelledTexts:
        """Return texts whose first word tells their class, so that there is something to learn."""
        labels = np.arange(count) % self._classes
        texts = self.texts(name, count, _TEXTS, self.size.longest - 3)
        marked = [f"w{label} {text}" for label, text in zip(labels, texts, strict=True)]
        return LabelledTexts.of(self.tokenizer, marked, labels.tolist(), self.size.longest)


SUBJECTS: dict[str, type[Subject]] = {"hcl": Hcl, "pgkpr": Pgkpr, "clld": Clld}


def subject_of(job: Job) -> Any:
    """Return the track that ``job`` names, a subclass of :class:`Subject`."""
    return SUBJECTS[job.track](job)
