"""Training beside the Hugging Face ``Trainer``, and beside the authors' public PGKPR code.

Seconds per optimiser step of our loop and of the same module in a ``Trainer``. Both keep freed memory for the next
step, as the stages do (``stages.run.processes``).

With `--peer DIR` the public code's loader, perturbation, losses, network and decoding run unchanged beside ours on
made-up sentences. Every difference must be explained by a setting or by a part of docs/pgkpr.md.
"""

import ast
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from math import inf, sqrt
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from benchmarks.gpu import SEED, SUBJECTS, Bar, Job
from benchmarks.harness import WANTED, Context, Disagreement, Section, timings
from keycontrast.errors import InputError
from models.common import BOS, EOS, IGNORE, PAD
from models.common.decoding import Rules
from models.common.task import Step
from models.common.training import epoch_batches, fit
from models.pgkpr.pgkpr import Rewriter, RewriterConfig, counterpart, perturbed
from models.pgkpr.rewriters import rewriter_of
from stages.common.seeds import derived_seed
from stages.common.training import loop_settings
from stages.run.checkpoints import FolderCheckpoints
from stages.run.processes import keep_freed_memory
from stages.tracks.pgkpr.items import Vocabulary, released_form
from stages.tracks.pgkpr.params import TrainPgkpr
from stages.tracks.pgkpr.train import PairBatches, part_counts, part_weights, training_mask

TOLERANCE = 1e-5  # of losses and weights of two trainings without dropout
_STEPS = 5
# Track of each model, and settings that differ from the defaults of the block train_hcl.
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "the deterministic backbone": ("hcl", {"latent": {"enabled": False}, "keyword": {"condition": False}}),
    "HCL": ("hcl", {}), "PGKPR": ("pgkpr", {})}
_NOTES = ["Both train the same module on the same batches in the same order, the Trainer without logging and "
          "checkpoints. Ours reads losses and gradient norm once per step.",
          "Both keep freed memory for the next step, as our stages do; a plain script with a Trainer does not."]
MAX_LENGTH, STEPS = 17, 16  # words that a model reads, and that the public code decodes
_WIDTH = 2 * MAX_LENGTH + 3  # of every sequence of the public code
_SIZES = {"layers": 2, "heads": 2, "width": 16, "feed_forward": 32}
_ROUNDING = 2e-5  # of fp32
_DOCUMENT = "none: docs/pgkpr.md, "
_UNLISTED = ("WP", "JJS", "TO")  # tags of the sentences that the public list lacks
_COINS = 666  # of the public code
_PAIRS = 36
_UNKNOWN = "zyzzyva"  # no word of the vocabulary
_SIDES = ("source", "target")
_LEXICON = {
    "WP": "what who", "WRB": "how why where", "VBZ": "is does has", "VBP": "do are have", "MD": "can should would",
    "PRP": "i you they", "DT": "the a this", "JJ": "good cheap large quick", "JJS": "best fastest", "TO": "to",
    "VB": "learn find lose cook sell", "NN": "belly language phone workouts house zyzzyva", "NNS": "dogs jobs books",
    "IN": "in with for", "RB": "really never", "VBG": "running", "CC": "and", ".": "?"}
_PATTERNS = ("WP VBZ DT JJS NN IN DT NN .", "WRB VBP PRP VB DT JJ NN .", "MD PRP VB TO VB NNS CC NNS .",
             "WRB VBZ DT NN VB DT NN RB", "WP VBP DT JJ NNS IN VBG .",
             "WRB MD PRP VB DT JJ NN IN DT NN CC VB NNS RB TO VB DT JJ NN")  # the last is longer than models read


class Clock(Bar, TrainerCallback):
    """Records the time at which each step ends: a bar of our loop and a callback of the Trainer."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        self.update()

    def update(self, n: int = 1) -> None:
        """Record the time once the device has finished its work."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.perf_counter())

    def on_step_end(self, *call: Any, **more: Any) -> None:
        """Record the time of a step of the Trainer."""
        self.update()


