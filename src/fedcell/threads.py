"""How many threads a new process uses for training and the numerical libraries. Imports nothing heavy."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "FEDCELL_CORES")  # read when a process starts


@contextmanager
def children_have(threads: int) -> Iterator[None]:
    """Set the number of threads of processes that start while the context lasts."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
