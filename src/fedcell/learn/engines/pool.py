"""Single-threaded workers, one per core, kept between rounds."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import current_thread
from typing import Any

import torch

from ...errors import BadInput

NAME = "fedcell"  # of the threads


def for_each(work: Callable[[Any], None], items: Iterable[Any], workers: int) -> None:
    """Call `work` on every item in `workers` threads (0: one per core), each with single-threaded kernels.

    A worker that asks for workers does the work itself: waiting for its own pool it would wait for ever. So is a single
    item, which a pool could only delay.
    """
    parts = list(items)
    if current_thread().name.startswith(NAME):
        for part in parts:
            work(part)
    elif len(parts) == 1:
        with one_thread():
            work(parts[0])
    else:
        for _ in _pool(workers or cores()).map(work, parts):
            pass


@contextmanager
def one_thread() -> Iterator[None]:
    """Kernels of the calling thread are single-threaded for as long as the context lasts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cores() -> int:
    """Processor cores for this process: those the system gives it, or fewer where `FEDCELL_CORES` says so."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = os.environ.get("FEDCELL_CORES", "")
    if not text:
        return given
    if not text.isdecimal() or int(text) < 1:
        raise BadInput(f"FEDCELL_CORES = {text!r} is no number of cores: set it to 1 or more, or unset it")
    return min(int(text), given)


@lru_cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, NAME, initializer=torch.set_num_threads, initargs=(1,))  # of that thread


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
