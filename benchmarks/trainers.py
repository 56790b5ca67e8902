"""What benchmarks beside a Hugging Face ``Trainer`` share: one that takes its items in a given order and is silent."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, Sampler
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from benchmarks.trainings import Clock, device


class Items(Dataset[Any]):
    """What the collator is given, by number."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, item: int) -> Any:
        return self.items[item]


class _Order(Sampler[int]):
    def __init__(self, order: Sequence[int]) -> None:
        self.order = order

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order)


class _InOrder(Trainer):
    """A Trainer that takes its items in a given order."""

    order: Sequence[int]

    def _get_train_sampler(self, train_dataset: Any = None) -> _Order:
        return _Order(self.order)


class _Ends(TrainerCallback):
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_step_end(self, *call: Any, **more: Any) -> None:
        self.clock.update()


def train_in_order(module: nn.Module, items: Sequence[Any], collate: Callable[[list[Any]], dict[str, Any]],
                   order: Sequence[int], batch_size: int, optimiser: torch.optim.Optimizer, clock: Clock,
                   bf16: bool = False, on_cpu: bool | None = None) -> None:
    """Train ``module`` for one epoch with ``transformers.Trainer``, whose output goes nowhere.

    Args:
        module: returns a dictionary with ``loss``; on its device.
        items: what ``collate`` is given.
        collate: makes a batch of items.
        order: of the items; batches are cut from it.
        batch_size: items of a batch.
        optimiser: over the module's parameters; its rate stays as it is.
        clock: takes the time at each step's end.
        bf16: autocast of the products.
        on_cpu: whatever devices there are; None takes the GPU if there is one.
    """
    on_cpu = device() == "cpu" if on_cpu is None else on_cpu
    constant = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=1, per_device_train_batch_size=batch_size, max_grad_norm=1.0,
            bf16=bf16, use_cpu=on_cpu, save_strategy="no", logging_strategy="no", report_to=[],
            disable_tqdm=True, remove_unused_columns=False, dataloader_pin_memory=not on_cpu)
        trainer = _InOrder(module, arguments, collate, Items(items), optimizers=(optimiser, constant),
                           callbacks=[_Ends(clock)])
        trainer.remove_callback(PrinterCallback)
        trainer.order = order
        trainer.train()
