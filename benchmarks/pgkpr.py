"""PGKPR: a training step and greedy decoding, ours and the authors' public code.

The public code cannot ship with us: ``--peer`` names a checkout of github.com/DaSESmartEdu/PGKPR, of which the package
``Model`` is imported and nothing else. Its scripts need a GPU and data of their own; what their loops do at each step
is done here in the same order, from our description of the method (METHODS C).
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, sqrt
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.harness import Context, Disagreement, Section
from benchmarks.peers import PEERS
from benchmarks.trainings import Call, Clock, Nowhere, Ran, device, here, of_clocks, place, process, take_turns
from models.decoding import Rules
from models.rewriters.auto import rewriter_of
from models.rewriters.base import Rewriter
from models.rewriters.config import RewriterConfig
from models.rewriters.sequences import counterpart, perturbed
from models.rewriters.special import BOS, EOS, IGNORE, PAD
from models.training import Step, epoch_batches, fit
from models.training.batches import POOL
from stages.params.pgkpr import TrainPgkpr
from stages.runtime.errors import InputError
from stages.runtime.seeds import derived_seed
from stages.runtime.training import loop_settings
from stages.tracks.pgkpr.batches import PairBatches
from stages.tracks.pgkpr.task import RewriteTask, Totals, part_weights
from stages.tracks.pgkpr.vocabulary import Vocabulary

PEER = PEERS["pgkpr"]
_SEED, _THREADS = 13, 1
_SHORTEST, _LONGEST, _MAX_LENGTH = 6, 16, 17  # words of drawn texts, and what a model reads at most
_WIDTH = 2 * _MAX_LENGTH + 3  # of every sequence of the public code
_STEPS = 16  # words that it decodes: one less than 17
_TAGS = 45
_CLOSE = 1e-4
_TOKENS = 11  # that outputs which end have on average, about as many as the questions of Quora
_HALVINGS = 7  # of the range in which the score of </s> is sought that makes them so


@dataclass(frozen=True)
class Sizes:
    """How large models and batches are.

    Attributes:
        name: in titles.
        steps: of a training; the first is not counted.
        similar: batches of similar length that one training of their own takes.
    """

    name: str
    layers: int
    heads: int
    width: int
    feed_forward: int
    words: int = 8000
    batch_size: int = 64
    steps: int = 2
    similar: int = 3

    def __str__(self) -> str:
        return (f"{self.layers}+{self.layers} layers, {self.heads} heads, width {self.width}, feed-forward "
                f"{self.feed_forward}, {self.words:,} words")


_SIZES = (Sizes("the sizes of recipe cpu-pgkpr-quora", 2, 4, 256, 512), Sizes("the paper's sizes", 6, 8, 512, 2048))
_QUICK = (Sizes("tiny", 2, 2, 16, 32, words=40, batch_size=4, similar=2),)


@dataclass(frozen=True)
class Job:
    """One training: of what, on what, how.

    Attributes:
        folder: of the public code.
        pairs: to learn; their keywords are fixed.
        similar: take batches of similar length.
    """

    sizes: Sizes
    vocabulary: Vocabulary
    pairs: PairBatches
    folder: Path
    precision: str = "fp32"
    similar: bool = False

    @property
    def values(self) -> dict[str, Any]:
        """The block ``train_pgkpr`` that stands for it: the public code's losses and rates."""
        values = TrainPgkpr.model_validate({"preset": "released"}).model_dump()
        sizes = self.sizes
        values["sizes"] |= {"layers": sizes.layers, "heads": sizes.heads, "width": sizes.width,
                            "feed_forward": sizes.feed_forward}
        values["training"] |= {"epochs": 1, "batch_size": sizes.batch_size, "micro_batch": sizes.batch_size,
                               "learning_rate": 1e-4, "precision": self.precision, "bucket": self.similar}
        return values

    @property
    def config(self) -> RewriterConfig:
        """Of our model."""
        return RewriterConfig.from_params(self.values, self.vocabulary.size, _MAX_LENGTH)


