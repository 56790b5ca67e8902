"""Measure this project on a GPU in ten minutes: `python -m benchmarks gpu`.

For each track (HCL, PGKPR, CLLD), in fp32 and bf16: agreement of losses, gradients and outputs with the CPU; a
training with its items per second and peak memory; and the same training killed and resumed, to equal bytes. It needs
no network and no artifacts: models have the papers' sizes and random weights. Each part runs in a process of its own,
and results are written after each.
"""

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from torch import Tensor, nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from benchmarks.harness import DOCUMENT, duration, machine, markdown_table, write_parts
from keycontrast.files import atomic_file
from models.clld.clld import ClldModel, ClldTask, LabelledTexts
from models.common import EOS, PAD
from models.common.decoding import Rules
from models.common.encoders import special_ids
from models.common.task import Step, moved
from models.common.training import History, fit, trained_tensors
from models.hcl.graph import KeywordGraph
from models.hcl.hcl import HclConfig
from models.hcl.model import HclModel
from models.pgkpr.pgkpr import Rewriter, RewriterConfig
from models.pgkpr.rewriters import rewriter_of
from stages.common.seeds import derived_seed, seed_everything
from stages.common.training import loop_settings
from stages.run.checkpoints import FolderCheckpoints
from stages.tracks.hcl.data import TripleBatches
from stages.tracks.hcl.train import HclTask
from stages.tracks.pgkpr.items import Vocabulary
from stages.tracks.pgkpr.train import PairBatches, RewriteTask

SEED = 13
_SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
            "mask_token": "[MASK]"}
# Lengths are log-normal: median words and deviation of the logarithm, as of Quora's questions, and of longer texts.
_QUESTIONS, _TEXTS = (10.0, 0.4), (16.0, 0.6)

Batch = dict[str, Tensor]  # input tensors of some texts
KINDS = {
    "agreement": "One micro-batch without dropout, and greedy outputs (classes), on the device and on the CPU in fp32, "
                 "from the same weights. Relative differences of the loss and of the norm of the gradient. In fp32 "
                 "each may be 0.001, and three of four outputs must be equal; in bf16 the loss may differ by 0.05.",
    "training": "The training loop as the stages run it, deterministic algorithms, dropout, clipping and fused Adam "
                "included.",
    "resume": "The same training once more with checkpoints, killed by SIGKILL and resumed in a new process; all "
              "weights and the history are compared bit by bit with the uninterrupted training."}
NO_GPU = "These results are of a CPU at reduced size. They only show that every part runs."
_WEIGHTS = {"agreement": 1.0, "training": 3.0, "resume": 4.5}  # shares of the time; a resumed training runs twice
_START_SECONDS = 5.0  # of a process, until it computes
_PATIENCE, _GRACE_SECONDS = 3.0, 25.0  # a part is ended after so many times its share, and so much more
_TOLERANCE, _LOOSE, _EQUAL = 1e-3, 5e-2, 0.75
_EPOCHS = 2
_FEWEST_STEPS = 4
_UNSEEN = ("digest", "resumed")  # compared, not shown

Figures = dict[str, Any]


class PartFailed(RuntimeError):
    """The process of a part gave no result; ``status`` is its exit status, None if it took too long."""

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Sizes:
    """Sizes of all three tracks."""

    encoder: dict[str, int]     # the BERT of HCL and CLLD
    decoder_layers: int     # of HCL
    nodes: int  # of HCL's keyword graph
    rewriter: dict[str, int]    # PGKPR's Transformer
    words: int  # of PGKPR's vocabulary
    longest: int    # tokens of a text for CLLD
    batch: dict[str, tuple[int, int]]   # items of an optimiser step, and of a forward pass, by track
    steps: int  # most optimiser steps of a training
    compared: int   # items that are compared with the CPU


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
    """Settings of a part, plain values that can be sent to another process."""

    track: str
    precision: str
    device: str
    sizes: str = "paper"    # in SIZES
    seconds: float = 30.0   # of a training
    steps: int | None = None    # of a training; None for as many as fit into the seconds
    folder: str | None = None   # for checkpoints
    kill_at: int | None = None  # step at which the training's process kills itself
    settings: dict[str, Any] = field(default_factory=dict)  # of HCL's model, if not the defaults

    @property
    def batch(self) -> tuple[int, int]:
        """Items of an optimiser step, and of a forward pass."""
        return SIZES[self.sizes].batch[self.track]


