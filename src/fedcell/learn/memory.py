"""Memory of this process: keep freed memory, map files for arrays that do not fit, refuse what cannot fit.

Training frees and asks for the same activations thousands of times. By default the C library gives large blocks back to
the system at once, and every page of the next one costs a fault. On virtual machines that can take longer than the
arithmetic.
"""

import ctypes
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import OutOfMemory

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEPT_BYTES = 256 << 20
ALWAYS_BYTES = 64 << 20  # less than this always counts as fitting
SHARE = 0.7  # of the free memory that one array may take
GPU_IS_FULL = (  # messages of GPU libraries that find no memory, if PyTorch does not raise its own error
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
)
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
LIMIT, LIMIT_V1 = (  # files of a control group: bytes that it may use and uses; of those in use, what is cache to drop
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
MMAP_BYTES = 32 << 20  # the most that glibc accepts: larger blocks still come straight from the system


@cache
def keep_freed_memory() -> bool:
    """Ask the C library once to hold on to freed memory; False if it cannot be asked."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # absent from other C libraries
    if mallopt is None:
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(M_MMAP_THRESHOLD, MMAP_BYTES))


def available_bytes() -> int | None:
    """Memory available without swapping, within the limits of the control groups; None: unknown."""
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None
    return min([free, *_left_in_groups()])


def _left_in_groups() -> Iterator[int]:
    """The bytes that each limited control group of this process leaves it."""
    for folder, (most, used, dropped) in _groups():
        try:
            limit, taken = (int((folder / name).read_text()) for name in (most, used))
        except (OSError, ValueError):  # no such group here, or its limit is `max`
            continue
        yield limit - taken + _stat(folder / "memory.stat", dropped)


def _stat(file: Path, name: str) -> int:
    try:
        return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(f"{name} "))
    except (OSError, StopIteration, ValueError):
        return 0


def _groups() -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """The folder and files of each control group of this process: its own and those around it, by `/proc/self/cgroup`.

    Containers may see a path that is not mounted for them; the root of the mount is then their group.
    """
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if not kinds or "memory" in kinds.split(","):
            root, files = (GROUPS / "memory", LIMIT_V1) if kinds else (GROUPS, LIMIT)
            own = PurePosixPath(path.lstrip("/"))
            for group in (own, *own.parents):
                yield root / group, files


def gpu_free_bytes(device: torch.device) -> int:
    """Free memory of a GPU, including freed blocks that PyTorch keeps."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def gpu_is_full(error: Exception) -> bool:
    """Whether an exception means that a GPU has no memory left.

    PyTorch has a class for its own allocations. Products, convolutions, graphs and Triton allocate beside it, and fail
    with plain errors if other processes have taken the rest.
    """
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in GPU_IS_FULL)


def fits(n_bytes: int) -> bool:
    """Whether so many bytes fit into memory, with some left for the work itself."""
    free = None if n_bytes < ALWAYS_BYTES else available_bytes()
    return free is None or n_bytes <= SHARE * free


def numbers(n: int, what: str) -> NDArray[np.float32]:
    """An uninitialised array of float32 numbers: in memory, or in a mapped file if it would not fit.

    Args:
        n: how many numbers.
        what: name of the array in the error message.
    """
    return np.empty(n, dtype=np.float32) if fits(4 * n) else mapped(4 * n, what).view(np.float32)


def spilled(tensor: Tensor, what: str) -> Tensor:
    """Copy a CPU tensor into a mapped file (into memory if it is smaller than a page)."""
    if tensor.nbytes < mmap.PAGESIZE:
        return tensor.clone()
    return torch.from_numpy(mapped(tensor.nbytes, what)).view(tensor.dtype).view(tensor.shape).copy_(tensor)


def mapped(n_bytes: int, what: str) -> NDArray[np.uint8]:
    """Allocate bytes in a mapped file without a name, which vanishes with the array or with the process.

    The system moves them between memory and disk as needed.

    Raises:
        OutOfMemory: if the disk has no room for them either.
    """
    folder = tempfile.gettempdir()
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="fedcell-") as file:
            os.posix_fallocate(file.fileno(), 0, n_bytes)  # a full disk raises here, and sends no signal later
            found: NDArray[np.uint8] = torch.from_file(file.name, True, n_bytes, dtype=torch.uint8).numpy()
            return found  # it keeps no file open: a process may have only about a thousand
    except (OSError, RuntimeError) as error:  # PyTorch raises RuntimeError for all failures
        disk, why = float(shutil.disk_usage(folder).free), (getattr(error, "strerror", "") or str(error)).lower()
        raise OutOfMemory(
            f"{_refusal(n_bytes, what)} and {disk:.3g} in {folder} ({why}): train fewer devices per round or a smaller "
            "model, or set TMPDIR to a folder with more space"
        ) from None


def require(n_bytes: int, what: str) -> None:
    """Raise OutOfMemory for an array that does not fit into memory, before the system kills the process."""
    if not fits(n_bytes):
        raise OutOfMemory(f"{_refusal(n_bytes, what)}: take fewer devices, or a machine with more")


def _refusal(n_bytes: int, what: str) -> str:
    free = float(available_bytes() or 0)
    return f"there is no room for {what}: {float(n_bytes):.3g} bytes are needed, {free:.3g} are free in memory"