def run(context: Context) -> list[Section]:
    """Check that both compute the same of the same weights, then time steps and decoding.

    Raises:
        Disagreement: parameters, losses, gradients or outputs differ, or a loss is not finite.
        InputError: no folder of the public code is given, or it is another, or a file is given.
    """
    if context.peer is None:
        raise InputError(f"name {PEER.wanted} with --peer; it cannot ship with us.")
    if context.input is not None:
        raise InputError("pgkpr draws its texts; leave out --input.")
    PEER.load(context.peer)
    before = torch.get_num_threads()
    torch.set_num_threads(_THREADS)
    try:
        with ExitStack() as stack:
            sides = _sides(stack, context.quick)
            return [section for sizes in (_QUICK if context.quick else _SIZES)
                    for section in _sections(_job(sizes, context.peer), context.repeats, sides)]
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class _Sides:
    """Processes that train: ours, with the settings of our stages; a plain one; a plain one that keeps memory."""

    stage: Call
    plain: Call
    kept: Call


def _sides(stack: ExitStack, quick: bool) -> _Sides:
    if quick:
        same = stack.enter_context(here(deterministic=False))
        return _Sides(same, same, same)
    return _Sides(*(stack.enter_context(process(_THREADS, keep, deterministic))
                    for keep, deterministic in ((True, True), (False, False), (True, False))))


def _sections(job: Job, repeats: int, sides: _Sides) -> list[Section]:
    theirs = their_model(job)
    mine = carried(theirs, job).eval()
    theirs.eval()
    batch, mask = _sources(job)
    equal = f"{_counts(mine, theirs)}; {_agreement(mine, theirs, job)}"
    never = _decoding(mine, theirs, job, repeats, (batch, mask), "no output ends")
    _let_end(mine, theirs, batch, mask)
    ends = _decoding(mine, theirs, job, repeats, (batch, mask), "outputs end at different lengths")
    return [_steps(job, equal, repeats, sides), never, ends]


@torch.no_grad()
def _let_end(mine: Rewriter, theirs: Any, batch: Mapping[str, Tensor], mask: Tensor) -> None:
    """Add to the score of </s> in both models what makes random outputs end after about ``_TOKENS`` on average."""
    low, high = 0.0, 2.0
    bias: Tensor = mine.generator.bias  # type: ignore[assignment, union-attr]
    before = float(bias[EOS])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        bias[EOS] = before + middle
        tokens = (mine.rewrite(batch, mask, Rules(EOS, PAD, 0, _STEPS)) != PAD).sum(-1).float().mean()
        low, high = (middle, high) if tokens > _TOKENS else (low, middle)
    for generator in (bias, theirs.generator.proj.bias):
        generator[EOS] = before + high


# Timing


def _steps(job: Job, agreement: str, repeats: int, sides: _Sides) -> Section:
    sizes = job.sizes
    similar = replace(job, pairs=_of_similar_length(job), similar=True)
    contenders: dict[str, Callable[[], Ran]] = {
        "ours": partial(sides.stage, ours, job),
        "public code": partial(sides.plain, theirs, job),
        "public code, freed memory kept": partial(sides.kept, theirs, job),
        "ours, batches of similar length": partial(sides.stage, ours, similar),
        "ours, bf16": partial(sides.stage, ours, replace(job, precision="bf16"))}
    rows, table, losses = take_turns(contenders, repeats, sizes.batch_size, "pairs")
    if not all(map(isfinite, losses)):
        raise Disagreement("pgkpr: a loss is not finite")
    shown = [len(part[0]) for part in their_tensors(job, range(sizes.batch_size))]
    batch = job.pairs.batch(range(sizes.batch_size))
    workload = (f"{sizes}; batches of {sizes.batch_size} pairs of {_SHORTEST} to {_LONGEST} words (sources "
                f"{float(batch['x_lengths'].float().mean()):.1f} on average), drawn from a seed, fp32 unless it says "
                f"bf16, dropout 0.1, {place()}, {_THREADS} thread; from one step's end to the next's: batch, all three "
                f"losses, backward pass, Adam. The public code pads every source and target to {shown[0]} tokens; ours "
                f"to the longest of the batch, 2 x {_LONGEST} + 3 and {_LONGEST} + 1")
    notes = [f"Public code: {PEER.version(job.folder)}. {of_clocks(table)}", *_STEP_NOTES]
    return Section(f"A training step, {sizes.name}", workload, agreement, rows, notes, table)


