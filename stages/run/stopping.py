"""Being asked to stop, by SIGTERM: a training takes a checkpoint after the step in work, and ends.

Only where somebody waits for it, as the runner of a pack does (:func:`listen`); elsewhere SIGTERM ends a process at
once. A second SIGTERM does so anywhere.
"""

import signal
import threading
from types import FrameType

STATUS = 128 + signal.SIGTERM
_asked = threading.Event()


def listen() -> None:
    """From now on, take SIGTERM as the wish that this process stop at its next checkpoint."""
    signal.signal(signal.SIGTERM, _remember)


def asked() -> bool:
    """Tell whether this process is to stop."""
    return _asked.is_set()


def _remember(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _asked.set()
