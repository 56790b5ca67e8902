"""What is measured of each track: a task to train, a batch to generate or classify, and a peer for that.

Models come from a seed and are built on the CPU, so that every device begins with the same weights. Without dropout,
and with the noise of HCL's latent variable fixed per item, nothing in them is drawn while they compute, and two
devices can be compared.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    BertConfig,
    BertModel,
    PretrainedConfig,
    PreTrainedModel,
)

from benchmarks.gpu.sizes import Job
from benchmarks.gpu.texts import (
    QUESTIONS,
    SEED,
    TEXTS,
    drawn_lengths,
    drawn_pairs,
    drawn_texts,
    tokenizer_of,
    words_of,
)
from models.clld import ClldConfig, ClldModel, ClldTask, LabelledTexts, load_text_encoder, plain_config
from models.common.decoding import Decodable, Rules
from models.common.encoders import load_encoder, special_ids
from models.common.special import EOS, PAD
from models.hcl import HclConfig, HclModel, KeywordGraph
from models.pgkpr.auto import rewriter_of
from models.pgkpr.base import Rewriter
from models.pgkpr.config import RewriterConfig
from stages.common.seeds import derived_seed
from stages.tracks.hcl.batches import TripleBatches, padded
from stages.tracks.hcl.task import HclTask, ValidationNoise
from stages.tracks.pgkpr.batches import PairBatches
from stages.tracks.pgkpr.task import RewriteTask
from stages.tracks.pgkpr.vocabulary import Vocabulary

_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_MARGIN_SLOTS = 40  # tokens of an output at most, and some


Batch = dict[str, Tensor]  # what is generated or classified: the input tensors of some texts on a device


class Subject(ABC):
    """A track at the sizes of a job.

    Args:
        job: what is asked for.
    """

    def __init__(self, job: Job) -> None:
        self.job, self.size = job, job.size

    @abstractmethod
    def model(self, dropout: bool = True) -> Any:
        """Return the model on the CPU, the same each time."""

    @abstractmethod
    def task(self, count: int, device: str, dropout: bool = True) -> Any:
        """Return a task of ``count`` training items, and as many validation items as a forward pass takes.

        Without ``dropout`` it draws nothing while it trains.
        """

    @abstractmethod
    def training(self) -> dict[str, Any]:
        """Return what the loop is told, batches and precision aside; rates are the task's."""

    @abstractmethod
    def inputs(self, count: int) -> Batch:
        """Return texts to generate from, or to classify, on the CPU."""

    @abstractmethod
    def outputs(self, model: Any, batch: Batch, beams: int) -> Tensor:
        """Return tokens (B, L), or scores of the classes (B, N)."""

    def stepper(self, model: Any, batch: Batch) -> tuple[Decodable, Tensor]:
        """Return what takes decoding steps, and the first tokens (B,)."""
        raise NotImplementedError

    def _shared(self, name: str, count: int, kind: tuple[float, float], most: int) -> list[str]:
        return drawn_texts(self._words, count, kind, most, derived_seed(SEED, self.job.track, name))

    @cached_property
    def _tokenizer(self) -> Any:
        return tokenizer_of(self.job.encoder, self.size.encoder["vocab_size"])

    @cached_property
    def _words(self) -> np.ndarray:
        return words_of(self._tokenizer)

    def _bert(self, **changes: Any) -> PretrainedConfig:
        """Return the encoder's configuration."""
        config = AutoConfig.from_pretrained(Path(self.job.encoder)) if self.job.encoder else BertConfig(
            **self.size.encoder)
        for name, value in changes.items():
            setattr(config, name, value)
        return config


