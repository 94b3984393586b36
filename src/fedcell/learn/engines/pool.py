"""Single-threaded workers, one per core, kept between rounds."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import torch


def for_each(work: Callable[[Any], None], items: Iterable[Any], workers: int) -> None:
    """Call `work` on every item in `workers` threads (0: one per core), each with single-threaded kernels."""
    for _ in _pool(workers or os.cpu_count() or 1).map(work, items):
        pass


@lru_cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "fedcell", initializer=torch.set_num_threads, initargs=(1,))  # of that thread


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
