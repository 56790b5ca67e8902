"""PGKPR: a training step and greedy decoding, ours and the authors' public code.

The public code cannot ship with us: ``--peer`` names a checkout of github.com/DaSESmartEdu/PGKPR. First its parts run
beside ours (``benchmarks.pgkpr_parity``). What is timed imports its package ``Model`` alone: its scripts need a GPU and
data of their own; what their loops do at each step is done here in the same order, from our description of the method
(METHODS C).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import isfinite, sqrt
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.gpu.texts import drawn_pairs
from benchmarks.harness import Context, Disagreement, Section, threads
from benchmarks.pgkpr_parity import parity
from benchmarks.public_pgkpr import (
    MAX_LENGTH,
    PEER,
    STEPS,
    Job,
    Sizes,
    carried,
    paired,
    their_losses,
    their_model,
    their_outputs,
    their_tensors,
    theirs,
    until_end,
)
from benchmarks.trainings import (
    SEED,
    Clock,
    Ran,
    Sides,
    device,
    looped,
    of_clocks,
    place,
    sides,
    take_turns,
)
from models.common.decoding import Rules
from models.common.training.batches import POOL
from models.pgkpr.auto import rewriter_of
from models.pgkpr.base import Rewriter
from models.pgkpr.special import EOS, PAD
from stages.common.training import loop_settings
from stages.run.errors import InputError
from stages.tracks.pgkpr.batches import PairBatches
from stages.tracks.pgkpr.task import RewriteTask, Totals, part_weights
from stages.tracks.pgkpr.vocabulary import Vocabulary

_THREADS = 1
_SHORTEST, _LONGEST = 6, 16  # words of drawn texts
_TAGS = 45
_CLOSE = 1e-4
_TOKENS = 11  # that outputs which end have on average, about as many as the questions of Quora
_HALVINGS = 7  # of the range in which the score of </s> is sought that makes them so


_SIZES = (Sizes("the sizes of recipe cpu-pgkpr-quora", 2, 4, 256, 512), Sizes("the paper's sizes", 6, 8, 512, 2048))
_QUICK = (Sizes("tiny", 2, 2, 16, 32, words=40, batch_size=4, similar=2),)


def run(context: Context) -> list[Section]:
    """Compare both part by part, check that they compute the same of the same weights, then time steps and decoding.

    Raises:
        Disagreement: a part, parameters, losses, gradients or outputs differ, or a loss is not finite.
        InputError: no folder of the public code is given, or it is another.
    """
    if context.peer is None:
        raise InputError(f"name {PEER.wanted} with --peer; it cannot ship with us.")
    PEER.load(context.peer)
    with threads(_THREADS), sides(context.quick, _THREADS, deterministic=False) as where:
        return [parity(context.peer)] + [section for sizes in (_QUICK if context.quick else _SIZES)
                                         for section in _sections(_job(sizes, context.peer), context.repeats, where)]


def _sections(job: Job, repeats: int, where: Sides) -> list[Section]:
    theirs = their_model(job)
    mine = carried(theirs, job).eval()
    theirs.eval()
    batch, mask = _sources(job)
    equal = f"{_counts(mine, theirs)}; {_agreement(mine, theirs, job)}"
    never = _decoding(mine, theirs, job, repeats, (batch, mask), "no output ends")
    _let_end(mine, theirs, batch, mask)
    ends = _decoding(mine, theirs, job, repeats, (batch, mask), "outputs end at different lengths")
    return [_steps(job, equal, repeats, where), never, ends]


@torch.no_grad()
def _let_end(mine: Rewriter, theirs: Any, batch: Mapping[str, Tensor], mask: Tensor) -> None:
    """Add to the score of </s> in both models what makes random outputs end after about ``_TOKENS`` on average."""
    low, high = 0.0, 2.0
    bias: Tensor = mine.generator.bias  # type: ignore[assignment, union-attr]
    before = float(bias[EOS])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        bias[EOS] = before + middle
        tokens = (mine.rewrite(batch, mask, Rules(EOS, PAD, 0, STEPS)) != PAD).sum(-1).float().mean()
        low, high = (middle, high) if tokens > _TOKENS else (low, middle)
    for generator in (bias, theirs.generator.proj.bias):
        generator[EOS] = before + high


# Timing


def _steps(job: Job, agreement: str, repeats: int, where: Sides) -> Section:
    sizes = job.sizes
    similar = replace(job, pairs=_of_similar_length(job), similar=True)
    contenders: dict[str, Callable[[], Ran]] = {
        "ours": partial(where.stage, ours, job),
        "public code": partial(where.plain, theirs, job),
        "public code, freed memory kept": partial(where.kept, theirs, job),
        "ours, batches of similar length": partial(where.stage, ours, similar),
        "ours, bf16": partial(where.stage, ours, replace(job, precision="bf16"))}
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
    rules = Rules(EOS, PAD, 0, STEPS)
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
                f"{STEPS} words (here {lengths:.1f} on average with the end token); fp32, {place()}, {_THREADS} "
                f"thread, encoder included")
    return Section(f"Greedy decoding, {job.sizes.name}, {how}", workload, agreement, rows,
                   [of_clocks(table), *_DECODING_NOTES], table)


_STEP_NOTES = [
    "Ours is the training loop as stage train_pgkpr runs it under preset released, so with dropout inside the "
    "feed-forward networks and without clipping, with freed memory kept, deterministic algorithms and fused Adam; the "
    "public code does not fuse, and is spared its progress bar and its log. Batches of similar length are what the "
    "stage takes unless told otherwise: here three, at even distances in a sorted pool of 50, the first step counted.",
    "What the public code does otherwise: a LayerNorm of its own, which divides by the unbiased deviation; scores of "
    "words normalised twice, and the last encoder states too; a contrast that reads layer 6, here set to the last one "
    "where there are fewer."]
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


def ours(job: Job) -> Ran:
    """Train with :func:`models.common.training.fit`."""
    torch.manual_seed(SEED)
    training = job.values["training"]
    model = rewriter_of(job.config)
    nn.Module.to(model, device())
    task = RewriteTask(model, job.pairs, job.pairs, training["learning_rate"], training["micro_batch"])
    found = looped(task, loop_settings(training), skip=0 if job.similar else 1)
    if job.similar:  # one figure for batches of different length
        found.seconds, found.processor = [mean(found.seconds)], [mean(found.processor)]
    return found


# Agreement


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
    theirs, mine = until_end(theirs), F.pad(mine, (0, STEPS + 1 - mine.shape[1]), value=PAD)
    same = int((mine == theirs).all(-1).sum())
    if same < len(mine):
        raise Disagreement(f"pgkpr: {len(mine) - same} of {len(mine)} outputs differ from the public code's")
    return (f"with the public code's weights in ours, {same} of {len(mine)} outputs equal token for token",
            float((mine != PAD).sum(-1).float().mean()))


# Texts


def _job(sizes: Sizes, folder: Path) -> Job:
    vocabulary = Vocabulary.counted({f"word{number}": 1 for number in range(sizes.words)},
                                    {f"TAG{number}": 1 for number in range(_TAGS)}, sizes.words)
    lengths = _lengths(np.random.default_rng(SEED), sizes.batch_size * sizes.steps)
    return Job(sizes, vocabulary, _drawn(vocabulary, lengths), folder.resolve())


def _lengths(random: np.random.Generator, count: int) -> np.ndarray:
    return random.integers(_SHORTEST, _LONGEST + 1, (count, 2))


def _drawn(vocabulary: Vocabulary, lengths: np.ndarray) -> PairBatches:
    """Return pairs of random words and tags of the lengths (count, 2)."""
    return drawn_pairs(vocabulary, dict(zip(("source", "target"), lengths.T, strict=True)), MAX_LENGTH, SEED)


def _of_similar_length(job: Job) -> PairBatches:
    """Return some batches of a pool that is sorted as the training loop sorts it, at even distances."""
    size, some = job.sizes.batch_size, job.sizes.similar
    lengths = _lengths(np.random.default_rng(SEED), POOL * size)
    lengths = lengths[np.argsort(lengths.sum(-1), kind="stable")].reshape(POOL, size, 2)
    chosen = [(2 * number + 1) * POOL // (2 * some) for number in range(some)]
    return _drawn(job.vocabulary, lengths[chosen].reshape(-1, 2))


def _sources(job: Job) -> tuple[dict[str, Tensor], Tensor]:
    """Return the sources of the first batch, and which of their words are keywords."""
    batch = {name: part.to(device()) for name, part in job.pairs.batch(range(job.sizes.batch_size)).items()}
    return {name: batch[name] for name in ("x_ids", "x_tags", "x_lengths")}, batch["p"].bool()