def _decoding(mine: Rewriter, theirs: Any, job: Job, repeats: int, sources: tuple[Mapping[str, Tensor], Tensor],
              how: str) -> Section:
    batch, mask = sources
    source = their_tensors(job, range(job.sizes.batch_size))[0].to(device())
    rules = Rules(EOS, PAD, 0, _STEPS)
    loaded = PEER.load(job.folder)

    def without_gradients() -> Tensor:
        with torch.no_grad():
            return their_outputs(theirs, loaded, source)

    agreement, lengths = _same_outputs(mine.rewrite(batch, mask, rules), without_gradients())
    contenders = {"ours": lambda: _timed(lambda: mine.rewrite(batch, mask, rules)),
                  "public code, gradients switched off": lambda: _timed(without_gradients),
                  "public code, as its evaluation calls it":
                      lambda: _timed(lambda: their_outputs(theirs, loaded, source))}
    for work in contenders.values():
        work()
    rows, table, _ = take_turns(contenders, repeats, len(mask), "texts")
    workload = (f"{job.sizes}, random weights; a batch of {len(mask)} texts as above, one output each, greedy, at most "
                f"{_STEPS} words (here {lengths:.1f} on average with the end token); fp32, {place()}, {_THREADS} "
                f"thread, encoder included")
    return Section(f"Greedy decoding, {job.sizes.name}, {how}", workload, agreement, rows,
                   [of_clocks(table), *_DECODING_NOTES], table)


_STEP_NOTES = [
    "Ours is the training loop as stage train_pgkpr runs it, with freed memory kept, deterministic algorithms, fused "
    "Adam and clipping; the public code neither fuses nor clips, and is spared its progress bar and its log. Batches "
    "of similar length are what the stage takes unless told otherwise: here three, at even distances in a sorted pool "
    "of 50, the first step counted.",
    "What the public code does otherwise: dropout inside the feed-forward network "
    "too; a LayerNorm of its own, which divides by the unbiased deviation; scores of words normalised twice, and the "
    "last encoder states too; a contrast that reads layer 6, here set to the last one where there are fewer."]
_DECODING_NOTES = [
    "Ours keeps keys and values, and ends when every output has; the public code computes all positions of every "
    "output at each of 16 steps, whether they have ended or not, and records gradients while it does. No token is "
    "banned on either side."]


def _timed(work: Callable[[], Any]) -> Ran:
    clock = Clock()
    work()
    clock.update()
    return Ran(*clock.spent())


# Our side


class _Fixed(RewriteTask):
    """The task of stage train_pgkpr, without validation."""

    losses: list[Tensor]

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        loss, parts = super().train_batch(batch, step)
        self.losses.append(loss.detach())
        return loss, parts

    def validate(self) -> dict[str, float]:
        return {"loss": 0.0}


def ours(job: Job) -> Ran:
    """Train with :func:`models.training.fit`."""
    torch.manual_seed(_SEED)
    training = job.values["training"]
    model = rewriter_of(job.config)
    nn.Module.to(model, device())
    task = _Fixed(model, job.pairs, job.pairs, training["learning_rate"], training["micro_batch"])
    task.losses = []
    clocks: list[Clock] = []

    def opened(total: int, done: int) -> Clock:
        clocks.append(Clock())
        return clocks[0]

    fit(task, loop_settings(training), Nowhere(), partial(derived_seed, _SEED), opened)
    found = Ran(*clocks[0].spent(skip=0 if job.similar else 1), [float(loss) for loss in task.losses])
    if job.similar:  # one figure for batches of different length
        found.seconds, found.processor = [mean(found.seconds)], [mean(found.processor)]
    return found


# The public code