@dataclass
class Ran:
    """Seconds of the steps of a training but the first, losses, and weights at the end."""

    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)


def run(context: Context) -> list[Section]:
    """Compare both precisions, on random words and weights, and parity if the public code is named."""
    keep_freed_memory()
    torch.use_deterministic_algorithms(True)
    device, sizes = "cuda" if torch.cuda.is_available() else "cpu", "tiny" if context.quick else "small"
    sections = [_section(name, Job(track, precision, device, sizes, settings=settings), context.repeats)
                for name, (track, settings) in _MODELS.items() for precision in ("fp32", "bf16")]
    return sections if context.peer is None else [*sections, parity(context.peer)]


def _section(name: str, job: Job, repeats: int) -> Section:
    agreement = same_training(ours(job, False), theirs(job, False))
    seconds: dict[str, list[float]] = {"our loop": [], "transformers.Trainer": []}
    for _ in range(repeats):
        for runs, train in zip(seconds.values(), (ours, theirs), strict=True):
            runs += train(job, True).seconds
    rows = timings(seconds, job.batch[0], "items")
    place = torch.cuda.get_device_name() if job.device == "cuda" else f"CPU, {torch.get_num_threads()} thread(s)"
    workload = (f"batches of {job.batch[0]} items, sizes `{job.sizes}` (benchmarks/gpu.py), {place}; from one step's "
                f"end to the next's, collation, clipping and fused AdamW included")
    return Section(f"{name}, {job.precision}", workload, agreement, [rows], _NOTES)


def ours(job: Job, dropout: bool) -> Ran:
    """Train with :func:`models.common.training.fit`; only trainings without dropout return weights."""
    task, clock = SUBJECTS[job.track](job).task(_STEPS * job.batch[0], job.device, dropout), Clock()
    task.validate = lambda: {"loss": 0.0, "accuracy": 0.0}
    losses: list[Tensor] = []
    inner = task.train_batch

    def train_batch(batch: Any, step: Step) -> Any:
        loss, parts = inner(batch, step)
        losses.append(loss.detach())
        return loss, parts

    task.train_batch = train_batch
    settings = loop_settings({"epochs": 1, "batch_size": job.batch[0], "precision": job.precision,
                              "schedule": "constant", "weight_decay": 0.0})
    with tempfile.TemporaryDirectory() as folder:
        fit(task, settings, FolderCheckpoints(Path(folder), "benchmark", inf), partial(derived_seed, SEED),
            clock.opened)
    return _ran(clock, losses, task.module, dropout)


def theirs(job: Job, dropout: bool) -> Ran:
    """Train with ``transformers.Trainer``: the same module, batches, order and optimiser."""
    task, clock = SUBJECTS[job.track](job).task(_STEPS * job.batch[0], job.device, dropout), Clock()
    learner, on_cpu = _Learner(task), job.device == "cpu"
    optimiser = torch.optim.AdamW([{"params": list(group.parameters), "lr": group.rate}
                                   for group in task.parameter_groups()], lr=0.0, weight_decay=0.0, fused=True)
    constant = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0)
    items = [item for batch in epoch_batches(task.n_train, job.batch[0], derived_seed(SEED, "order", 0))
             for item in batch]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=1, per_device_train_batch_size=job.batch[0], max_grad_norm=1.0,
            bf16=job.precision == "bf16", use_cpu=on_cpu, save_strategy="no", logging_strategy="no", report_to=[],
            disable_tqdm=True, train_sampling_strategy="sequential", remove_unused_columns=False,
            dataloader_pin_memory=not on_cpu)
        trainer = Trainer(learner, arguments, learner.collate, items,  # type: ignore[arg-type]
                          optimizers=(optimiser, constant), callbacks=[clock])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return _ran(clock, learner.losses, task.module, dropout)


