"""In which order stage instances run: each when it may, and of those that may the one that most waits for."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pipeline.running.dag import Dag, StageNode


class Turns:
    """Turns for stage instances, a few at a time.

    A turn is kept for the best of those whose inputs are there, though its task may need a moment to ask for it: what
    asks first would else take it, and be in the way for as long as a training takes.

    Args:
        dag: stage instances that will ask, or are said to have ended.
        seconds: that each is expected to take; one that is not listed, a second.
        at_once: turns.
        devices: how many devices there are, each counted once per stage that may share it.
        needed: how many of them a stage instance takes.
        passed: tells whether one will end without asking.
    """

    def __init__(self, dag: Dag, seconds: Mapping[str, float], at_once: int, devices: int,
                 needed: Callable[[StageNode], int], passed: Callable[[StageNode], bool]) -> None:
        self._best = ranked(dag, seconds)
        self._free, self._devices, self._needed, self._passed = at_once, devices, needed, passed
        self._names = {node.name for node in dag.nodes}
        self._open, self._given, self._done = set(self._names), set[str](), set[str]()
        self._stopped = False
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, node: StageNode) -> Iterator[None]:
        """Wait for the turn of ``node``, and have it for the length of the block.

        After a block that raised it is out of the order, until it asks again.
        """
        with self._changed:
            if node.name not in self._given:
                self._open.add(node.name)
                self._give()
            self._changed.wait_for(lambda: node.name in self._given or self._stopped)
        try:
            yield
        except BaseException:
            self.ended(node, done=False)
            raise
        self.ended(node, done=True)

    def ended(self, node: StageNode, done: bool) -> None:
        """Take it that ``node`` has ended, with or without a turn; what reads from it may follow if it is ``done``."""
        with self._changed:
            self._open.discard(node.name)
            if node.name in self._given:
                self._given.remove(node.name)
                self._free += 1
                self._devices += self._needed(node)
            if done:
                self._done.add(node.name)
            self._give()

    def stop(self) -> None:
        """Let all that wait go on, to find that the run is over."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _give(self) -> None:
        """Give free turns to the best; what waits for devices lets others go first that need none."""
        waits_for_devices = False
        for node in self._best:
            if not self._free:
                break
            if node.name not in self._open or self._passed(node) or not self._names.intersection(
                    node.upstream) <= self._done:
                continue
            needed = self._needed(node)
            waits_for_devices |= needed > self._devices
            if needed and waits_for_devices:
                continue
            self._open.remove(node.name)
            self._given.add(node.name)
            self._free -= 1
            self._devices -= needed
        self._changed.notify_all()


def ranked(dag: Dag, seconds: Mapping[str, float]) -> list[StageNode]:
    """Return the stage instances from the one that is to run first.

    That are those that a first page needs; then by the longest way from the instance to the end, itself included.
    """
    first = dag.upstream(node.name for node in dag.nodes if node.first)
    way: dict[str, float] = {}
    after: dict[str, float] = {}
    for node in reversed(dag.nodes):
        way[node.name] = seconds.get(node.name, 1.0) + after.get(node.name, 0.0)
        for name in node.upstream:
            after[name] = max(after.get(name, 0.0), way[node.name])
    return sorted(dag.nodes, key=lambda node: (node.name not in first, -way[node.name]))