def their_model(job: Job) -> Any:
    """Return the public code's model of the sizes of ``job``, contrasting the states of the last layer."""
    sizes = job.sizes
    torch.manual_seed(_SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = PEER.load(job.folder)["model"].PGKPR(
            sizes.width, job.vocabulary.size, nhead=sizes.heads, num_encoder=sizes.layers, num_decoder=sizes.layers,
            d_ff=sizes.feed_forward, dropout=0.1, mid_loss=True, double_pe=False, shared_emb=True)
    model.encoder.return_layer = sizes.layers
    return model.to(device())


def their_tensors(job: Job, items: Sequence[int]) -> list[Tensor]:
    """Return what the public code's loader gives of ``items``: sources, their targets of reconstruction, targets, and
    the sequences that sources are contrasted with; all padded to the length of the longest that there may be."""
    batch = job.pairs.batch(items)
    ids, labels, _ = perturbed(batch["x_ids"], batch["x_tags"], batch["p"].bool(), batch["x_lengths"])
    pairs, _ = counterpart(batch["t_ids"], batch["t_tags"], batch["t_lengths"], "pos_sent")
    targets = F.pad(batch["y_out"], (1, 0), value=BOS)
    return [F.pad(part, (0, _WIDTH - part.shape[1]), value=PAD)
            for part in (ids, labels.masked_fill(labels == IGNORE, PAD), targets, pairs)]


def theirs(job: Job) -> Ran:
    """Train the public code's model, with its optimiser, on the same batches in the same order."""
    model, sizes = their_model(job), job.sizes
    batch_of = PEER.load(job.folder)["batches"].Batch
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    order = [item for batch in epoch_batches(len(job.pairs), sizes.batch_size, derived_seed(_SEED, "order", 0))
             for item in batch]
    loader = DataLoader(TensorDataset(*their_tensors(job, range(len(job.pairs)))), sizes.batch_size, sampler=order)
    weights, losses, clock = part_weights(job.config), [], Clock()
    for tensors in loader:
        source, labels, target, pair = (tensor.to(device()) for tensor in tensors)
        parts = their_losses(model, batch_of(source, target), labels, pair)
        loss = torch.stack([weights[name] * value for name, value in parts.items()]).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        clock.update()
    return Ran(*clock.spent(skip=1), losses)


def their_losses(model: Any, batch: Any, labels: Tensor, pair: Tensor) -> dict[str, Tensor]:
    """Return the parts of the loss of a batch, by the public code's model."""
    _, source, tags, words = model(batch.src, batch.trg, batch.src_mask, batch.trg_mask)
    _, target = model.encode(pair, (pair != PAD).unsqueeze(-2))
    anchors, positives = _mean(source, batch.src), _mean(target, pair)
    scores = F.cosine_similarity(anchors.unsqueeze(1), positives.unsqueeze(0), dim=-1) / 0.1
    return {"generation": F.cross_entropy(words.flatten(0, 1), batch.trg_y.flatten(), ignore_index=PAD),
            "reconstruction": F.cross_entropy(tags.flatten(0, 1), labels.flatten(), ignore_index=PAD),
            "contrast": F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))}


def _mean(states: Tensor, tokens: Tensor) -> Tensor:
    real = (tokens != PAD).unsqueeze(-1)
    return (states * real).sum(1) / real.sum(1)


def their_outputs(model: Any, loaded: Mapping[str, ModuleType], source: Tensor) -> Tensor:
    """Return <s> and 16 tokens of each source (B, 17), each the likeliest, by the public code's model."""
    mask = (source != PAD).unsqueeze(-2)
    memory, _ = model.encode(source, mask)
    tokens = source.new_full((len(source), 1), BOS)
    for length in range(1, _STEPS + 1):
        earlier = loaded["parts"].subsequent_mask(length).type_as(source)
        states = model.decode(memory, mask, tokens, earlier)
        tokens = torch.cat([tokens, model.generator(states[:, -1]).argmax(-1, keepdim=True)], dim=1)
    return tokens


# Agreement


