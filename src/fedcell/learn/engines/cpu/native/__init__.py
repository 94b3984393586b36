"""C++ kernels for what PyTorch has no quick kernel of, compiled once by the compiler of the machine.

If there is no compiler, or it fails, PyTorch's kernels do the work. `FEDCELL_COMPILER` names a compiler other than
the first of c++, g++ and clang++; `none` turns the kernels off. A name that is not found is refused.
"""

import ctypes
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .....errors import BadInput
from ..kernels import Calls

HERE = Path(__file__).parent
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
# kernels that are compiled when they are needed first
IMAGES, LANES, DENSE, SEQUENCES = "images", "lanes", "dense", "sequences"
COMPILERS = ("c++", "g++", "clang++")
OFF = "none"  # in place of a compiler: use no kernels
Lowered = list[Any] | None  # calls of native kernels or PyTorch's that do the work of a recorded one; None: nothing can
PATIENCE_S = 600.0  # a busy machine takes minutes for what an idle one does in seconds


def floats(*values: float) -> Tensor:
    """Return numbers as kernels read them: float32, even if they are integers or PyTorch has another default type."""
    return torch.tensor(values, dtype=torch.float32)


class Native:
    """A call of one kernel, with its numbers and the tensors that it points to."""

    def __init__(self, file: str, kernel: str, numbers: list[int], *tensors: Tensor | None) -> None:
        found = library(file)
        assert found is not None
        self.run = found.run
        self.kernel = _address(found, kernel)
        self.numbers = (ctypes.c_long * len(numbers))(*numbers)
        self.tensors = tensors  # kept for as long as somebody may call
        self.pointers = (ctypes.c_void_p * len(tensors))(*(None if one is None else one.data_ptr() for one in tensors))

    def __call__(self) -> None:
        """Run the kernel by itself, in lists that were not gathered."""
        _Run([self])()

    def triple(self) -> tuple[int | None, int, int]:
        return self.kernel, ctypes.addressof(self.numbers), ctypes.addressof(self.pointers)


class _Run:
    """Several kernels in one call, which releases the lock of Python."""

    def __init__(self, natives: list[Native]) -> None:
        self.natives = natives
        flat = [value for one in natives for value in one.triple()]
        self._table = (ctypes.c_void_p * len(flat))(*flat)
        self._run = natives[0].run

    def __call__(self) -> None:
        if self._run(self._table, len(self.natives)):
            raise IndexError("index out of range in self")  # in PyTorch's words


def gathered(calls: list[Any]) -> Calls:
    """Return the same calls, with consecutive native ones joined into one."""
    found, waiting = Calls(), list[Native]()
    for call in [*calls, None]:
        if isinstance(call, Native):
            waiting.append(call)
            continue
        if waiting:
            found.append(_Run(waiting))
            waiting = []
        if call is not None:
            found.append(call)
    return found


@lru_cache
def _address(found: ctypes.CDLL, kernel: str) -> int | None:
    return ctypes.cast(getattr(found, kernel), ctypes.c_void_p).value


@lru_cache
def library(file: str) -> ctypes.CDLL | None:
    """The compiled kernels of a file; None if there is no compiler."""
    try:
        path = _compiled(file)
        return None if path is None else ctypes.CDLL(str(path))
    except OSError:
        return None


def compiler_path() -> str | None:
    """The path of the C++ compiler; None if there is none, or if `FEDCELL_COMPILER` turns the kernels off."""
    wanted = os.environ.get("FEDCELL_COMPILER", "")
    if wanted == OFF:
        return None
    found = next((found for one in ([wanted] if wanted else COMPILERS) if (found := shutil.which(one))), None)
    if wanted and found is None:
        raise BadInput(f"FEDCELL_COMPILER = {wanted!r} is not found: set it to a C++ compiler or {OFF}, or unset it")
    return found


def _compiled(file: str) -> Path | None:
    """Return the library of a file, compiled unless it exists; None if it cannot be compiled."""
    if (compiler := compiler_path()) is None:
        return None
    sources = [*sorted(HERE.glob("*.h")), HERE / f"{file}.cpp"]
    parts = [path.read_bytes() for path in sources] + [_processor(), compiler.encode(), " ".join(FLAGS).encode()]
    path = _folder() / f"{file}-{hashlib.sha256(b'|'.join(parts)).hexdigest()[:16]}.so"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes that start together wait for the first one
        return path if path.exists() or _compile(compiler, sources[-1], path) else None


def _compile(compiler: str, source: Path, path: Path) -> bool:
    """Compile a library, whole or not at all; return whether that succeeded."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        try:
            done = subprocess.run(
                [compiler, *FLAGS, "-o", str(made), str(source)], capture_output=True, timeout=PATIENCE_S
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode:
            return False
        made.rename(path)
    return True


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fedcell"


def _processor() -> bytes:
    """Describe the processor, which `-march=native` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor().encode()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})).encode()
