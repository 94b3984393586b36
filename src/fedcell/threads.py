"""How many threads a process begins with, for training and the numerical libraries. Imports nothing heavy."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "FEDCELL_CORES")  # read when it begins


@contextmanager
def children_have(threads: int) -> Iterator[None]:
    """Processes that begin while the context lasts have so many threads."""
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
