"""What the pretend device counts, and the line of this repository that each count came from."""

import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = f"{Path(__file__).resolve().parents[2]}/"
_OWN = tuple(f"{ROOT}{folder}/" for folder in ("models", "stages", "pipeline", "benchmarks"))


@dataclass
class Record:
    """What was done on the device; counters are by (what, place), a place being ``file:line`` or ``backward``.

    Attributes:
        operations: aten operations that launch a kernel, by name.
        waits: places where the host waits for the device: numbers and tensors read, sizes that depend on values.
        blocking: copies from ordinary memory to the device that hold up the host.
        copies: copies to the device that do not, by name.
        sorts: operations that sort, most of them for the sake of determinism.
        recurrent: recurrent layers computed under autocast, which CUDA does in fp16.
        launched: of :attr:`operations`, by place; only with ``places=True``, as the next.
        types: by name and type of the first floating-point operand.
    """

    places: bool = False
    operations: Counter = field(default_factory=Counter)
    waits: Counter = field(default_factory=Counter)
    blocking: Counter = field(default_factory=Counter)
    copies: Counter = field(default_factory=Counter)
    sorts: Counter = field(default_factory=Counter)
    recurrent: Counter = field(default_factory=Counter)
    launched: Counter = field(default_factory=Counter)
    types: Counter = field(default_factory=Counter)

    def open(self):
        """Count from now on."""
        _ACTIVE.append(self)
        return self

    def close(self):
        """Count no longer."""
        _ACTIVE.remove(self)

    def launch(self, name, kind):
        """Count one operation, on operands of ``kind``."""
        self.operations[name] += 1
        if self.places:
            self.launched[name, place()] += 1
            self.types[name, kind] += 1

    def figures(self):
        """Return the totals by name."""
        return {name: getattr(self, name).total() for name in ("operations", "waits", "blocking", "sorts")}

    def table(self):
        """Return the totals, and every wait, blocking copy and sort with its place, as text."""
        lines = [", ".join(f"{name} {count}" for name, count in self.figures().items())]
        for kind in ("waits", "blocking", "sorts"):
            lines += [f"  {kind:8} {count:4}  {what}  {where}"
                      for (what, where), count in sorted(getattr(self, kind).items(), key=lambda one: -one[1])]
        return "\n".join(lines)


_ACTIVE: list[Record] = []


@contextmanager
def recording(places=False):
    """Count what the device does within the block; ``places`` also counts operations by place, slowly."""
    record = Record(places).open()
    try:
        yield record
    finally:
        record.close()


def active():
    """Return the records that are open."""
    return _ACTIVE


def note(kind, what):
    """Count ``what`` under ``kind`` (``waits``, ``blocking``, ...) in the open records, with its place."""
    if _ACTIVE:
        where = place()
        for record in _ACTIVE:
            getattr(record, kind)[what, where] += 1


def place():
    """Return ``file:line`` of the innermost frame in this repository's code, or in a library outside torch.

    In the backward pass the frames say only where it began: ``backward``.
    """
    frame, library = sys._getframe(1), None
    while frame is not None:
        name = frame.f_code.co_filename
        if name.endswith("/torch/autograd/graph.py"):
            return "backward"
        if name.startswith(_OWN):
            return f"{name[len(ROOT):]}:{frame.f_lineno}"
        if library is None and "site-packages/" in name and "/torch/" not in name:
            library = f"{name.split('site-packages/')[1]}:{frame.f_lineno}"
        frame = frame.f_back
    return library or "elsewhere"
