"""Runs to be done: one after the other, or side by side in processes of one thread each.

What to do is a job per key, so that runs of several experiments can share the processes. None waits in a queue, so that
Ctrl-C ends soon; jobs begin in the order in which they are given. The processes end with the one that started them.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import NamedTuple, TypeVar

import torch

from ..threads import children_have
from .stores import Row
from .under_way import TimeIsUp, Way

Key = TypeVar("Key")


class Timed(NamedTuple):
    """A row, and the seconds of this machine that it took: those of n runs side by side count a n-th each."""

    row: Row
    machine_s: float


Job = Callable[[Way, int], Timed]  # where the run leaves its state, how many run side by side; it can be pickled


def play(jobs: Mapping[Key, Job], ways: Mapping[Key, Way], workers: int) -> Iterator[tuple[Key, Timed]]:
    """(key, timed row) of every run as it ends; the first failure is raised when all others are through."""
    failures: list[Exception] = []
    for key, result in outcomes(jobs, ways, workers):
        if isinstance(result, Exception):
            failures.append(result)  # the other runs are worth keeping
        else:
            yield key, result
    if failures:
        raise failures[0]


def outcomes(jobs: Mapping[Key, Job], ways: Mapping[Key, Way], workers: int) -> Iterator[tuple[Key, Timed | Exception]]:
    """(key, timed row or why it failed) of every run as it ends; those whose time was up are left out."""
    for key, result in _alone(jobs, ways) if workers == 1 else _side_by_side(jobs, ways, workers):
        if not isinstance(result, TimeIsUp):
            yield key, result


def _alone(jobs: Mapping[Key, Job], ways: Mapping[Key, Way]) -> Iterator[tuple[Key, Timed | Exception]]:
    for key, job in jobs.items():
        if ways[key].time_is_up:
            return
        try:
            result: Timed | Exception = job(ways[key], 1)
        except Exception as error:
            result = error
        yield key, result


def _side_by_side(
    jobs: Mapping[Key, Job], ways: Mapping[Key, Way], workers: int
) -> Iterator[tuple[Key, Timed | Exception]]:
    n = min(workers, len(jobs))
    with children_have(1), ProcessPoolExecutor(workers, get_context("spawn"), _begin) as pool:
        rest = iter(jobs.items())
        under_way: dict[Future[Timed], Key] = {}
        while True:
            while len(under_way) < workers and (one := next(rest, None)) and not ways[one[0]].time_is_up:
                key, job = one
                under_way[pool.submit(job, ways[key], n)] = key
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                error = future.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield under_way.pop(future), error or future.result()


def _begin() -> None:
    """What a new process does first."""
    torch.set_num_threads(1)
    if (parent := parent_process()) is not None:
        Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """A run of half an hour would go on without anybody to hand it to, beside the one that is started again."""
    parent.join()
    os._exit(1)
