"""One training loop for every track: exact accumulation, exact resume, selection on validation."""

from models.training.loop import fit
from models.training.settings import Criterion, Settings, warmup_then_decay
from models.training.task import Bar, CheckpointStore, History, Parameters, Parts, Step, Task

__all__ = ["Bar", "CheckpointStore", "Criterion", "History", "Parameters", "Parts", "Settings", "Step", "Task",
           "fit", "warmup_then_decay"]
