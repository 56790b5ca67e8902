"""Operations, waits and sorts of a training micro-batch and of a decoded token.

>>> micro_batch(train_hcl, lambda: train_hcl.run(..., device="pretend"))  # doctest: +SKIP
"""

from dataclasses import replace
from unittest import mock

import torch

from pretend.device import switched_on
from pretend.record import recording


class _Measured(Exception):
    """Ends a training once its micro-batch has been looked at."""


def micro_batch(stage, train, size=4, precision="fp32", places=False):
    """Return the record of the second micro-batch of a step: its copy to the device, forward pass, loss and backward.

    It is one in the midst of a step, so that neither the optimiser nor what the first one sets up is in it. Whatever
    the training loop does between two micro-batches is.

    Args:
        stage: module that calls ``fit``.
        train: begins the training on the pretend device, of at least three micro-batches.
        size: items of a micro-batch.
        precision: of the training.
        places: also count operations by place.
    """
    found = []

    def fit(task, settings, *rest, **more):
        changed = replace(settings, prefetch=0, batch_size=4 * size, micro_batch=size, precision=precision)
        return real(_watched(task, found, places), changed, *rest, **more)

    real = stage.fit
    with switched_on(), mock.patch.object(stage, "fit", fit), deterministic():
        try:
            train()
        except _Measured:
            return found[0]
    raise AssertionError("the training had no third micro-batch")


def _watched(task, found, places):
    """Let ``task`` record what is done between its second and its third loading."""
    load, opened, loads = task.load, recording(places), []

    def watched(items):
        loads.append(items)
        if len(loads) == 3:
            opened.__exit__(None, None, None)
            raise _Measured
        loaded = load(items)
        if len(loads) == 2:
            found.append(opened.__enter__())
        return loaded

    task.load = watched
    return task


def decoded_token(decode, short=4, long=8, places=False):
    """Return what one more token costs: (operations, waits, sorts) per token, of the steps between two lengths.

    Args:
        decode: given a number of tokens, decodes exactly so many for each input.
        short: the smaller number.
        long: the larger one.
        places: see :func:`recording`.
    """
    figures = []
    with switched_on(), deterministic():
        decode(short)  # what is made once, such as the model's move to the device
        for length in (short, long):
            with recording(places) as record:
                decode(length)
            figures.append(record.figures())
    return {name: (figures[1][name] - figures[0][name]) / (long - short) for name in figures[0]}


class deterministic:
    """Deterministic algorithms within the block, as all stages ask for; uninitialised memory is not filled."""

    def __enter__(self):
        self.found = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False

    def __exit__(self, *_):
        torch.use_deterministic_algorithms(self.found[0])
        torch.utils.deterministic.fill_uninitialized_memory = self.found[1]
