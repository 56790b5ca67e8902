"""Whether a device computes what the CPU does: loss, gradient and outputs of the same weights."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.sizes import Job
from benchmarks.gpu.subjects import Subject, subject_of
from benchmarks.gpu.texts import SEED
from models.common.training import Step
from models.common.training.batches import moved
from stages.common.seeds import derived_seed, seed_everything

Figures = dict[str, Any]
TOLERANCE = 1e-3   # of losses and gradients, in fp32, relative to the CPU's
LOOSE = 5e-2       # of losses in bf16
_TIE = 1e-3        # difference of two scores that may fall either way


def agreement(job: Job) -> Figures:
    """Compare a training step and outputs of the device with those of the CPU in fp32, from the same weights."""
    subject, count = begin(job), job.size.compared
    (loss, gradient), (cpu_loss, cpu_gradient) = (
        _gradients(subject, device, precision, count)
        for device, precision in ((job.device, job.precision), ("cpu", "fp32")))
    whole = sum(float(part.square().sum()) for part in cpu_gradient.values()) ** 0.5
    apart = {name: float((gradient[name] - part).norm()) for name, part in cpu_gradient.items()}
    worst = max(apart, key=lambda name: apart[name])
    found = {"loss": loss, "loss apart": abs(loss - cpu_loss) / abs(cpu_loss),
             "gradient apart": sum(value**2 for value in apart.values()) ** 0.5 / whole,
             "furthest parameter": worst, "items": count, **_outputs_apart(subject, job, count)}
    return {**found, **_judged(found, job.precision)}


def _gradients(subject: Subject, device: str, precision: str, count: int) -> tuple[float, dict[str, Tensor]]:
    """Return loss and gradient of one micro-batch without dropout, the latter in double precision on the CPU."""
    task = subject.task(count, device, dropout=False)
    task.module.train()
    batch = {name: tensor.to(device) for name, tensor in task.load(range(count)).items()}
    with autocast(device, precision):
        loss, _ = task.train_batch(batch, Step(0, 1, 0, range(count)))
    loss.backward()
    return loss.item(), {name: one.grad.cpu().double() for name, one in task.module.named_parameters()
                         if one.grad is not None}


def _outputs_apart(subject: Subject, job: Job, count: int) -> Figures:
    """Compare greedy outputs, or classes; of those that differ, say by how much the CPU prefers its own."""
    batch, model = subject.inputs(count), subject.model(dropout=False).eval()
    mine = subject.outputs(model, batch, 1)
    margins_of = partial(_class_margins, mine) if mine.is_floating_point() else partial(
        first_margins, *subject.stepper(model, batch), mine)
    there = torch.nn.Module.to(subject.model(dropout=False).eval(), job.device)
    with autocast(job.device, job.precision):
        other = subject.outputs(there, moved(batch, torch.device(job.device)), 1).cpu()
    margins = margins_of(other)
    return {"equal outputs": count - len(margins), "largest margin of the others": max(margins, default=0.0)}


def _class_margins(mine: Tensor, other: Tensor) -> list[float]:
    """Return by how much the CPU's scores ``mine`` prefer its class, where ``other`` has another one."""
    first, second = mine.argmax(-1), other.argmax(-1)
    rows = (first != second).nonzero().squeeze(-1)
    return (mine[rows, first[rows]] - mine[rows, second[rows]]).tolist()


@torch.no_grad()
def first_margins(steps: Any, start: Tensor, mine: Tensor, other: Tensor) -> list[float]:
    """Return, for each output (row) that differs, by how much its first differing token is preferred to the other.

    Args:
        steps: takes decoding steps of the model that made ``mine``.
        start: first token of each output (B,).
        mine: tokens (B, L).
        other: tokens (B, L').
    """
    longest = max(mine.shape[1], other.shape[1])
    mine, other = (torch.nn.functional.pad(part, (0, longest - part.shape[1])) for part in (mine, other))
    open_rows, tokens, margins = (mine != other).any(-1), start, []
    for place in range(longest):
        if not bool(open_rows.any()):
            break
        logits = steps.logits(steps.step(tokens.unsqueeze(1))).squeeze(1)  # (B, V)
        here = open_rows & (mine[:, place] != other[:, place])
        for row in here.nonzero().squeeze(-1).tolist():
            margins.append(float(logits[row, mine[row, place]] - logits[row, other[row, place]]))
        open_rows, tokens = open_rows & ~here, mine[:, place]
    return margins


def _judged(found: Mapping[str, Any], precision: str) -> Figures:
    """Say what is further apart than it may be; in bf16, loss alone is judged."""
    exact = precision == "fp32"
    limits = {"loss apart": TOLERANCE if exact else LOOSE} | (
        {"gradient apart": TOLERANCE, "largest margin of the others": _TIE} if exact else {})
    wrong = [f"{name} {found[name]:.2g}, more than {limit:g}" for name, limit in limits.items()
             if not found[name] <= limit]
    return {"problem": "; ".join(wrong)} if wrong else {}


def begin(job: Job) -> Subject:
    """Set this process up as a stage does: seeds, deterministic algorithms."""
    seed_everything(derived_seed(SEED, "gpu"), torch.get_num_threads(), deterministic=True)
    return subject_of(job)


def autocast(device: str, precision: str) -> torch.autocast:
    """Return the precision of products as a block."""
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bf16")
