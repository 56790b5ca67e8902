"""Cases by seed and number, run one after another within a time."""

import itertools
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What a case came to.

    Attributes:
        what: the attack, short and complete enough to be repeated by hand.
        fault: what should not have happened; empty if nothing.
        attacks: how many the case consists of.
    """

    what: str
    fault: str = ""
    attacks: int = 1


Case = Callable[[random.Random], Verdict]


def draw(seed: int, number: int) -> random.Random:
    """Return the randomness of one case, whatever cases were run before."""
    return random.Random(f"{seed} {number}")  # noqa: S311 - no secret


def run(kind: str, case: Case, count: int, seed: int, minutes: float, at_once: int = 1) -> int:
    """Run cases until they amount to ``count`` attacks or the time is over, and print what failed; return how many."""
    end, numbers, guard = time.monotonic() + 60 * minutes, itertools.count(), threading.Lock()
    verdicts: dict[int, Verdict] = {}

    def attacks() -> int:
        return sum(verdict.attacks for verdict in verdicts.values())

    def work() -> None:
        while attacks() < count and time.monotonic() < end:
            with guard:
                number = next(numbers)
            verdicts[number] = case(draw(seed, number))

    with ThreadPoolExecutor(at_once) as pool:
        for ended in [pool.submit(work) for _ in range(at_once)]:
            ended.result()
    faults = {number: verdict for number, verdict in sorted(verdicts.items()) if verdict.fault}
    for number, verdict in faults.items():
        print(f"{kind} {number}: {verdict.what[:200]}\n    {verdict.fault[:300]}")
    print(f"{kind}, seed {seed}: {attacks():,} of {count:,} attacks, {len(faults):,} failures")
    return len(faults)
