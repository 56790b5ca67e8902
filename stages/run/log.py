"""Quiet logging, set up by a command and never at import, and progress bars."""

import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keycontrast.errors import plain
from keycontrast.progress import progress_bar

ROOT = "keycontrast"


def logger(name: str) -> logging.Logger:
    """Return the project's logger for ``name`` (a stage or module)."""
    return logging.getLogger(f"{ROOT}.{name}")


def configure() -> None:
    """Send warnings of this project, or the level ``KEYCONTRAST_LOG``, to standard error, and silence libraries."""
    handler = logging.StreamHandler(sys.stderr)
    form = logging.Formatter("%(levelname)s %(name)s: %(message)s")
    handler.format = lambda record: plain(form.format(record))  # type: ignore[method-assign]
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    level = os.environ.get("KEYCONTRAST_LOG", "").upper()
    root.setLevel(level if level in logging.getLevelNamesMapping() else "WARNING")
    root.propagate = False
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # No progress bars for loading and writing weights, here and in worker processes.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    library = sys.modules.get("transformers")
    if library is not None:
        library.utils.logging.disable_progress_bar()
        library.utils.logging.set_verbosity_error()


class TrainingBar:
    """The progress of a training: a bar of its steps, or a line per epoch in a log."""

    def __init__(self, what: str, total: int, done: int, scratch: Path) -> None:
        """Show ``done`` of ``total`` steps of the training ``what``."""
        self._what, self._total, self._first = what, total, done
        self._began = time.monotonic()
        self._bar = progress_bar(what, total, "step", done)
        self.update = self._bar.update
        if not sys.stderr.isatty():
            self._bar.write(f"{what}: step {done} of {total}; a line follows per epoch, and checkpoints are written to "
                            f"{scratch}", file=sys.stderr)

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Write the line of an epoch from its row of the history, if there is no terminal."""
        if sys.stderr.isatty():
            return
        left = (time.monotonic() - self._began) / max(row["step"] - self._first, 1) * (self._total - row["step"])
        epochs = round(self._total * row["epoch"] / row["step"])
        values = "".join(f", {name} {value:.4g}" for name, value in row.items()
                         if name == "train_loss" or name.startswith("validation_"))
        self._bar.write(f"{self._what}: epoch {row['epoch']}/{epochs}{values}{', best so far' * row['best']}; "
                        f"{left:.0f} s left", file=sys.stderr)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()
