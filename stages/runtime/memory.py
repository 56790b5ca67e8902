"""Memory that a training frees and needs again a moment later."""

import ctypes
import sys

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
_NEVER = -1         # not a large number: above 2 GiB freed at the end of a step, that would trim after all
_PAD = 2**28        # bytes that the heap grows by, rather than page by page


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory for the next request, rather than hand it back to the system.

    By default every tensor above some megabytes is fetched from the system anew, page by page, in each step of a
    training: with bf16 on a CPU that takes a fifth of the step and more. All threads share one heap, because autograd's
    has one of its own otherwise, in pieces of 64 MiB that go back as soon as they are empty, and what the one frees
    the other cannot have. No value depends on it. A process keeps its peak until it ends.

    Returns:
        Whether it was done; only glibc can.
    """
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    return all([library.mallopt(setting, value) for setting, value in (
        (_MMAP_MAX, 0), (_TRIM_THRESHOLD, _NEVER), (_TOP_PAD, _PAD), (_ARENA_MAX, 1))])