class Hcl(Subject):
    """HCL as the paper has it: 20 word pieces on either side, a beam of 4."""

    _longest = 20

    def model(self, dropout: bool = True) -> HclModel:
        """Return the model; without an encoder, its weights are random."""
        bert = self._bert(**({} if dropout else _NO_DROPOUT))
        vectors = random_graph(self.size.nodes, 10, bert.hidden_size)
        config = HclConfig.from_params({"decoder": {"layers": self.size.decoder_layers}, **self.job.settings}, bert,
                                       special_ids(self._tokenizer), vectors.num_nodes, vectors.num_edges, 11.0)
        if not dropout:
            config.decoder["dropout"] = 0.0
        torch.manual_seed(SEED)
        encoder = load_encoder(self.job.encoder, bert)[0] if self.job.encoder else None
        return HclModel.from_parts(config, encoder, vectors)

    def task(self, count: int, device: str, dropout: bool = True) -> HclTask:
        """Return the task of stage train_hcl; see :meth:`Subject.task`."""
        micro = self.job.batch[1]
        model = self.model(dropout)
        nn.Module.to(model, device)
        train, validation = (TripleBatches(rows, self._tokenizer, self._longest, self._longest)
                             for rows in (self._rows("train", count), self._rows("validation", micro)))
        width, size = model.config.hidden_size, model.config.latent_size
        noise = ValidationNoise(_noise(micro, size), torch.zeros(micro, width))
        rates = {"learning_rate": 2e-4, "encoder_rate": 5e-5, "taken_rate": None, "micro_batch": micro}
        if dropout:
            return HclTask(model, train, validation, noise, rates, annealing_steps=0)
        task = _WithNoise(model, train, validation, noise, rates, annealing_steps=0)
        task.eps = _noise(count, size)
        return task

    def training(self) -> dict[str, Any]:
        """Return the defaults of train_hcl."""
        return {"warmup": 0.1, "schedule": "linear", "bucket": True}

    def inputs(self, count: int) -> Batch:
        """Return sources with their keywords."""
        start, end = self._tokenizer.cls_token_id, self._tokenizer.sep_token_id
        texts = self._shared("sources", count, QUESTIONS, self._longest)
        rows = self._tokenizer(texts, add_special_tokens=False, truncation=True, max_length=self._longest)["input_ids"]
        ids, mask = padded([[start, *row, end] for row in rows], self._tokenizer.pad_token_id)
        return {"ids": ids, "mask": mask, "nodes": torch.arange(count) % self.size.nodes}

    def outputs(self, model: HclModel, batch: Batch, beams: int) -> Tensor:
        """Return 5 to 20 tokens for each source."""
        return model.paraphrase(batch["ids"], batch["mask"], batch["nodes"], num_beams=beams, max_length=self._longest)

    @torch.no_grad()
    def stepper(self, model: HclModel, batch: Batch) -> tuple[Decodable, Tensor]:
        """Return the decoder over the prior's mean."""
        given = model.conditions(batch["ids"], batch["mask"], batch["nodes"])
        z = given.latent("mean")
        memory, mask = model.memory(given.hidden, given.mask, given.u_in, z)
        start = torch.full((len(mask),), model.config.special_ids["bos"], device=mask.device)
        return model.steps(memory, mask, z, _MARGIN_SLOTS), start

    def _rows(self, split: str, count: int) -> pd.DataFrame:
        source, target, negative = (self._shared(f"{split}/{side}", count, QUESTIONS, self._longest)
                                    for side in ("source", "target", "negative"))
        nodes = np.random.default_rng(SEED).integers(0, self.size.nodes, (count, 3))
        return pd.DataFrame({"example_id": range(count), "source": source, "target": target,
                             "negatives": [[text] for text in negative], "input_node": nodes[:, 0],
                             "output_node": nodes[:, 1], "negative_node": nodes[:, 2]})


