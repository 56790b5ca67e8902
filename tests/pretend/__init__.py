"""A pretend accelerator: a device that computes on the CPU, with real values, and behaves as CUDA does.

Its tensors refuse what CUDA refuses (operands on two devices, ``.numpy()``, operations without a deterministic
implementation under ``torch.use_deterministic_algorithms``), and it counts what makes a GPU slow: operations
dispatched, and places where the host waits for the device. The parts:

- ``rules``: what CUDA does with which operation; pure functions of an operation and its arguments.
- ``record``: what is counted, and where in this repository it came from.
- ``device``: the device itself, registered with torch once per process, and :func:`switched_on`.
- ``autocast``: CUDA's autocast lists for it, out of the header that torch ships.
- ``measure``: operations and waits of a training micro-batch and of a decoded token.

>>> with switched_on(), recording() as record:  # doctest: +SKIP
...     torch.ones(3, device=DEVICE).sum().item()
>>> record.waits.total()  # doctest: +SKIP
1
"""

from pretend.device import DEVICE, NAME, PretendTensor, switched_on
from pretend.record import Record, recording

__all__ = ["DEVICE", "NAME", "PretendTensor", "Record", "recording", "switched_on"]
