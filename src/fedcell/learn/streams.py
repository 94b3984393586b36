"""The random streams that code of a user's draws from: those of PyTorch, NumPy and Python, which a process shares.

They are lent: what builds, trains or judges a network begins them with a number of its own, and afterwards they are as
they were.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ..rng import global_streams


@contextmanager
def lent(device: torch.device | None = None, wanted: bool = True) -> Iterator[None]:
    """Have all shared streams stand afterwards where they stood; those of a GPU, too, if `device` is one."""
    if not wanted:
        yield
        return
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=_gpus(device)):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def begin(number: int) -> None:
    """Have all shared streams begin with a number."""
    # without a GPU `torch.manual_seed` notes for later what it would seed, which takes longer than a small network
    seeded = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    seeded(number)
    random.seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002


def stand(device: torch.device) -> list[Any]:
    """Where the streams stand that a network on a device draws from."""
    of_gpu = [torch.cuda.get_rng_state(one).tolist() for one in _gpus(device)]
    return [torch.get_rng_state().tolist(), *of_gpu, *global_streams()]


def _gpus(device: torch.device | None) -> Sequence[torch.device]:
    return [device] if device is not None and device.type == "cuda" else []
