"""One micro-batch after the other: sums of parts, gradients, and contrasts between all items of a batch."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, distributed, nn

from models.common.training.parallel import place
from models.common.training.task import Batch, Contrasting, Parts, Step


class PartSums:
    """Named sums in double precision; tensors stay where they are until :meth:`read`.

    >>> sums = PartSums()
    >>> sums.add({"loss": torch.tensor(1.5), "share": 0.5})
    >>> sums.add({"loss": torch.tensor(2.0), "share": 0.5})
    >>> sums.read()
    {'loss': 3.5, 'share': 1.0}
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._tensors: list[Tensor] = []
        self._plain: list[tuple[str, float]] = []

    def add(self, parts: Mapping[str, float | Tensor]) -> None:
        """Add plain numbers and 0-d tensors to the sums of their names."""
        for name, value in parts.items():
            if isinstance(value, Tensor):
                self._names.append(name)
                self._tensors.append(value.detach())
            else:
                self._plain.append((name, float(value)))

    def read(self) -> dict[str, float]:
        """Return the sums; all tensors come from the device in one message."""
        numbers = torch.stack([tensor.double() for tensor in self._tensors]).tolist() if self._tensors else []
        sums: dict[str, float] = {}
        for name, value in [*zip(self._names, numbers, strict=True), *self._plain]:
            sums[name] = sums.get(name, 0.0) + value
        return sums


def add_gradients(outputs: Sequence[Tensor], weights: Sequence[Tensor | None],
                  parameters: Sequence[nn.Parameter]) -> None:
    """Add the gradients of ``outputs`` to those that ``parameters`` have.

    A backward pass adds them parameter by parameter, one launch each on a GPU: a sixth of all that a micro-batch
    launches. Here all are added at once, for which they are all held for a moment; the sums are the same to the bit.

    Args:
        outputs: what is differentiated.
        weights: the gradient by each, None for a scalar's 1.
        parameters: all that are trained.
    """
    if all(parameter.grad is None for parameter in parameters):
        torch.autograd.backward(outputs, weights)
        return
    found = torch.autograd.grad(outputs, parameters, weights, allow_unused=True)
    sums, summands = [], []
    for parameter, gradient in zip(parameters, found, strict=True):
        if gradient is None:
            continue
        if parameter.grad is None:
            parameter.grad = gradient.clone(memory_format=torch.contiguous_format)  # it may share its memory
        else:
            sums.append(parameter.grad)
            summands.append(gradient)
    if sums:
        torch._foreach_add_(sums, summands)


class CachedContrast:
    """The contrast of one step's batch, and its gradient by the vectors of this process's micro-batches.

    Gradient caching (Gao et al. 2021, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup): each
    micro-batch goes through the network once for its vectors alone; the contrast of all vectors gives the gradient by
    each of them; then each micro-batch goes through again, under the same seed, and is differentiated from its own
    vectors' gradient on. That is the gradient of the whole batch, with the memory of a micro-batch and one forward
    pass more.

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
