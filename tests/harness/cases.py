"""Cases by seed and number, run one after another within a time, and noted so that the same command goes on."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

NOTES = Path(".keycontrast") / "harness"


@dataclass(frozen=True)
class Verdict:
    """What a case came to.

    Attributes:
        what: the attack, short and complete enough to be repeated by hand.
        fault: what should not have happened; empty if nothing.
    """

    what: str
    fault: str = ""


Case = Callable[[random.Random], Verdict]


def draw(seed: int, number: int) -> random.Random:
    """Return the randomness of one case, whatever cases were run before."""
    return random.Random(f"{seed} {number}")  # noqa: S311 - no secret


def run(kind: str, case: Case, count: int, seed: int, minutes: float, notes: Path = NOTES) -> int:
    """Run the cases 0 to ``count`` of a kind that are not noted yet; return how many have failed, noted ones too.

    Args:
        kind: of attack, for the notes.
        case: returns the verdict of one.
        count: cases in all.
        seed: that draws them.
        minutes: after which no further case begins; the same command goes on from there.
        notes: folder of what has been found.
    """
    notes.mkdir(parents=True, exist_ok=True)
    file, end = notes / f"{kind}-{seed}.jsonl", time.monotonic() + 60 * minutes
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    done = {entry["number"] for entry in found}
    with file.open("a", encoding="utf-8") as log:
        for number in range(count):
            if number in done:
                continue
            if time.monotonic() >= end:
                break
            verdict = case(draw(seed, number))
            found.append({"number": number, "what": verdict.what, "fault": verdict.fault})
            log.write(json.dumps(found[-1]) + "\n")
            log.flush()
    counted = [entry for entry in found if entry["number"] < count]
    faults = [entry for entry in counted if entry["fault"]]
    for entry in faults:
        print(f"{kind} {entry['number']}: {entry['what'][:200]}\n    {entry['fault'][:300]}")
    print(f"{kind}, seed {seed}: {len(counted):,} of {count:,} cases, {len(faults):,} failures")
    return len(faults)