class _Learner(nn.Module):
    """A task as a Trainer needs it: the forward pass returns the loss. Batches come in the order of collation."""

    def __init__(self, task: Any) -> None:
        super().__init__()
        self.module, self.task = task.module, [task]
        self.waiting: list[Any] = []
        self.losses: list[Tensor] = []

    def collate(self, items: list[int]) -> dict[str, Tensor]:
        """Return the batch of ``items``."""
        self.waiting.append(items)
        return dict(self.task[0].load(items))

    def forward(self, **batch: Tensor) -> dict[str, Tensor]:
        """Return the loss."""
        loss, _ = self.task[0].train_batch(batch, Step(0, 1, 0, self.waiting.pop(0)))
        self.losses.append(loss.detach())
        return {"loss": loss}


def _ran(clock: Clock, losses: list[Tensor], module: nn.Module, dropout: bool) -> Ran:
    seconds = np.diff(clock.times)[1:].tolist()
    weights = {} if dropout else {name: parameter.detach().cpu() for name, parameter in module.named_parameters()}
    return Ran(seconds, [float(loss) for loss in losses], weights)


def same_training(mine: Ran, other: Ran) -> str:
    """Compare the first losses and the last weights of two trainings without dropout, and return a summary."""
    if len(mine.losses) != len(other.losses) or mine.weights.keys() != other.weights.keys():
        raise Disagreement(f"training: {len(mine.losses)} losses and {len(mine.weights)} weights, the Trainer has "
                           f"{len(other.losses)} and {len(other.weights)}")
    loss = abs(mine.losses[0] - other.losses[0])
    gap = max(float((mine.weights[name] - other.weights[name]).abs().max()) for name in mine.weights)
    summary = (f"without dropout, the first loss differs by {loss:.2g} and the weights after {len(mine.losses)} steps "
               f"by up to {gap:.2g}")
    if not (loss <= TOLERANCE and gap <= TOLERANCE):
        raise Disagreement(f"training: {summary}")
    return summary


# Parity with the public PGKPR code


@dataclass(frozen=True)
class Finding:
    """The largest difference between ours and the public code in one part."""

    part: str
    ours: str   # our settings
    public: str     # their code
    difference: float
    switch: str = ""    # setting that causes a difference
    rounding: float = 0.0

    @property
    def same(self) -> bool:
        """Whether the difference is within rounding."""
        return self.difference <= self.rounding