class Subject:
    """A track at the sizes of a job: its ``model`` on the CPU, its training ``task``, and ``outputs`` of a batch.

    Without dropout, and with fixed noise of HCL's latent variable, nothing is random, so that devices can be compared.
    Texts are words by Zipf's law.
    """

    training: dict[str, Any]    # settings of the training loop

    def __init__(self, job: Job) -> None:
        self.job, self.size = job, SIZES[job.sizes]

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """A tokenizer that splits at blanks, with the made-up words of the encoder."""
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
    """HCL: 20 word pieces on either side."""

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
        micro, model = self.job.batch[1], self.model(dropout)
        nn.Module.to(model, device)
        train, validation = (TripleBatches(self._rows(split, items), self.tokenizer, self._longest, self._longest)
                             for split, items in (("train", count), ("validation", micro)))
        fixed = {"eps": _noise(micro, model.config.latent.size),
                 "unseen_vectors": torch.zeros(micro, model.config.hidden_size)}
        rates = {"learning_rate": 2e-4, "encoder_rate": 5e-5, "restart_learning_rate": None, "micro_batch": micro}
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
    """PGKPR: 17 words on either side, greedy decoding of 16 words."""

    training = {"betas": (0.9, 0.98), "eps": 1e-9, "schedule": "constant", "bucket": True}
    _longest, _outputs, _tags = 17, 16, 45

    def model(self, dropout: bool = True) -> Rewriter:
        """Return the model with random weights."""
        sizes = {**self.size.rewriter, "dropout": 0.1 if dropout else 0.0}
        torch.manual_seed(SEED)
        return rewriter_of(RewriterConfig("pgkpr", self._vocabulary.size, sizes=sizes))

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
        """Return texts whose first word decides their class."""
        labels = np.arange(count) % self._classes
        texts = self.texts(name, count, _TEXTS, self.size.longest - 3)
        marked = [f"w{label} {text}" for label, text in zip(labels, texts, strict=True)]
        return LabelledTexts.of(self.tokenizer, marked, labels.tolist(), self.size.longest)


SUBJECTS: dict[str, Any] = {"hcl": Hcl, "pgkpr": Pgkpr, "clld": Clld}


# Parts, each in a process of its own


def agreement(job: Job) -> Figures:
    """Compare a training step and outputs of the device with those of the CPU in fp32, from the same weights."""
    subject = _begin(job)
    count = subject.size.compared
    loss, gradient, outputs = _computed(subject, job.device, job.precision, count)
    cpu_loss, cpu_gradient, cpu_outputs = _computed(subject, "cpu", "fp32", count)
    longest = max(outputs.shape[1], cpu_outputs.shape[1])
    outputs, cpu_outputs = (torch.nn.functional.pad(part, (0, longest - part.shape[1]))
                            for part in (outputs, cpu_outputs))
    equal = int((outputs == cpu_outputs).all(-1).sum())
    loss_apart = abs(loss - cpu_loss) / abs(cpu_loss)
    gradient_apart = float((gradient - cpu_gradient).norm() / cpu_gradient.norm())
    if job.precision == "fp32":
        right = loss_apart <= _TOLERANCE and gradient_apart <= _TOLERANCE and equal >= _EQUAL * count
    else:
        right = loss_apart <= _LOOSE
    return {"state": "done" if right else "**wrong**: further apart than allowed", "loss apart": f"{loss_apart:.1e}",
            "gradient apart": f"{gradient_apart:.1e}", "equal outputs": f"{equal} of {count}"}


def _computed(subject: Any, device: str, precision: str, count: int) -> tuple[float, Tensor, Tensor]:
    """Return loss, gradient (in double precision) and outputs of one micro-batch without dropout, on the CPU."""
    task = subject.task(count, device, dropout=False)
    task.module.train()
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        loss, _ = task.train_batch(moved(task.load(range(count)), torch.device(device)), Step(0, 1, 0, range(count)))
    loss.backward()
    gradient = torch.cat([parameter.grad.cpu().double().flatten() for parameter in task.module.parameters()
                          if parameter.grad is not None])
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        outputs = subject.outputs(task.module.eval(), moved(task.train.batch(range(count)), torch.device(device)))
    return loss.item(), gradient, outputs.cpu()