def random_graph(nodes: int, degree: int, width: int, seed: int = 13) -> KeywordGraph:
    """Return a graph in which every node receives from ``degree`` others, of random signs."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, (nodes - 1) // degree, size=(nodes, degree)).cumsum(1)  # distinct, and not the node itself
    source = (np.arange(nodes)[:, None] + steps) % nodes
    sign = rng.choice(np.array([-1, 1], dtype=np.int8), nodes * degree)
    vectors = torch.from_numpy(rng.standard_normal((nodes, width), dtype=np.float32))
    target = np.repeat(np.arange(nodes), degree)
    return KeywordGraph.from_edges(vectors, *(torch.from_numpy(part) for part in (target, source.ravel(), sign)))


class _WithNoise(HclTask):
    """The task of stage train_hcl, with the noise of z fixed per item."""

    eps: Tensor

    def load(self, items: Sequence[int]) -> dict[str, Tensor]:
        return {**super().load(items), "eps": self.eps[list(items)]}


def _noise(count: int, size: int) -> Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(SEED))


class Pgkpr(Subject):
    """PGKPR as the paper and its code have it: 17 words on either side, greedy decoding."""

    _longest, _outputs, _tags = 17, 16, 45

    def model(self, dropout: bool = True) -> Rewriter:
        """Return the model; it starts from no encoder."""
        sizes = {**self.size.rewriter, "dropout": 0.1 if dropout else 0.0}
        torch.manual_seed(SEED)
        return rewriter_of(RewriterConfig("pgkpr", self._vocabulary.size, self._longest, sizes))

    def task(self, count: int, device: str, dropout: bool = True) -> RewriteTask:
        """Return the task of stage train_pgkpr, keywords fixed; see :meth:`Subject.task`."""
        micro, model = self.job.batch[1], self.model(dropout)
        nn.Module.to(model, device)
        return RewriteTask(model, self._pairs("train", count), self._pairs("validation", micro), 1e-4, micro)

    def training(self) -> dict[str, Any]:
        """Return the defaults of train_pgkpr."""
        return {"optimiser": "adam", "betas": (0.9, 0.98), "eps": 1e-9, "schedule": "constant", "bucket": True}

    def inputs(self, count: int) -> Batch:
        """Return sources with their tags and keywords."""
        batch = self._pairs("sources", count).batch(range(count))
        return {"x_ids": batch["x_ids"], "x_tags": batch["x_tags"], "x_lengths": batch["x_lengths"],
                "mask": batch["p"].bool()}

    def outputs(self, model: Rewriter, batch: Batch, beams: int) -> Tensor:
        """Return 16 words for each source; no output ends before, so that the peer has as much to do."""
        rules = Rules(EOS, PAD, self._outputs, self._outputs)
        return model.rewrite(batch, batch["mask"], rules, num_beams=1)

    @torch.no_grad()
    def stepper(self, model: Rewriter, batch: Batch) -> tuple[Decodable, Tensor]:
        """Return the decoder over the encoded source."""
        return model.begin(batch, batch["mask"], _MARGIN_SLOTS)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary.counted({f"word{number}": 1 for number in range(self.size.words)},
                                  {f"TAG{number}": 1 for number in range(self._tags)}, self.size.words)

    def _pairs(self, name: str, count: int) -> PairBatches:
        seed = derived_seed(SEED, self.job.track, name)
        lengths = {side: drawn_lengths(count, QUESTIONS, self._longest, derived_seed(seed, side))
                   for side in ("source", "target")}
        return drawn_pairs(self._vocabulary, lengths, self._longest, seed)


class Clld(Subject):
    """CLLD's contrast of two views of each text (CT+CL), six classes, at most 128 tokens of a text."""

    _classes = 6

    def model(self, dropout: bool = True) -> ClldModel:
        """Return the model; without an encoder, its weights are random."""
        torch.manual_seed(SEED)
        pool = self.job.settings.get("pool", "cls")
        encoder: PreTrainedModel
        if self.job.encoder:
            encoder, _ = load_text_encoder(self.job.encoder, pool)
        else:
            encoder = BertModel(BertConfig(**self.size.encoder), add_pooling_layer=pool == "pooler")
        config = ClldConfig("encoder", [f"class {number}" for number in range(self._classes)],
                            plain_config(encoder.config), pool,
                            contrast=self.job.settings.get("contrast", {"kind": "label_distance"}))
        model = ClldModel.over(config, encoder)
        for part in model.modules() if not dropout else ():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
        return model

    def task(self, count: int, device: str, dropout: bool = True) -> ClldTask:
        """Return the task of stage train_clld; see :meth:`Subject.task`."""
        micro, model = self.job.batch[1], self.model(dropout)
        nn.Module.to(model, device)
        return ClldTask(model, self._labelled("train", count), self._labelled("validation", micro), 2e-5, micro)

    def training(self) -> dict[str, Any]:
        """Return the defaults of train_clld."""
        return {"schedule": "constant", "weight_decay": 0.1}

    def inputs(self, count: int) -> Batch:
        """Return texts."""
        batch = self._labelled("texts", count).batch(range(count))
        return {name: batch[name] for name in ("input_ids", "attention_mask")}

    @torch.no_grad()
    def outputs(self, model: ClldModel, batch: Batch, beams: int) -> Tensor:
        """Return the scores of the classes."""
        return model(batch["input_ids"], batch["attention_mask"])

    def _labelled(self, name: str, count: int) -> LabelledTexts:
        """Return texts whose first word tells their class."""
        labels = np.arange(count) % self._classes
        texts = self._shared(name, count, TEXTS, self.size.longest - 3)
        marked = [f"{self._words[label]} {text}" for label, text in zip(labels, texts, strict=True)]  # can be learned
        return LabelledTexts.of(_framed(self._tokenizer), marked, labels.tolist(), self.size.longest)


def _framed(tokenizer: Any) -> Any:
    """Return ``tokenizer`` with [CLS] and [SEP] around each text, if it adds none."""
    if len(tokenizer("")["input_ids"]) == 0:
        from tokenizers.processors import TemplateProcessing

        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", tokenizer.cls_token_id),
                                                     ("[SEP]", tokenizer.sep_token_id)])
    return tokenizer


SUBJECTS: dict[str, type[Subject]] = {"hcl": Hcl, "pgkpr": Pgkpr, "clld": Clld}


def subject_of(job: Job) -> Subject:
    """Return the track that ``job`` names."""
    return SUBJECTS[job.track](job)