class Given:
    """The public code in ``folder`` and what both sides read; ``work`` is a temporary folder."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.work = folder, work
        self.frame = drawn(_PAIRS, SEED)
        self.texts = [" ".join(row) for row in self.frame["source_words"]]
        words = pd.Series([word for side in _SIDES for row in self.frame[f"{side}_words"] for word in row])
        counts = words[words != _UNKNOWN].value_counts()
        self.loader, self.switch = loaded(folder, "dataloader"), loaded(folder, "Data.switchpos").SwitchPOS
        listed = {tag.strip("[]") for tag in self.loader.POS_TAG}
        self.vocabulary = Vocabulary.counted(dict(counts), dict.fromkeys(_LEXICON, 1), len(counts))
        self.listed = Vocabulary.counted(dict(counts), dict.fromkeys(listed, 1), len(counts))
        (work / "words").write_text("\n".join(map(str, counts.index)) + "\n", encoding="utf-8")
        rng, coins = np.random.default_rng(SEED), random.Random(_COINS)
        self.scores = [rng.random(len(row)).round(4) for row in self.frame["source_words"]]
        # Keywords that the public code draws by the scores.
        self.keywords = [np.array([score > coins.random() for score in row], dtype=np.float32) for row in self.scores]

    def pairs(self, vocabulary: Vocabulary, mark_all: bool = True) -> PairBatches:
        """Return our batches of the pairs, with the drawn keywords."""
        batch = PairBatches(self.frame, vocabulary, MAX_LENGTH, [self.keywords], True).batch(range(len(self.frame)))
        mask = training_mask(batch["p"], batch["x_lengths"], batch["repeat"] if mark_all else None).float().numpy()
        rows = [np.append(row[:len(words)], np.zeros(max(0, len(words) - len(row)), np.float32))
                for row, words in zip(mask, self.frame["source_words"], strict=True)]
        return PairBatches(self.frame, vocabulary, MAX_LENGTH, [rows])

    @cached_property
    def marked(self) -> PairBatches:
        """The pairs with the tags of the public list."""
        return self.pairs(self.listed)

    @cached_property
    def theirs(self) -> tuple[list[Tensor], dict[int, str]]:
        """The tensors of the pairs from the public code's loader, and its tokens by id."""
        kinds = (("sen", "words", str), ("question", "words", str), ("pos", "tags", "[{}]".format))
        columns = {f"{kind}{number}": [" ".join(map(form, row)) for row in self.frame[f"{side}_{of}"]]
                   for number, side in enumerate(_SIDES, 1) for kind, of, form in kinds}
        columns |= {"bert_sen1": self.texts, "xy_scores": [" ".join(map(str, row)) for row in self.scores]}
        path, words = self.work / "scored.csv", str(self.work / "words")
        pd.DataFrame(columns).to_csv(path, index=False)
        choose = definitions(self.folder, "stage_two_data.py", ("kw_by_posibility",), {"random": random})
        chosen = choose["kw_by_posibility"](pd.read_csv(path), mode="xy", random_seed=_COINS)
        table = self.switch(path)
        table.set_s_index([table.word_to_index(*pair) for pair in zip(self.texts, chosen, strict=True)])
        table.to_csv(self.work / "switched.csv")
        return (list(self.loader.load_data_tensor_con(self.work / "switched.csv", words, MAX_LENGTH)),
                self.loader.loadVocab(words)[1])

    def renumbered(self) -> list[Tensor]:
        """Return the public code's tensors with our ids for its tokens."""
        tensors, tokens = self.theirs
        ours = {token.lower(): number for number, token in enumerate(self.listed.tokens)} | {"[unkey]": 5}
        table = torch.tensor([ours[tokens[number]] for number in range(len(tokens))])
        return [table[part] for part in tensors]


def drawn(count: int, seed: int) -> pd.DataFrame:
    """Return distinct pairs of sentences as rows of table ``paraphrase_items``, in lower case."""
    coins = random.Random(seed)
    texts: dict[tuple[str, ...], list[str]] = {}
    while len(texts) < 2 * count:
        tags = coins.choice(_PATTERNS).split()
        words = [coins.choice(_LEXICON[tag].split()) for tag in tags]
        if len(set(words[MAX_LENGTH:]) & set(words[:MAX_LENGTH])) == 0:
            texts[tuple(words)] = tags
    sides = {"source": list(texts.items())[::2], "target": list(texts.items())[1::2]}
    columns = {f"{side}_{kind}": [list(item[place]) for item in items]
               for side, items in sides.items() for place, kind in enumerate(("words", "tags"))}
    none = [[0.0] * len(row) for row in columns["source_words"]]
    others = ("primary_xx", "primary_xy", "primary_s", "primary_textrank")
    scores = dict.fromkeys(("score_xx", "score_xy", *others), none)
    return pd.DataFrame({"example_id": range(count), "reference": 0, "group": range(count), **columns, **scores})


def parity(peer: Path) -> Section:
    """Compare ours with the public code in folder ``peer``, part by part."""
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        given = Given(peer.resolve(), Path(temporary))
        return report([*sequences(given), *losses(given)])