def training(job: Job) -> Figures:
    """Train as a stage does; at step ``job.kill_at`` the process ends itself by SIGKILL."""
    subject = _begin(job)
    steps = job.steps
    if steps is None:
        trial = _fitted(subject, 4, 1)[1].speed.summary()["seconds_per_step_median"]
        steps = 2 * min(subject.size.steps // 2, max(_FEWEST_STEPS // 2, int(job.seconds / trial / 2)))
    if job.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    bar = Bar(job.kill_at)
    task, history = _fitted(subject, steps // _EPOCHS, _EPOCHS, bar)
    speed = history.speed.summary()
    result = {"steps": steps, "batch": f"{job.batch[0]} ({job.batch[1]})",
              "per step": duration(speed["seconds_per_step_median"]), "items/s": f"{speed['items_per_second']:,.0f}",
              "loss, epochs 1 and 2": " and ".join(f"{row['train_loss']:.3f}" for row in history.rows),
              "resumed": bar.resumed, "digest": digest(task.module, history), "state": "done"}
    if job.device == "cuda":
        result["memory"] = f"{torch.cuda.max_memory_allocated() / 2**20:,.0f} MiB"
    return result


def _fitted(subject: Any, steps: int, epochs: int, bar: "Bar | None" = None) -> tuple[Any, History]:
    """Train a new task for ``steps`` steps of each epoch, or from the last checkpoint in the job's folder."""
    job = subject.job
    task = subject.task(job.batch[0] * steps, job.device)
    settings = loop_settings({**subject.training, "epochs": epochs, "batch_size": job.batch[0],
                              "micro_batch": job.batch[1], "precision": job.precision})
    with TemporaryDirectory() as temporary:
        store = FolderCheckpoints(Path(job.folder or temporary), "gpu", math.inf)  # saves at the end of an epoch
        return task, fit(task, settings, store, partial(derived_seed, SEED, "gpu"), bar.opened if bar else None)


class Bar:
    """Counts the steps of a training, and kills its process at a step if it is to."""

    def __init__(self, kill_at: int | None = None) -> None:
        self.kill_at, self.count, self.resumed = kill_at, 0, 0

    def opened(self, total: int, done: int) -> "Bar":
        """Return the bar of a training that starts after ``done`` steps."""
        self.resumed = self.count = done
        return self

    def update(self, n: int = 1) -> None:
        """Count ``n`` steps."""
        self.count += n
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def digest(module: torch.nn.Module, history: History) -> str:
    """Return a digest of all trained tensors and of the history of epochs, to the bit."""
    hasher = hashlib.sha256()
    for name, tensor in sorted(trained_tensors(module).items()):
        hasher.update(name.encode() + tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    hasher.update(repr([sorted(row.items()) for row in history.rows]).encode())
    return hasher.hexdigest()


def _begin(job: Job) -> Any:
    """Set this process up as a stage does: seeds, deterministic algorithms."""
    seed_everything(derived_seed(SEED, "gpu"), torch.get_num_threads(), deterministic=True)
    return SUBJECTS[job.track](job)


def in_child(work: Callable[[Job], Figures], job: Job) -> Figures:
    """Return ``work(job)`` from a process of its own, which is ended if it takes far longer than ``job.seconds``.

    Processes are forks of a server that has imported torch and never uses the device.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.gpu"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(work, job, sender))
    process.start()
    sender.close()
    try:
        if not wait([receiver, process.sentinel], _PATIENCE * job.seconds + _GRACE_SECONDS):
            raise PartFailed(f"took far longer than {job.seconds:.0f} s, and was ended", None)
        if not receiver.poll():
            raise EOFError
        return receiver.recv()  # type: ignore[no-any-return]
    except EOFError:
        process.join()
        raise PartFailed(f"its process ended with status {process.exitcode}; see its messages",
                         process.exitcode) from None
    finally:
        process.kill()
        process.join()


def _send(work: Callable[[Job], Figures], job: Job, sender: Any) -> None:
    sender.send(work(job))


def resume(job: Job, reference: Figures, run: Callable[[Callable[[Job], Figures], Job], Figures] = in_child) -> Figures:
    """Train as ``reference`` did, with checkpoints; kill the process, resume in another, and compare the results."""
    at = max(1, round(0.7 * reference["steps"]))
    with TemporaryDirectory(prefix="keycontrast-gpu-") as folder:
        job = replace(job, steps=reference["steps"], folder=folder)
        try:
            run(training, replace(job, kill_at=at))
            raise PartFailed(f"it should be killed at step {at}, but ended", 0)
        except PartFailed as failed:
            if failed.status != -signal.SIGKILL:
                raise
        result = run(training, job)
    state, equal = "done", result["digest"] == reference["digest"]
    if not 0 < result["resumed"] <= at:
        state = f"**wrong**: killed at step {at}, but resumed at step {result['resumed']}"
    elif not equal:
        state = "**wrong**: weights or history differ from those of the uninterrupted training"
    return {"steps": reference["steps"], "killed at": at, "resumed at": result["resumed"],
            "equal bytes": "yes" if equal else "no", "state": state}


def measure(template: Job, minutes: float, report_rows: Callable[[dict[str, list[Figures]]], None]) -> None:
    """Run every part for which there is time, and call ``report_rows`` with the rows by kind after each."""
    started, pairs = time.monotonic(), [(track, precision) for track in SUBJECTS for precision in ("fp32", "bf16")]
    unit = 60 * minutes / (sum(_WEIGHTS.values()) * len(pairs))
    rows: dict[str, list[Figures]] = {kind: [] for kind in KINDS}
    trained: dict[tuple[str, str], Figures] = {}
    for kind in KINDS:
        for track, precision in pairs:
            job = replace(template, track=track, precision=precision,
                          seconds=max(1.0, unit * _WEIGHTS[kind] - _START_SECONDS))
            sys.stderr.write(f"{kind} {track} {precision}: {job.seconds:.0f} s\n")
            try:
                if time.monotonic() - started > 60 * minutes:
                    figures = {"state": "left out: the time was used up; give more --minutes"}
                elif kind == "agreement":
                    figures = in_child(agreement, job)
                elif kind == "training":
                    figures = trained[track, precision] = in_child(training, job)
                elif (track, precision) in trained:
                    figures = resume(job, trained[track, precision])
                else:
                    figures = {"state": "left out: the training that it is compared with was not done"}
            except PartFailed as failed:
                figures = {"state": f"**failed**: {failed}"}
            rows[kind].append({"track": track, "precision": precision, "state": figures.pop("state"), **figures})
            report_rows(rows)


def report(content: Mapping[str, Any]) -> str:
    """Return the part of the document."""
    lines = ["## gpu", "`python -m benchmarks gpu`", content["machine"],
             f"{content['minutes']:.1f} minutes. Random weights, texts from a seed. Sizes: `{content['sizes']}`."]
    if content["device"] == "cpu":
        lines.append(f"**{NO_GPU}**")
    for kind, description in KINDS.items():
        rows = [{name: value for name, value in row.items() if name not in _UNSEEN} for row in content["rows"][kind]]
        lines += [f"### {kind.capitalize()}", description, markdown_table(rows)]
    return "\n\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write; return 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: the same parts at reduced size, on a machine without a GPU")
    parser.add_argument("--minutes", type=float, default=9.0, help="for everything; fewer steps in less time (9)")
    parser.add_argument("--out", type=Path, default=Path("gpu-results.json"), metavar="FILE",
                        help="results, written after each part (%(default)s)")
    parser.add_argument("--sizes", choices=SIZES, help="paper on a GPU, small on a CPU; tiny measures nothing")
    parser.add_argument("--write", action="store_true", help=f"also write the results of a GPU into {DOCUMENT}")
    parser.add_argument("--read", type=Path, metavar="FILE", help="measure nothing: print, or --write, these results")
    arguments = parser.parse_args(argv)
    if arguments.read and not arguments.read.is_file():
        parser.error(f"--read: {arguments.read} is no file")
    if arguments.device == "cuda" and not (arguments.read or torch.cuda.is_available()):
        sys.stderr.write("benchmarks gpu: torch sees no CUDA device here. Give --device cpu to run the same parts at "
                         "reduced size, or install a torch that was built for your driver.\n")
        return 1
    content = json.loads(arguments.read.read_text(encoding="utf-8")) if arguments.read else _measured(arguments)
    text = report(content)
    sys.stdout.write(text + "\n")
    if arguments.write and content["device"] == "cuda":
        write_parts({"gpu": text})
    return 1 if "**failed**" in text or "**wrong**" in text else 0


def _measured(arguments: argparse.Namespace) -> dict[str, Any]:
    started, sizes = time.monotonic(), arguments.sizes or ("paper" if arguments.device == "cuda" else "small")
    content: dict[str, Any] = {"machine": machine(), "device": arguments.device, "sizes": sizes}
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # of deterministic products on a GPU
    # A library that opens the GPU on import would do so in the server, and its forks could not open it again.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"

    def save_rows(rows: dict[str, list[Figures]]) -> None:
        content.update(minutes=(time.monotonic() - started) / 60, rows=rows)
        with atomic_file(arguments.out) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    measure(Job("", "", arguments.device, sizes), arguments.minutes, save_rows)
    return content


if __name__ == "__main__":
    sys.exit(main())
