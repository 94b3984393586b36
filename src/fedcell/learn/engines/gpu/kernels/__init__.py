"""Kernels in Triton, which comes with PyTorch for GPUs. Without it the ways that need none serve."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch


def kernels(name: str, device: torch.device) -> Any:
    """A module of this folder; None without a GPU or without Triton."""
    return _loaded(name) if device.type == "cuda" else None


@cache
def _loaded(name: str) -> Any:
    return import_module(f".{name}", __package__) if find_spec("triton") else None


def at_once(channels: int) -> int:
    """How many numbers of a pixel a kernel reads and writes at once; it has to know that they divide the channels."""
    return next(n for n in (4, 2, 1) if channels % n == 0)
