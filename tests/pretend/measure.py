"""Operations, waits and sorts of a training micro-batch and of a decoded token.

>>> micro_batch(train_hcl, lambda: train_hcl.run(..., device="pretend"))  # doctest: +SKIP
"""

from contextlib import nullcontext
from dataclasses import replace
from unittest import mock

import torch
from pretend.device import switched_on
from pretend.record import Record, recording
from torch.optim.optimizer import register_optimizer_step_pre_hook


class _Measured(BaseException):
    """Ends a training once its micro-batch has been looked at."""


def micro_batch(stage, train, size=4, precision="fp32", places=False, further=False):
    """Return the record of a step of one micro-batch: its copy to the device, forward pass, loss, backward, clipping.

    It is the second step, so that what the first one sets up is not in it, and it ends before the optimiser's update.
    With ``further`` a step has two micro-batches, which contrast for themselves, and the second is looked at: its
    gradients are added to those of the first.

    Args:
        stage: module that calls ``fit``.
        train: begins the training on the pretend device.
        size: items of a micro-batch.
        precision: of the training.
        places: also count operations by place and by type.
    """
    found = []

    def fit(task, settings, *rest, **more):
        changed = replace(settings, prefetch=0, batch_size=size * (1 + further), micro_batch=size, precision=precision)
        with mock.patch("models.common.training.loop.Contrasting", _Nothing) if further else nullcontext():
            return real(_watched(task, found, places, 2 * (1 + further)), changed, *rest, **more)

    def updates(*_):
        if found:
            raise _Measured

    real, handle = stage.fit, register_optimizer_step_pre_hook(updates)
    try:
        with switched_on(), mock.patch.object(stage, "fit", fit), deterministic():
            train()
    except _Measured:
        found[0].close()
        return found[0]
    finally:
        handle.remove()
    raise AssertionError("the training had no second step")


class _Nothing:
    """What no task is an instance of."""


def _watched(task, found, places, which):
    """Let ``task`` begin a record with its loading of this number."""
    load, loads = task.load, []

    def watched(items):
        loads.append(items)
        loaded = load(items)
        if len(loads) == which:
            found.append(Record(places).open())
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
