"""Memory that a training frees and needs again a moment later."""

import ctypes
import sys

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER = -1     # not the largest number that it takes: a step that frees more than 2 GiB would hand them back after all


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory for the next request, rather than hand it back to the system.

    By default every tensor above some megabytes is fetched from the system anew, page by page, in each step of a
    training: with bf16 on a CPU that takes a fifth of the step and more. No value depends on it. A process keeps its
    peak until it ends.

    Returns:
        Whether it was done; only glibc can.
    """
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    return bool(library.mallopt(_MMAP_MAX, 0) and library.mallopt(_TRIM_THRESHOLD, _NEVER))
