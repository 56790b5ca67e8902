"""One training loop for every track: exact accumulation, exact resume, selection on validation."""

from models.common.training.batches import BatchedTask, batches_in_order, epoch_batches
from models.common.training.loop import fit
from models.common.training.settings import Criterion, Settings, warmup_then_constant, warmup_then_decay
from models.common.training.state import Speed
from models.common.training.task import (
    Bar,
    Batch,
    CheckpointStore,
    Contrasting,
    Evaluating,
    History,
    Lengthy,
    Parameters,
    Parts,
    Step,
    Task,
)

__all__ = ["Bar", "Batch", "BatchedTask", "CheckpointStore", "Contrasting", "Criterion", "Evaluating", "History",
           "Lengthy", "Parameters", "Parts", "Settings", "Speed", "Step", "Task", "batches_in_order", "epoch_batches",
           "fit", "warmup_then_constant", "warmup_then_decay"]
