"""Freed memory is kept for the next request, so that a training step does not fault its pages in again."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAULTS = """
import resource, sys
import numpy as np
from stages.run.processes import keep_freed_memory

_, how, size, times = sys.argv
kept = how == "keep" and keep_freed_memory()

def touch():
    np.empty(int(size), dtype=np.uint8)[::4096] = 1

touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(int(times)):
    touch()
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.whole
@pytest.mark.parametrize(("size", "times"), [(2**26, 20), (2**31 + 2**28, 2)])  # more than fits the C library's number
def test_freed_memory_is_kept_for_the_next_request_where_the_c_library_can(size, times):
    found = [subprocess.run([sys.executable, "-c", FAULTS, how, str(size), str(times)], capture_output=True, text=True,
                            check=True, cwd=ROOT).stdout.split() for how in ("plain", "keep")]
    (_, plain), (kept, faults) = [tuple(map(int, words)) for words in found]
    assert kept == (platform.libc_ver()[0] == "glibc")
    assert faults * 4 < plain or not kept
