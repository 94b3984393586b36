"""The global random streams of PyTorch, NumPy and Python, from which the code of users may draw.

Code that builds or trains a network borrows them: it seeds them with a number of its own and restores them afterwards.
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
    """Restore the state of all global streams on exit, and of those of a GPU if `device` is one; only if `wanted`."""
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
    """Seed all global streams with a number."""
    # without a GPU `torch.manual_seed` queues the seeding of GPUs for later, which takes longer than a small network
    seeded = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    seeded(number)
    random.seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002


def stand(device: torch.device) -> list[Any]:
    """The states of all streams that a network on a device may draw from."""
    of_gpu = [torch.cuda.get_rng_state(one).tolist() for one in _gpus(device)]
    return [torch.get_rng_state().tolist(), *of_gpu, *global_streams()]


def _gpus(device: torch.device | None) -> Sequence[torch.device]:
    return [device] if device is not None and device.type == "cuda" else []
