"""Quiet logging, set up by a command and never at import."""

import logging
import os
import sys

ROOT = "keycontrast"


def logger(name: str) -> logging.Logger:
    """Return the project's logger for ``name`` (a stage or module)."""
    return logging.getLogger(f"{ROOT}.{name}")


def configure(level: str | None = None) -> None:
    """Send warnings (or ``level``, or ``KEYCONTRAST_LOG``) of this project to standard error."""
    chosen = (level or os.environ.get("KEYCONTRAST_LOG") or "WARNING").upper()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    root.setLevel(chosen)
    root.propagate = False
    _quieten_transformers()
    for noisy in ("transformers", "jieba", "matplotlib", "pytextrank"):
        logging.getLogger(noisy).setLevel(logging.ERROR)


def _quieten_transformers() -> None:
    """Switch off its progress bars for loading and writing weights."""
    # For later imports, here and in worker processes.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    library = sys.modules.get("transformers")
    if library is not None:
        library.utils.logging.disable_progress_bar()
        library.utils.logging.set_verbosity_error()