def report(findings: Sequence[Finding]) -> Section:
    """Return the findings as a section; a difference that no switch explains is a disagreement."""
    if wrong := [finding for finding in findings if not finding.same and not finding.switch]:
        raise Disagreement("pgkpr: the public code and ours differ, and no setting explains it: " + "; ".join(
            f"{row.part} ({row.ours}; {row.public}) by {row.difference:.2g}" for row in wrong))
    table = [{"part": row.part, "ours": row.ours, "public": row.public, "switch": row.switch or "–",
              "largest difference": f"{row.difference:.2g}{' (rounding)' if row.rounding and row.same else ''}"}
             for row in findings]
    return Section("Parity, part by part", f"{_PAIRS} pairs of made-up sentences with tags, random weights, fp32, CPU",
                   f"{sum(row.same for row in findings)} of {len(findings)} comparisons show no difference but "
                   f"rounding (up to {_ROUNDING:.0e}); the others have the setting that causes them", [table], [
                       "Not compared: scores of words, PSI, IANet, its S-Tagger and the plain Transformer (done at "
                       "commit 5c62e87); Latent-BOW's code (FranxYao/dgm_latent_bow, TensorFlow 1); ROUGE, a package; "
                       "the preparation of pairs, which needs an old pandas."])


def sequences(given: Given) -> Iterator[Finding]:
    """Compare sources, targets of reconstruction, targets and counterparts, token by token."""
    renumbered, tokens = given.renumbered(), given.theirs[1]
    names = ("perturbed source", "what is reconstructed", "target", "counterpart of the contrast")
    script = "SwitchPOS, kw_by_posibility, load_data_tensor_con"
    for name, ours, other in zip(names, their_tensors(given.marked), renumbered, strict=True):
        differing = float((ours != other).sum())
        yield Finding(name, "train_pgkpr.preset released, tags of the public list", script, differing)
    once = their_tensors(given.pairs(given.listed, mark_all=False))[0]
    yield Finding(names[0], "with keywords.mark_all: false", script, float((once != renumbered[0]).sum()),
                  "train_pgkpr.keywords.mark_all")
    numbered = their_tensors(given.pairs(given.vocabulary))[0].flatten().tolist()
    unlisted = sum(given.vocabulary.tokens[number].strip("[]") in _UNLISTED for number in numbered)
    yield Finding(names[0], "all tags of the Penn set", script, float(unlisted), _DOCUMENT + "Which tags?")
    lost = [given.switch.word_to_index(text.capitalize(), text.split()[:1]) for text in given.texts].count("-1")
    yield Finding("keyword with a capital", "found by its place", "SwitchPOS.word_to_index, text as written",
                  float(lost), _DOCUMENT + "Differences without a setting")
    normalise = definitions(given.folder, "evaluation.py", ("normalize_txt",), {})["normalize_txt"]
    numbers = {token: number for number, token in tokens.items()}
    targets = given.frame["target_words"]
    cut = normalise([" ".join(row) for row in targets], numbers, tokens, "[unk]")
    yield Finding("references that are scored", "ref_norm released", "evaluation.normalize_txt", float(sum(
        released_form(row, given.vocabulary.word_numbers, 16) != other
        for row, other in zip(targets, cut, strict=True))))


