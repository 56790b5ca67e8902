"""One training loop for every track: exact accumulation, exact resume, selection on validation."""

from models.common.training.batches import BatchedTask, batches_in_order, epoch_batches
from models.common.training.loop import fit
from models.common.training.settings import Criterion, Settings, warmup_then_constant, warmup_then_decay
from models.common.training.task import (
    Bar,
    Batch,
    CheckpointStore,
    Contrasting,
    Drawing,
    Evaluating,
    History,
    Laborious,
    Lengthy,
    Parameters,
    Parts,
    Step,
    Task,
)
from models.common.training.throughput import Seq2SeqCost, Speed, Work, measured_peak

__all__ = ["Bar", "Batch", "BatchedTask", "CheckpointStore", "Contrasting", "Criterion", "Drawing", "Evaluating",
           "History", "Laborious", "Lengthy", "Parameters", "Parts", "Seq2SeqCost", "Settings", "Speed", "Step", "Task",
           "Work", "batches_in_order", "epoch_batches", "fit", "measured_peak", "warmup_then_constant",
           "warmup_then_decay"]
