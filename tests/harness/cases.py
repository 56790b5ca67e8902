"""Cases by seed and number, run one after another within a time, and noted so that the same command goes on."""

import itertools
import json
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NOTES = Path(".keycontrast") / "harness"


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


def run(kind: str, case: Case, count: int, seed: int, minutes: float, notes: Path = NOTES, at_once: int = 1) -> int:
    """Run cases that are not noted yet, until they amount to ``count`` attacks; return how many have failed.

    Args:
        kind: of attack, for the notes.
        case: returns the verdict of one.
        count: attacks in all; noted ones count.
        seed: that draws them.
        minutes: after which no further case begins; the same command goes on from there.
        notes: folder of what has been found.
        at_once: cases side by side.
    """
    notes.mkdir(parents=True, exist_ok=True)
    file, end = notes / f"{kind}-{seed}.jsonl", time.monotonic() + 60 * minutes
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    done = {entry["number"] for entry in found}
    numbers = (number for number in itertools.count() if number not in done)
    guard = threading.Lock()

    def work() -> None:
        while True:
            with guard:
                if _attacks(found) >= count or time.monotonic() >= end:
                    return
                number = next(numbers)
            verdict = case(draw(seed, number))
            with guard, file.open("a", encoding="utf-8") as log:
                found.append({"number": number, **asdict(verdict)})
                log.write(json.dumps(found[-1]) + "\n")

    with ThreadPoolExecutor(at_once) as pool:
        for ended in [pool.submit(work) for _ in range(at_once)]:
            ended.result()
    faults = [entry for entry in found if entry["fault"]]
    for entry in faults:
        print(f"{kind} {entry['number']}: {entry['what'][:200]}\n    {entry['fault'][:300]}")
    print(f"{kind}, seed {seed}: {_attacks(found):,} of {count:,} attacks, {len(faults):,} failures")
    return len(faults)


def _attacks(found: list[dict[str, Any]]) -> int:
    return sum(entry.get("attacks", 1) for entry in found)
