"""Keep freed memory in the process: training frees and asks for the same activations thousands of times.

By default the C library gives large blocks back to the system at once, and every page of the next
one costs a fault. On virtual machines that can take longer than the arithmetic.
"""

import ctypes
import sys
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEPT_BYTES = 256 << 20
MMAP_BYTES = 32 << 20  # the most that glibc takes: larger blocks still come straight from the system


@cache
def keep_freed_memory() -> bool:
    """Ask the C library once to hold on to freed memory; False where it cannot be asked."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # absent from other C libraries
    if mallopt is None:
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(M_MMAP_THRESHOLD, MMAP_BYTES))
