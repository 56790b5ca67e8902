"""Contrasts between all items of a batch that takes several forward passes: gradient caching.

Gao et al. 2021 (Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup): each micro-batch goes
through the network once for its vectors alone; the contrast of all vectors gives the gradient by each of them; then
each micro-batch goes through again, under the same seed, and is differentiated from its own vectors' gradient on. That
is the gradient of the whole batch, with the memory of a micro-batch and one forward pass more.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, distributed

from models.training.parallel import place
from models.training.task import Batch, Contrasting, Parts, Step


class CachedContrast:
    """The contrast of one step's batch, and its gradient by the vectors of this process's micro-batches.

    Args:
        task: what is trained.
        step: the optimiser step.
        runs: the items of every micro-batch of the step, in order.
        own: the micro-batches of this process, by their place among ``runs``.
        begun: given such a place, seeds what the micro-batch draws and sets the precision of a block.

    Attributes:
        parts: of the loss, this process's share; the first is ``loss``.
    """

    def __init__(self, task: Contrasting, step: Step, runs: Sequence[Sequence[int]], own: Sequence[tuple[int, Batch]],
                 begun: Callable[[int], AbstractContextManager[object]]) -> None:
        found = {}
        for number, batch in own:
            # With a graph, dropped at once: without one torch may choose other kernels, which draw other dropout.
            with begun(number):
                found[number] = task.train_apart(batch, step)[2].detach()
        ends = torch.tensor([len(run) for run in runs]).cumsum(0).tolist()
        self._rows = {number: slice(ends[number] - len(runs[number]), ends[number]) for number in found}
        parameter = next(task.module.parameters())
        vectors = _together(found, self._rows, ends[-1], parameter).requires_grad_()  # (B, W)
        with begun(0):
            loss, parts = task.contrast(vectors, step)
        self._gradient, = torch.autograd.grad(loss, vectors)
        # Every process has the contrast of the whole batch, and counts its share of it.
        self.parts: Parts = {name: value / place()[1] for name, value in {"loss": loss, **parts}.items()}

    def gradient(self, number: int, vectors: Tensor) -> Tensor:
        """Return the gradient of the contrast by the ``vectors`` of a micro-batch."""
        return self._gradient[self._rows[number]].to(vectors.dtype)


def _together(found: dict[int, Tensor], rows: dict[int, slice], count: int, like: Tensor) -> Tensor:
    """Return the vectors (B, W) of all processes' micro-batches, in the precision of ``like``, the weights'."""
    width = max((len(part[0]) for part in found.values()), default=0)
    shared = place()[1] > 1
    if shared:  # one that has no micro-batch does not know it
        widest = torch.tensor(width, device=like.device)
        distributed.all_reduce(widest, distributed.ReduceOp.MAX)
        width = int(widest)
    vectors = torch.zeros(count, width, dtype=like.dtype, device=like.device)
    for number, part in found.items():
        vectors[rows[number]] = part.to(like.dtype)
    if shared:  # a row is of one process, and the others add 0
        distributed.all_reduce(vectors)
    return vectors