def carried(theirs: Any, job: Job) -> Rewriter:
    """Return our model with the weights of theirs, so that both compute the same.

    Their LayerNorm divides by the deviation with n - 1 in its denominator, and adds 1e-6 to that: ours has their
    weights times sqrt((n - 1) / n), and next to nothing added.
    """
    mine = rewriter_of(job.config)
    nn.Module.to(mine, device())
    with torch.no_grad():
        for own, other, factor in paired(mine, theirs):
            own.copy_(factor * other)
    for module in mine.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-12
    return mine


def paired(mine: Rewriter, theirs: Any) -> Iterator[tuple[Tensor, Tensor, float]]:
    """Yield each parameter of ours, that of theirs, and what theirs is to be multiplied with."""
    width = mine.config.sizes["width"]
    factor = sqrt((width - 1) / width)
    for own, other in _names(mine.config.sizes["layers"]):
        module, its = mine.get_submodule(own), theirs.get_submodule(other)
        for name, parameter in module.named_parameters(recurse=False):
            if hasattr(its, "a_2"):
                yield parameter, its.a_2 if name == "weight" else its.b_2, factor if name == "weight" else 1.0
            else:
                yield parameter, getattr(its, name), 1.0


def _names(layers: int) -> Iterator[tuple[str, str]]:
    """Yield the names of our modules that hold parameters, and of theirs."""
    yield from (("embedder.words", "src_embed_pos.0.lut"), ("generator", "generator.proj"),
                ("reconstruction.dense", "mid_cls.transform.dense"),
                ("reconstruction.norm", "mid_cls.transform.LayerNorm"),
                ("reconstruction.output", "mid_cls.decoder"),
                ("encoder.norm", "encoder.norm"), ("decoder.norm", "decoder.norm"))
    stacks = {"encoder": {"attention": "self_attn"},
              "decoder": {"self_attention": "self_attn", "cross_attention": "src_attn"}}
    for stack, attentions in stacks.items():
        for layer in (f"{stack}.layers.{number}" for number in range(layers)):
            yield f"{layer}.widen", f"{layer}.feed_forward.w_1"
            yield f"{layer}.narrow", f"{layer}.feed_forward.w_2"
            yield from ((f"{layer}.norms.{place}", f"{layer}.sublayer.{place}.norm")
                        for place in range(len(attentions) + 1))
            for own, other in attentions.items():
                yield from ((f"{layer}.{own}.{part}", f"{layer}.{other}.linears.{place}")
                            for place, part in enumerate(("query", "key", "value", "output")))


def _counts(mine: nn.Module, theirs: nn.Module) -> str:
    counts = [sum(parameter.numel() for parameter in model.parameters()) for model in (mine, theirs)]
    if counts[0] != counts[1]:
        raise Disagreement(f"pgkpr: ours has {counts[0]:,} parameters, the public code {counts[1]:,}")
    return f"{counts[0]:,} parameters each"


def _agreement(mine: Rewriter, theirs: Any, job: Job) -> str:
    """Say how far losses and gradients of the first batch lie apart, of the same weights and without dropout.

    Raises:
        Disagreement: further than 1e-4.
    """
    items = range(job.sizes.batch_size)
    batch = {name: part.to(device()) for name, part in job.pairs.batch(items).items()}
    own = Totals.of(job.pairs, items).means(mine.sums(batch, batch["p"].bool()), job.config)
    source, labels, target, pair = (part.to(device()) for part in their_tensors(job, items))
    other = their_losses(theirs, PEER.load(job.folder)["batches"].Batch(source, target), labels, pair)
    weights = part_weights(job.config)
    for parts in (own, other):
        torch.stack([weights[name] * value for name, value in parts.items()]).sum().backward()
    loss = max(abs(own[name].item() / value.item() - 1) for name, value in other.items())
    apart = whole = 0.0
    for parameter, its, factor in paired(mine, theirs):
        of_mine, of_theirs = (torch.as_tensor(one.grad).double() for one in (parameter, its))
        apart += float((factor * of_mine - of_theirs).square().sum())
        whole += float(of_theirs.square().sum())
    gradient = sqrt(apart / whole)
    mine.zero_grad()
    theirs.zero_grad()
    if not (loss <= _CLOSE and gradient <= _CLOSE):
        raise Disagreement(f"pgkpr: with the same weights and no dropout, losses differ by {loss:.2g} of theirs, "
                           f"gradients by {gradient:.2g} of their norm")
    return (f"with the public code's weights put into ours, and no dropout, each of the three losses differs by at "
            f"most {loss:.1g} of it, the gradient by {gradient:.1g} of its norm")