@torch.no_grad()
def losses(given: Given) -> list[Finding]:
    """Compare PGKPR's losses, and its outputs, with the public code's weights in ours."""
    model = their_model(given.folder, given.listed.size).eval()
    rewriter = carried(model, given.listed.size).eval()
    source, labels, target, pair = given.renumbered()
    batch = loaded(given.folder, "Model.transformer.train").Batch(source, target)
    _, states, scores, words = model(batch.src, batch.trg, batch.src_mask, batch.trg_mask)
    _, others = model.encode(pair, (pair != PAD).unsqueeze(-2))
    released, default = part_weights(rewriter.config), part_weights(RewriterConfig())
    names = definitions(given.folder, "stage_two_quora.py", ("SPLoss", "ContrastiveLoss"), {"nn": nn, "torch": torch})
    loss = names["SPLoss"](given.listed.size, released["reconstruction"], released["contrast"])
    public_losses = loss(scores, labels, words, batch.trg_y, states, others, batch.src, pair)
    items = range(len(given.frame))
    own_batch = given.marked.batch(items)
    mask = own_batch["p"].bool()
    counts = part_counts(given.marked, items, rewriter.config)
    parts = {name: value / counts[name] for name, value in rewriter.sums(own_batch, mask).items()}
    masked = rewriter.sums({**own_batch, "group": own_batch["group"] // 2}, mask)["contrast"] / len(items)
    setting, public = "train_pgkpr.preset released", "SPLoss of stage_two_quora.py"
    findings = [Finding("loss: contrast", "two pairs of each image", public, abs(float(masked - public_losses[2])),
                        _DOCUMENT + "Another caption of the same image?")]
    findings += [Finding(f"loss: {name}", setting, public, abs(float(parts[name] - its)), rounding=_ROUNDING)
                 for name, its in zip(("reconstruction", "generation", "contrast"), public_losses, strict=False)]
    total, plain = (abs(float(sum(of[name] * value for name, value in parts.items()) - public_losses[3]))
                    for of in (released, default))
    findings += [Finding("loss: total", setting, public, total, rounding=_ROUNDING),
                 Finding("loss: total", "default weights", public, plain,
                         "train_pgkpr.reconstruction.weight, train_pgkpr.contrast.weight")]
    greedy = definitions(given.folder, "evaluation.py", ("greedy_decode",), {
        "torch": torch, "Variable": torch.as_tensor,
        "subsequent_mask": loaded(given.folder, "Model.transformer.model").subsequent_mask})["greedy_decode"]
    wanted = until_end(greedy(model, batch.src, batch.src_mask, STEPS + 1, BOS))
    for ours, banned in (("nothing banned", []), ("tags and special tokens banned", given.listed.banned(unknown=True))):
        outputs = rewriter.rewrite(own_batch, mask, Rules(EOS, PAD, 0, STEPS, banned))
        outputs = F.pad(outputs, (0, wanted.shape[1] - outputs.shape[1]), value=PAD)
        findings.append(Finding("greedy outputs", ours, "evaluation.greedy_decode",
                                float((outputs != wanted).any(-1).sum()),
                                _DOCUMENT + "Differences without a setting" if banned else ""))
    return findings


def their_model(folder: Path, words: int) -> Any:
    """Return the public code's model, with random norms and biases, since initial values would hide errors."""
    torch.manual_seed(SEED)
    model = loaded(folder, "Model.SPTransformerFine").PGKPR(
        _SIZES["width"], words, nhead=_SIZES["heads"], num_encoder=_SIZES["layers"], num_decoder=_SIZES["layers"],
        d_ff=_SIZES["feed_forward"], dropout=0.1, mid_loss=True, double_pe=False, shared_emb=True)
    model.encoder.return_layer = _SIZES["layers"]
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def their_tensors(pairs: PairBatches) -> list[Tensor]:
    """Return our tensors in the form of the public code's loader: sources, reconstructions, targets, counterparts."""
    batch = pairs.batch(range(_PAIRS))
    ids, labels, _ = perturbed(batch["x_ids"], batch["x_tags"], batch["p"].bool(), batch["x_lengths"])
    others, _ = counterpart(batch["t_ids"], batch["t_tags"], batch["t_lengths"], "pos_sent")
    targets = F.pad(batch["y_out"], (1, 0), value=BOS)
    return [F.pad(part, (0, _WIDTH - part.shape[1]), value=PAD)
            for part in (ids, labels.masked_fill(labels == IGNORE, PAD), targets, others)]


def until_end(outputs: Tensor) -> Tensor:
    """Return their outputs (B, 17), which begin with <s> and continue after </s>, as ours: to </s>, then padding."""
    words = F.pad(outputs[:, 1:], (0, 1), value=EOS)  # at most 16 words, and an end
    return words.masked_fill((words == EOS).long().cumsum(-1) - (words == EOS).long() > 0, PAD)


def carried(public_model: Any, words: int) -> Rewriter:
    """Return our model under preset released with their weights.

    Their LayerNorm divides by the deviation with n - 1 in its denominator, plus 1e-6: ours has their weights times
    sqrt((n - 1) / n), and an epsilon near 0.
    """
    values = TrainPgkpr.model_validate({"preset": "released"}).model_dump()
    values["sizes"] |= _SIZES
    rewriter = rewriter_of(RewriterConfig.from_params(values, words))
    factor = sqrt((_SIZES["width"] - 1) / _SIZES["width"])
    for name, its_name in _names():
        module, its = rewriter.get_submodule(name), public_model.get_submodule(its_name)
        with torch.no_grad():
            for part, parameter in module.named_parameters(recurse=False):
                if hasattr(its, "a_2"):
                    parameter.copy_(factor * its.a_2 if part == "weight" else its.b_2)
                else:
                    parameter.copy_(getattr(its, part))
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-12 if hasattr(its, "a_2") else its.eps
    return rewriter


def _names() -> Iterator[tuple[str, str]]:
    """Yield the names of our modules that hold parameters, and of theirs."""
    yield from (("embedder.words", "src_embed_pos.0.lut"), ("generator", "generator.proj"),
                ("reconstruction.dense", "mid_cls.transform.dense"),
                ("reconstruction.norm", "mid_cls.transform.LayerNorm"),
                ("reconstruction.output", "mid_cls.decoder"))
    attentions = {"encoder": {"attention": "self_attn"},
                  "decoder": {"self_attention": "self_attn", "cross_attention": "src_attn"}}
    for stack, named in attentions.items():
        yield f"{stack}.norm", f"{stack}.norm"
        for layer in (f"{stack}.layers.{number}" for number in range(_SIZES["layers"])):
            yield f"{layer}.widen", f"{layer}.feed_forward.w_1"
            yield f"{layer}.narrow", f"{layer}.feed_forward.w_2"
            yield from ((f"{layer}.norms.{place}", f"{layer}.sublayer.{place}.norm")
                        for place in range(len(named) + 1))
            for name, of in named.items():
                yield from ((f"{layer}.{name}.{part}", f"{layer}.{of}.linears.{place}")
                            for place, part in enumerate(("query", "key", "value", "output")))


def loaded(folder: Path, name: str) -> ModuleType:
    """Import a module of the public code from ``folder`` again."""
    _source(folder, f"{name.replace('.', '/')}.py")
    package = name.split(".")[0]
    for other in [other for other in sys.modules if other.split(".")[0] == package]:
        del sys.modules[other]
    sys.path.insert(0, str(folder))
    try:
        return import_module(name)
    except (ImportError, SyntaxError) as error:
        raise InputError(f"--peer: {folder} cannot be imported: {error}. Name {WANTED}, and install its "
                         f"requirements.") from error
    finally:
        sys.path.remove(str(folder))


def definitions(folder: Path, file: str, names: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return functions and classes of a script without running it; ``given`` are their global names."""
    path = _source(folder, file)
    body: list[ast.stmt] = [part for part in ast.parse(path.read_text(encoding="utf-8")).body
                            if isinstance(part, ast.FunctionDef | ast.ClassDef) and part.name in names]
    namespace = dict(given)
    exec(compile(ast.Module(body, []), str(path), "exec"), namespace)
    if missing := [name for name in names if name not in namespace]:
        raise InputError(f"--peer: {path} has no {missing[0]}; name a checkout of the commit that was measured.")
    return namespace


def _source(folder: Path, file: str) -> Path:
    if not (folder / file).is_file():
        raise InputError(f"--peer: {folder / file} is missing; name {WANTED}.")
    return folder / file
