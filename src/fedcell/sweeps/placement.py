"""Which runs of a sweep share a GPU: as many at a time as its memory has room for.

What a run needs is what `train.gpu_gib` says, or is estimated from its network, samples and cohort. A run that needs
more than a whole GPU gets one alone, and trains in smaller cohorts.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, prod
from threading import Condition
from typing import Any

import torch

from .. import options
from ..learn.engines.gpu.chunks import SHARE, row_bytes
from ..scenarios import Config, build_problem
from .task import SweepRun

CONTEXT_BYTES = 1 << 30  # of CUDA and its libraries in every process
GIB = float(1 << 30)


def gpu_bytes() -> list[tuple[int, int]]:
    """(free, total) bytes of each GPU of this machine; empty if there is none."""
    n = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [torch.cuda.mem_get_info(number) for number in range(n)]


def visible(number: int) -> str:
    """The name in `CUDA_VISIBLE_DEVICES` of the GPU that this process sees as `number`."""
    named = [text for text in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if text]
    return named[number] if named else str(number)


def needed_bytes(task: SweepRun, known: dict[str, int]) -> int:
    """GPU memory that a run needs, in bytes; `known` keeps the estimates, which do not depend on the seed.

    A run whose problem cannot be built needs none: it begins, meets the same error, and reports it.
    """
    config: Config = options.from_dict(Config(), task.config)
    if config.train.device == "cpu":
        return 0
    if config.train.gpu_gib:
        return int(config.train.gpu_gib * GIB)
    rows = _rows(config, task.settings)
    key = repr((options.to_dict(replace(config, seed=0)), rows))
    if key not in known:
        try:
            known[key] = estimated_bytes(config, rows)
        except Exception:  # the run itself says why
            known[key] = 0
    return known[key]


def estimated_bytes(config: Config, rows: int) -> int:
    """Estimate the memory of CUDA itself, samples, the updates of two rounds, and a cohort of `rows` devices."""
    learner = build_problem(replace(config, train=replace(config.train, device="cpu", shards=0))).learner
    shape, batch = learner.train_samples.shape, config.train.batch_size
    if not batch:  # the whole store
        batch = ceil(len(learner.train_samples) / config.world.n_devices)
    samples = 4 * prod(shape) * (len(learner.train_samples) + len(learner.test_samples))
    cohort = rows * row_bytes(learner.n_params, batch, shape, config.train.optimiser == "adamw")
    return int(CONTEXT_BYTES + samples + 2 * 4 * rows * learner.n_params + cohort / SHARE)


def _rows(config: Config, settings: Any) -> int:
    """The most devices that train in a round."""
    n, few = config.world.n_devices, settings.get("n_selected")
    asks_all = few is None or settings.get("scheduler", "all") == "all"
    return n if asks_all else min(n, int(few) * config.world.n_cells)


def share_of_gpu(tasks: Sequence[SweepRun], share: float) -> float:
    """The part of a GPU that each worker of a Ray cluster asks for, so that the largest run fits into it.

    Args:
        tasks: the runs.
        share: that each worker would have if all were alike; 0: the cluster has no GPUs.
    """
    sizes = [whole for _, whole in gpu_bytes()] if share else []
    if not sizes:
        return share
    known: dict[str, int] = {}
    most = max(needed_bytes(task, known) for task in tasks) / min(sizes)
    return min(max(share, ceil(100 * most) / 100), 1.0)


class Places:
    """The memory of the GPUs of this machine, handed out to runs.

    Args:
        free: bytes of each GPU; empty: there is none, and every run may begin at once.
        need: bytes that a run takes.
    """

    def __init__(self, free: Sequence[int], need: Callable[[SweepRun], int]) -> None:
        self.free, self.need = list(free), need
        self.running = [0] * len(self.free)
        self.changed = Condition()

    def next_run(self, gpu: int, waiting: "deque[SweepRun]", stopped: Callable[[], bool]) -> SweepRun | None:
        """Wait until a run fits on a GPU and take it; None when no run is left, or once `stopped`."""
        with self.changed:
            while waiting and not stopped():
                for task in list(waiting):
                    if not self.free or self.need(task) <= self.free[gpu] or not self.running[gpu]:
                        waiting.remove(task)
                        self._count(gpu, task, 1)
                        return task
                self.changed.wait(0.5)
        return None

    def give_back(self, gpu: int, task: SweepRun) -> None:
        """Release the memory of a run that has ended."""
        with self.changed:
            self._count(gpu, task, -1)
            self.changed.notify_all()

    def _count(self, gpu: int, task: SweepRun, sign: int) -> None:
        if self.free:
            self.free[gpu] -= sign * self.need(task)
            self.running[gpu] += sign