def _same_outputs(mine: Tensor, theirs: Tensor) -> tuple[str, float]:
    """Say that outputs (B, L) are those of the public code (B, 17) up to the end token, and how long they are."""
    theirs = F.pad(theirs[:, 1:], (0, 1), value=EOS)  # at most 16 words, and an end
    ended = (theirs == EOS).long().cumsum(-1) - (theirs == EOS).long() > 0
    theirs, mine = theirs.masked_fill(ended, PAD), F.pad(mine, (0, _STEPS + 1 - mine.shape[1]), value=PAD)
    same = int((mine == theirs).all(-1).sum())
    if same < len(mine):
        raise Disagreement(f"pgkpr: {len(mine) - same} of {len(mine)} outputs differ from the public code's")
    return (f"with the public code's weights in ours, {same} of {len(mine)} outputs equal token for token",
            float((mine != PAD).sum(-1).float().mean()))


# Texts


def _job(sizes: Sizes, folder: Path) -> Job:
    vocabulary = Vocabulary.counted({f"word{number}": 1 for number in range(sizes.words)},
                                    {f"TAG{number}": 1 for number in range(_TAGS)}, sizes.words)
    return Job(sizes, vocabulary, _drawn(sizes.batch_size * sizes.steps, vocabulary), folder.resolve())


def _drawn(count: int, vocabulary: Vocabulary, lengths: np.ndarray | None = None) -> PairBatches:
    """Return ``count`` pairs of random words and tags, of the lengths (count, 2) or of random ones; each word of a
    source is a keyword with probability 0.5, drawn once."""
    random = np.random.default_rng(_SEED)
    lengths = _lengths(random, count) if lengths is None else lengths
    words = np.array([token for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True) if kind == "word"])
    tags = np.array([f"TAG{number}" for number in range(_TAGS)])
    columns: dict[str, Any] = {"example_id": range(count), "reference": 0, "group": range(count)}
    for side, of in zip(("source", "target"), lengths.T, strict=True):
        columns |= {f"{side}_words": [random.choice(words, length).tolist() for length in of],
                    f"{side}_tags": [random.choice(tags, length).tolist() for length in of]}
    keywords = [random.integers(0, 2, length).astype(float) for length in lengths[:, 0]]
    scores = ("score_xx", "score_xy", "primary_xx", "primary_xy", "primary_s")
    return PairBatches(pd.DataFrame(columns | {name: keywords for name in scores}), vocabulary, _MAX_LENGTH, [keywords])


def _lengths(random: np.random.Generator, count: int) -> np.ndarray:
    return random.integers(_SHORTEST, _LONGEST + 1, (count, 2))


def _of_similar_length(job: Job) -> PairBatches:
    """Return some batches of a pool that is sorted as the training loop sorts it, at even distances."""
    size, some = job.sizes.batch_size, job.sizes.similar
    lengths = _lengths(np.random.default_rng(_SEED), POOL * size)
    lengths = lengths[np.argsort(lengths.sum(-1), kind="stable")].reshape(POOL, size, 2)
    chosen = [(2 * number + 1) * POOL // (2 * some) for number in range(some)]
    return _drawn(some * size, job.vocabulary, lengths[chosen].reshape(-1, 2))


def _sources(job: Job) -> tuple[dict[str, Tensor], Tensor]:
    """Return the sources of the first batch, and which of their words are keywords."""
    batch = {name: part.to(device()) for name, part in job.pairs.batch(range(job.sizes.batch_size)).items()}
    return {name: batch[name] for name in ("x_ids", "x_tags", "x_lengths")}, batch["p"].bool()
