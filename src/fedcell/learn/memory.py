"""Memory of this process: keep what was freed, and say beforehand what cannot fit.

Training frees and asks for the same activations thousands of times. By default the C library gives large blocks back to
the system at once, and every page of the next one costs a fault. On virtual machines that can take longer than the
arithmetic.
"""

import ctypes
import sys
from functools import cache
from pathlib import Path

from ..errors import FedcellError

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


def available_bytes() -> int | None:
    """Memory that can be had without swapping, of the machine or of this process's control group; None: not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None
    try:
        group = Path("/sys/fs/cgroup")
        limit, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return min(free, int(limit) - int(used)) if limit != "max" else free
    except (OSError, ValueError):
        return free


def check_updates_fit(rows: int, columns: int) -> None:
    """Refuse a cohort whose updates would not fit, before the system ends the process for it."""
    needed, free = 4 * rows * columns, available_bytes()
    if free is not None and needed > free:
        raise FedcellError(
            f"the updates of {rows} devices need {needed:.3g} bytes ({rows} x {columns} parameters x 4) and "
            f"{float(free):.3g} are free: train fewer devices per round, or a smaller model"
        )
